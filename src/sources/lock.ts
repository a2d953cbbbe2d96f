/** The lock: a ConfigMap that records which content each module has. Every process keeps it in memory; only the leader changes it. */

import { isDeepStrictEqual } from "node:util";

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
import { attempt, parseJson } from "../base/index.ts";
import { isJsonObject, objectOf, type Json } from "../base/model/index.ts";
import { isDigest } from "./registry/index.ts";
import { describeNameProblem } from "./disk/module-links.ts";
import type { Lock, LockEntry } from "./types.ts";

/** Annotation of the lock with the uid of the CRD whose ModuleSources it follows. */
const CRD_UID_ANNOTATION = "addon-operator.io/modulesources-crd-uid";
/** Most characters of an entry: some 500 fit into one ConfigMap. */
const MAX_ENTRY_CHARS = 2048;

interface LockOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name of the operator's ConfigMap. */
  readonly configMap: string;
}

/** A change of the ConfigMap; null removes an entry. */
interface LockChange {
  readonly data?: Readonly<Record<string, string | null>>;
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
}

/** What the ConfigMap contains. */
export interface LockContent {
  readonly entries: Lock;
  readonly crdUid: string | undefined;
  /** Names of entries that cannot be read. */
  readonly damaged: readonly string[];
}

/** Reads and writes the lock, and keeps what this process has read or written last. */
export class LockConfigMap {
  readonly #options: LockOptions;
  #content: LockContent = { entries: new Map(), crdUid: undefined, damaged: [] };
  /** Name of the ConfigMap. */
  readonly name: string;

  constructor(options: LockOptions) {
    this.#options = options;
    this.name = `${options.configMap}-modules`;
  }

  /** The entries by name of the module. A change makes another map. */
  get entries(): Lock {
    return this.#content.entries;
  }

  get crdUid(): string | undefined {
    return this.#content.crdUid;
  }

  /** Names of entries that cannot be read. */
  get damaged(): readonly string[] {
    return this.#content.damaged;
  }

  /** Replaces what this process knows of the lock by what was read. */
  load(content: LockContent): void {
    this.#content = content;
  }

  /** Reads the ConfigMap, without an effect on `entries`. Throws ApiError, ConnectionError. */
  async read(): Promise<LockContent> {
    return this.parse(await get<ConfigMap>(this.#options.client, this.#target).catch(ignoreNotFound));
  }

  /** Parses the ConfigMap. Keys with an invalid name or entry are listed as `damaged`; no ConfigMap is an empty lock. */
  parse(object: Pick<ConfigMap, "data" | "metadata"> | undefined): LockContent {
    const entries = new Map<string, LockEntry>();
    const damaged: string[] = [];
    for (const [name, text] of Object.entries(object?.data ?? {})) {
      const entry = describeNameProblem(name) === undefined ? parseEntry(text) : undefined;
      if (entry === undefined) damaged.push(name);
      else entries.set(name, entry);
    }
    const crdUid = object?.metadata.annotations?.[CRD_UID_ANNOTATION];
    return { entries, crdUid, damaged };
  }

  /** Writes one entry; undefined removes it. Throws ApiError, ConnectionError, RangeError for an entry that is too large. */
  async writeEntry(name: string, entry: LockEntry | undefined): Promise<void> {
    const text = entry === undefined ? null : JSON.stringify(entry);
    if (text !== null && text.length > MAX_ENTRY_CHARS)
      throw new RangeError(`its entry in the lock has more than ${MAX_ENTRY_CHARS} characters`);
    await this.#patchOrCreate({ data: { [name]: text } });
    const entries = new Map(this.entries);
    if (entry === undefined) entries.delete(name);
    else entries.set(name, entry);
    this.#content = { ...this.#content, entries };
  }

  /**
   * Writes the entries again, in one request, that the ConfigMap has lost or that someone has changed since this process wrote or
   * read them. Returns the names of their modules. Throws ApiError, ConnectionError.
   */
  async restoreLostEntries(): Promise<string[]> {
    const stored = await this.read();
    // Without members that are undefined, as it is stored.
    const lost = [...this.entries].filter(
      ([name, entry]) => !isDeepStrictEqual(stored.entries.get(name), JSON.parse(JSON.stringify(entry))),
    );
    if (lost.length === 0) return [];
    const crdUid = stored.crdUid ?? this.crdUid;
    const annotations = crdUid === undefined ? {} : { [CRD_UID_ANNOTATION]: crdUid };
    const data = Object.fromEntries(lost.map(([name, entry]) => [name, JSON.stringify(entry)]));
    await this.#patchOrCreate({ data, metadata: { annotations } });
    return lost.map(([name]) => name);
  }

  /** Records the CRD whose objects the lock follows. Throws ApiError, ConnectionError. */
  async writeCrdUid(uid: string): Promise<void> {
    await this.#patchOrCreate({ metadata: { annotations: { [CRD_UID_ANNOTATION]: uid } } });
    this.#content = { ...this.#content, crdUid: uid };
  }

  get #target(): { resource: typeof CONFIG_MAPS; namespace: string; name: string } {
    return { resource: CONFIG_MAPS, namespace: this.#options.namespace, name: this.name };
  }

  /** Changes the ConfigMap (null deletes a key); creates it if there is none. */
  async #patchOrCreate({ data = {}, metadata = {} }: LockChange): Promise<void> {
    const { client, namespace } = this.#options;
    try {
      await mergePatch(client, this.#target, { body: { data, metadata } });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const body = {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: this.name, namespace, labels: MANAGED_BY_OPERATOR, ...metadata },
        data: Object.fromEntries(Object.entries(data).filter(([, text]) => text !== null)),
      };
      await create(client, { resource: CONFIG_MAPS, namespace }, { body });
    }
  }
}

/** The maximum of `order` in the CRD. */
const MAX_ORDER = 999_999;

const isString = (value: Json | undefined): boolean => typeof value === "string";
const isNumber = (value: Json | undefined): boolean => typeof value === "number" && Number.isFinite(value);
const isTrue = (value: Json | undefined): boolean => value === true;

function isVersionWithDigest(value: Json | undefined): boolean {
  return isJsonObject(value) && isString(value["version"]) && isDigest(value["digest"]);
}

/** Checks of the fields that each entry has. */
const REQUIRED_FIELDS: Readonly<Partial<Record<keyof LockEntry, (value: Json | undefined) => boolean>>> = {
  source: isString,
  version: isString,
  digest: isDigest,
  verifiedBy: isString,
  at: isNumber,
};

/** Checks of the fields that an entry may have. */
const OPTIONAL_FIELDS: typeof REQUIRED_FIELDS = {
  order: (value) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= MAX_ORDER,
  enabled: (value) => typeof value === "boolean",
  chart: isChartContent,
  isNew: isTrue,
  isBack: isTrue,
  removed: isTrue,
  previous: isVersionWithDigest,
  rejected: (value) => Array.isArray(value) && value.every(isDigest),
  rejectedFor: isString,
  seen: (value) => isVersionWithDigest(value) && isJsonObject(value) && isNumber(value["since"]),
};

/**
 * Parses an entry of the lock, without its optional fields that are invalid. Returns undefined if a required field or the chart
 * is invalid: without its chart, the entry would be taken for one of a module.
 */
function parseEntry(text: string): LockEntry | undefined {
  const value = attempt(() => parseJson(text));
  if (!isJsonObject(value)) return undefined;
  for (const [key, isValid] of Object.entries(REQUIRED_FIELDS)) if (!isValid(value[key])) return undefined;
  if (value["chart"] !== undefined && !isChartContent(value["chart"])) return undefined;
  const valid = Object.entries({ ...REQUIRED_FIELDS, ...OPTIONAL_FIELDS }).filter(([key, isValid]) =>
    isValid(value[key]),
  );
  return Object.fromEntries(valid.map(([key]) => [key, value[key]])) as unknown as LockEntry;
}

/** Whether a value is a `ChartContent`: `unsigned` is missing or true, and `terms` is missing or an object. */
function isChartContent(value: Json | undefined): boolean {
  const { from, name, unsigned = true, terms = {} } = objectOf(value);
  return isString(from) && isString(name) && unsigned === true && isJsonObject(terms);
}
