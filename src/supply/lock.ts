/** The lock: a ConfigMap that records which content each module has. Only the leader changes it. */

import {
  CONFIG_MAPS,
  create,
  get,
  ignoreNotFound,
  isNotFound,
  MADE_HERE,
  mergePatch,
  type ConfigMap,
  type KubeClient,
} from "../kube/index.ts";
import { parseJson } from "../lib/index.ts";
import { isJsonObject, objectOf, type Json } from "../model/index.ts";
import { isDigest } from "../registry/index.ts";
import type { ChartContent, Lock, LockEntry, Wish } from "./types.ts";

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
      const entry = parseEntry(text);
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
      const metadata = { name: this.name, namespace, labels: MADE_HERE, ...change.metadata };
      const data = Object.fromEntries(Object.entries(change.data ?? {}).filter(([, text]) => text !== null));
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
      await create(client, { resource: CONFIG_MAPS, namespace }, { body });
    }
  }
}

/** What stands in `verifiedBy` for a chart that needs no signature. Names of keys end with `.pub`. */
export const UNSIGNED = "unsigned";

/** What the lock keeps of a wish besides its content. */
export function termsOf(
  { order, enabled }: Wish,
  chart: ChartContent | undefined,
): Pick<LockEntry, "order" | "enabled" | "chart"> {
  return {
    ...(order === undefined ? {} : { order }),
    ...(enabled === undefined ? {} : { enabled }),
    ...(chart && { chart }),
  };
}

/** An entry without what a wish sets, and named by a source. */
export function withoutTerms({
  order: _order,
  enabled: _enabled,
  chart: _chart,
  removed: _removed,
  ...entry
}: LockEntry): LockEntry {
  return entry;
}

/** An entry; undefined for text that is none. */
function parseEntry(text: string): LockEntry | undefined {
  const value = parsed(text);
  if (!isJsonObject(value)) return undefined;
  const { source, version, digest, verifiedBy, at } = value;
  const isValid =
    [source, version, verifiedBy].every((each) => typeof each === "string") &&
    isDigest(digest) &&
    isChart(value["chart"]) &&
    typeof at === "number";
  return isValid ? (value as unknown as LockEntry) : undefined;
}

/** Whether an entry has a chart as this program writes it, or none. */
function isChart(value: Json | undefined): boolean {
  if (value === undefined) return true;
  const { from, name } = objectOf(value);
  return typeof from === "string" && typeof name === "string";
}

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
