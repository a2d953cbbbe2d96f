/** The lock: a ConfigMap that records which content each module has. Only the leader changes it. */

import {
  CONFIG_MAPS,
  create,
  get,
  ignoreNotFound,
  isNotFound,
  MANAGED_BY_OPERATOR,
  mergePatch,
  type ConfigMap,
  type KubeClient,
} from "../kube/index.ts";
import { attempt, parseJson } from "../lib/index.ts";
import { isJsonObject, objectOf, type Json } from "../model/index.ts";
import { isDigest } from "../registry/index.ts";
import { linkProblem } from "./disk/module-links.ts";
import type { Lock, LockEntry } from "./types.ts";

/** Name of the lock of the operator with this ConfigMap. */
function lockName(configMap: string): string {
  return `${configMap}-modules`;
}

/** Annotation of the lock with the uid of the CRD whose ModuleSources it follows. */
const CRD_UID = "addon-operator.io/modulesources-crd-uid";
/** Most characters of an entry: some 500 fit into one ConfigMap. */
const LARGEST_ENTRY = 2048;

interface LockOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the operator's ConfigMap. */
  readonly configMap: string;
}

/** What the ConfigMap contains. */
export interface LockContent {
  readonly entries: Lock;
  readonly crdUid: string | undefined;
  /** Names of entries that cannot be read. */
  readonly damaged: readonly string[];
}

/** Reads and writes the lock. */
export class LockFile {
  readonly #options: LockOptions;
  readonly name: string;

  constructor(options: LockOptions) {
    this.#options = options;
    this.name = lockName(options.configMap);
  }

  /** Throws ApiError, ConnectionError. */
  async read(): Promise<LockContent> {
    const { client, namespace } = this.#options;
    const target = { resource: CONFIG_MAPS, namespace, name: this.name };
    return this.parse(await get<ConfigMap>(client, target).catch(ignoreNotFound));
  }

  /** The content of the ConfigMap. */
  parse(object: Pick<ConfigMap, "data" | "metadata"> | undefined): LockContent {
    const entries = new Map<string, LockEntry>();
    const damaged: string[] = [];
    for (const [name, text] of Object.entries(object?.data ?? {})) {
      const entry = linkProblem(name) === undefined ? parseEntry(text) : undefined;
      if (entry === undefined) damaged.push(name);
      else entries.set(name, entry);
    }
    const crdUid = object?.metadata.annotations?.[CRD_UID];
    return { entries, crdUid, damaged };
  }

  /** Writes one entry; undefined removes it. Throws ApiError, ConnectionError, RangeError for an entry that is too large. */
  async write(name: string, entry: LockEntry | undefined): Promise<void> {
    const text = entry === undefined ? null : JSON.stringify(entry);
    if (text !== null && text.length > LARGEST_ENTRY)
      throw new RangeError(`its entry in the lock has more than ${LARGEST_ENTRY} characters`);
    await this.#patch({ data: { [name]: text } });
  }

  /** Records the CRD whose objects the lock follows. Throws ApiError, ConnectionError. */
  async writeCrd(uid: string): Promise<void> {
    await this.#patch({ metadata: { annotations: { [CRD_UID]: uid } } });
  }

  /** Changes the ConfigMap; creates it if there is none. */
  async #patch(change: {
    readonly data?: Readonly<Record<string, string | null>>;
    readonly metadata?: { readonly annotations: Readonly<Record<string, string>> };
  }): Promise<void> {
    const { client, namespace } = this.#options;
    try {
      await mergePatch(client, { resource: CONFIG_MAPS, namespace, name: this.name }, { body: change });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const metadata = { name: this.name, namespace, labels: MANAGED_BY_OPERATOR, ...change.metadata };
      const data = Object.fromEntries(Object.entries(change.data ?? {}).filter(([, text]) => text !== null));
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
      await create(client, { resource: CONFIG_MAPS, namespace }, { body });
    }
  }
}

/** As the CRD has it. */
const LARGEST_ORDER = 999_999;

const isText = (value: Json | undefined): boolean => typeof value === "string";
const isNumber = (value: Json | undefined): boolean => typeof value === "number" && Number.isFinite(value);
const isSet = (value: Json | undefined): boolean => value === true;

function isContent(value: Json | undefined): boolean {
  return isJsonObject(value) && isText(value["version"]) && isDigest(value["digest"]);
}

/** What an entry has in any case. */
const NEEDED: Readonly<Partial<Record<keyof LockEntry, (value: Json | undefined) => boolean>>> = {
  source: isText,
  version: isText,
  digest: isDigest,
  verifiedBy: isText,
  at: isNumber,
};

/** What an entry may have. */
const OPTIONAL: typeof NEEDED = {
  order: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= LARGEST_ORDER,
  enabled: (value) => typeof value === "boolean",
  chart: isChart,
  isNew: isSet,
  isBack: isSet,
  removed: isSet,
  previous: isContent,
  rejected: (value) => Array.isArray(value) && value.every(isDigest),
  rejectedFor: isText,
  seen: (value) => isContent(value) && isJsonObject(value) && isNumber(value["since"]),
};

/**
 * An entry, without fields that nobody can have written here; undefined for text that is none. A chart that cannot be read
 * counts, too: without it, the entry would be one of a module.
 */
function parseEntry(text: string): LockEntry | undefined {
  const value = attempt(() => parseJson(text));
  if (!isJsonObject(value)) return undefined;
  for (const [key, isValid] of Object.entries(NEEDED)) if (!isValid(value[key])) return undefined;
  if (value["chart"] !== undefined && !isChart(value["chart"])) return undefined;
  const valid = Object.entries({ ...NEEDED, ...OPTIONAL }).filter(([key, isValid]) => isValid(value[key]));
  return Object.fromEntries(valid.map(([key]) => [key, value[key]])) as unknown as LockEntry;
}

/** Whether a value is a chart as this program writes it. */
function isChart(value: Json | undefined): boolean {
  const { from, name, unsigned, terms } = objectOf(value);
  const isPlaced = isText(from) && isText(name);
  return (
    isPlaced && (unsigned === undefined || unsigned === true) && (terms === undefined || isJsonObject(terms))
  );
}
