import { YamlError, looksSecret, oneLine, parseYaml, toYaml } from "../lib/index.ts";
import { ProblemError, isJsonObject } from "../model/index.ts";
import type { Json, JsonObject, Problem, Section } from "../model/index.ts";

/** The content of the ConfigMap, by what it is about (README "ConfigMap"). Map keys are camelCase module keys. */
export interface ParsedConfig {
  readonly global: JsonObject | undefined;
  readonly sections: ReadonlyMap<string, Section>;
  readonly flags: ReadonlyMap<string, boolean>;
  /** `<camel>Maintenance: NoResourceReconciliation`. */
  readonly maintenance: ReadonlySet<string>;
  /** `<camel>Protected: "true"`. */
  readonly protected: ReadonlySet<string>;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Keys that match no module. */
  readonly unknownKeys: readonly string[];
}

/** Largest content of a ConfigMap, in bytes: what the API server takes. */
export const CONFIG_MAP_LIMIT = 1024 * 1024;

const MAINTENANCE = "NoResourceReconciliation";

/** One key as parsed, kept while its text does not change: an edit costs what it touched. */
interface Entry {
  readonly text: string;
  readonly value: Json;
  readonly warnings: readonly string[];
  readonly problem: Problem | undefined;
}

const cache = new Map<string, Entry>();
const CACHE_LIMIT = 5000;

interface Draft {
  readonly name: string;
  global: JsonObject | undefined;
  readonly sections: Map<string, Section>;
  readonly flags: Map<string, boolean>;
  readonly maintenance: Set<string>;
  readonly protected: Set<string>;
  readonly problems: Problem[];
  readonly warnings: string[];
  readonly unknownKeys: string[];
}

/**
 * Reads the data of ConfigMap `name`. Never throws: what is wrong is told in `problems`, each with key, line, column
 * and remedy, and never with the value. Keys of unknown modules are left alone.
 */
export function parseConfigMap(
  name: string,
  data: Readonly<Record<string, string>>,
  known: readonly { readonly valuesKey: string }[],
): ParsedConfig {
  const draft: Draft = {
    name,
    global: undefined,
    sections: new Map(),
    flags: new Map(),
    maintenance: new Set(),
    protected: new Set(),
    problems: [],
    warnings: [],
    unknownKeys: [],
  };
  const roles = rolesOf(known);
  for (const [key, text] of Object.entries(data)) {
    const role = key === "global" ? readGlobal : roles.get(key);
    if (role === undefined) draft.unknownKeys.push(key);
    else take(draft, { key, text, role });
  }
  // A scalar `false` section is a flag at its own layer; an explicit flag says more.
  return draft;
}

type Role = (draft: Draft, key: string, value: Json) => void;

function rolesOf(known: readonly { readonly valuesKey: string }[]): Map<string, Role> {
  const roles = new Map<string, Role>();
  for (const { valuesKey } of known) {
    roles.set(valuesKey, readSection);
    roles.set(`${valuesKey}Enabled`, (draft, key, value) => readFlag(draft, { key, valuesKey, value }));
    roles.set(`${valuesKey}Maintenance`, (draft, key, value) =>
      readMaintenance(draft, { key, valuesKey, value }),
    );
    roles.set(`${valuesKey}Protected`, (draft, key, value) =>
      readProtected(draft, { key, valuesKey, value }),
    );
  }
  return roles;
}

function take(draft: Draft, item: { key: string; text: string; role: Role }): void {
  const entry = parseKey(draft.name, item.key, item.text);
  draft.warnings.push(...entry.warnings);
  if (entry.problem === undefined) item.role(draft, item.key, entry.value);
  else draft.problems.push(entry.problem);
}

function parseKey(name: string, key: string, text: string): Entry {
  const id = `${name}\n${key}`;
  const before = cache.get(id);
  if (before?.text === text) return before;
  if (cache.size >= CACHE_LIMIT) cache.clear();
  const entry = readKey(name, key, text);
  cache.set(id, entry);
  return entry;
}

function readKey(name: string, key: string, text: string): Entry {
  const file = `ConfigMap ${name}`;
  try {
    const { value, warnings } = parseYaml(text, `${file}: ${key}`);
    return { text, value, warnings, problem: undefined };
  } catch (error) {
    const where = error instanceof YamlError ? ` (line ${error.line}, column ${error.column})` : "";
    const message = `is not valid YAML${where}: ${looksSecret(key) ? "value not shown" : oneLine(error)}`;
    return {
      text,
      value: null,
      warnings: [],
      problem: { file, key, message, remedy: "mend the YAML of this key" },
    };
  }
}

const readGlobal: Role = (draft, key, value) => {
  if (value === null) draft.global = {};
  else if (isJsonObject(value)) draft.global = value;
  else refuse(draft, key, { message: "must be a map", remedy: "write `key: value` lines" });
};

const readSection: Role = (draft, key, value) => {
  if (value === null) draft.sections.set(key, {});
  else if (typeof value === "object") draft.sections.set(key, value);
  else if (value === false || value === "false") {
    if (!draft.flags.has(key)) draft.flags.set(key, false);
  } else
    refuse(draft, key, { message: "must be a map or a list", remedy: `write values, or set ${key}Enabled` });
};

interface ModuleKey {
  readonly key: string;
  readonly valuesKey: string;
  readonly value: Json;
}

function readFlag(draft: Draft, { key, valuesKey, value }: ModuleKey): void {
  const flag = booleanOf(value);
  if (flag === undefined)
    refuse(draft, key, { message: "must be true or false", remedy: 'write "true" or "false"' });
  else draft.flags.set(valuesKey, flag);
}

function readMaintenance(draft: Draft, { key, valuesKey, value }: ModuleKey): void {
  if (value === MAINTENANCE) draft.maintenance.add(valuesKey);
  else if (value !== null && value !== "") {
    refuse(draft, key, { message: "is not known", remedy: `write ${MAINTENANCE}, or remove the key` });
  }
}

function readProtected(draft: Draft, { key, valuesKey, value }: ModuleKey): void {
  const flag = booleanOf(value);
  if (flag === undefined)
    refuse(draft, key, { message: "must be true or false", remedy: 'write "true" or "false"' });
  else if (flag) draft.protected.add(valuesKey);
}

function booleanOf(value: Json): boolean | undefined {
  if (typeof value === "boolean") return value;
  return value === "true" ? true : value === "false" ? false : undefined;
}

function refuse(draft: Draft, key: string, problem: { message: string; remedy: string }): void {
  draft.problems.push({ file: `ConfigMap ${draft.name}`, key, ...problem });
}

/** The text of one key, as helm and kubectl read it back. */
export function sectionYaml(section: Section): string {
  return toYaml(section);
}

/** Throws ProblemError naming `key` and the size when `data` would be larger than the API server takes. */
export function checkDataSize(name: string, data: Readonly<Record<string, string>>, key: string): void {
  let size = 0;
  for (const [each, text] of Object.entries(data)) size += Buffer.byteLength(each) + Buffer.byteLength(text);
  if (size <= CONFIG_MAP_LIMIT) return;
  const message = `the patch of ${key} would make it ${size} bytes, more than ${CONFIG_MAP_LIMIT}`;
  throw new ProblemError([
    { file: `ConfigMap ${name}`, key, message, remedy: "store less, or in an object of its own" },
  ]);
}
