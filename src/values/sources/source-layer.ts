/**
 * Reads `<camel>ValuesFrom` and `globalValuesFrom` of the ConfigMap, and makes one layer of values from the Secrets and ConfigMaps that
 * they list (docs/reference/values.md, "Values from Secrets"). A *source* is one entry of such a list: an object, a key of its data, and
 * perhaps the path in the section for its text. The *owner* of the sources is the module, or `global`. The *title* of an object is
 * `Secret NAMESPACE/NAME`. No message quotes content, which may be secret.
 */

import { isUtf8 } from "node:buffer";

import {
  parseYaml,
  toPointer,
  parsePointer,
  SecretWords,
  YamlError,
  type KnownSecrets,
} from "../../base/index.ts";
import {
  collect,
  isJsonObject,
  member,
  ProblemError,
  isContainer,
  isNumber,
  setMember,
  valueAt,
  mergeLayers,
} from "../../base/model/index.ts";
import type { Json, JsonObject, Problem, ValuesSource } from "../../base/model/index.ts";
import { createValidator } from "../schema/validator.ts";

/** As `valuesFrom` in `modules/addon.schema.json`; a test compares both. */
export const SOURCES_SCHEMA: JsonObject = {
  type: "array",
  maxItems: 50,
  items: {
    type: "object",
    additionalProperties: false,
    required: ["kind", "name"],
    properties: {
      kind: { enum: ["Secret", "ConfigMap"] },
      name: { type: "string", minLength: 1, maxLength: 253, pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" },
      namespace: { type: "string", minLength: 1, maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
      key: { type: "string", minLength: 1, maxLength: 253, pattern: "^[-._a-zA-Z0-9]+$" },
      path: { type: "string", maxLength: 1024, pattern: "^(/([^/~]|~[01])+)+$" },
      optional: { type: "boolean" },
    },
  },
};

const validate = createValidator(SOURCES_SCHEMA);

/** The sources that a key of the ConfigMap lists. Throws ProblemError. */
export function readSources(value: Json, file: string, key: string): readonly ValuesSource[] {
  const [violation] = validate(value);
  if (violation === undefined) return value as unknown as readonly ValuesSource[];
  const { path } = violation;
  const message = path === "/" ? violation.message : `${path}: ${violation.message}`;
  const remedy = "write a list of {kind: Secret, name: …}; docs/reference/values.md has its keys";
  throw new ProblemError({ file, key, message, remedy });
}

/** A source, and the module with an account that lists it in its `addon.yaml`, whose account must be allowed to get the object. */
export interface OwnedSource extends ValuesSource {
  readonly askedBy?: string;
}

/** The object of a source, and how messages name it. */
export interface SourceObject {
  readonly kind: ValuesSource["kind"];
  readonly namespace: string;
  readonly name: string;
  /** `Secret NAMESPACE/NAME`. */
  readonly title: string;
  /** The module whose account must be allowed to get the object; undefined = the operator's own permissions count. */
  readonly askedBy: string | undefined;
  /** Unlike the title, differs for modules whose accounts have different permissions. */
  readonly id: string;
}

/** The object that a source means: in its own namespace, or else in that of the operator. */
export function toSourceObject(source: OwnedSource, operatorNamespace: string): SourceObject {
  const { kind, name, namespace = operatorNamespace, askedBy } = source;
  const title = `${kind} ${namespace}/${name}`;
  return {
    kind,
    name,
    namespace,
    title,
    askedBy,
    id: askedBy === undefined ? title : `${title} for ${askedBy}`,
  };
}

/** The data of a Secret or ConfigMap, or why there are none, e.g. `does not exist`. */
export type SourceContent =
  | { readonly data: Readonly<Record<string, Uint8Array>> }
  | { readonly lack: string };

/** Default of `key`. */
const DEFAULT_SOURCE_KEY = "values.yaml";
/** Helm stores values together with chart and manifest in a Secret, which holds at most 1 MiB. */
const MAX_BYTES = 512 * 1024;
/** If a section has more leaves, its top-level members are marked as secret instead of each leaf. */
const MAX_SECRET_PATHS = 1000;

/** The merged values of the sources of one section. */
export interface SourceLayer {
  readonly section: JsonObject | undefined;
  /** JSON pointers in the section of what comes from Secrets. */
  readonly secretPaths: readonly string[];
  /** The texts and numbers from Secrets, to hide them in the output of programs that get these values. */
  readonly secretWords: () => SecretWords;
  /** Required sources that do not exist: `Secret a/b, which does not exist`. */
  readonly missingSources: readonly string[];
  /** The same sources as problems with key and remedy, for content that existed before. */
  readonly lostSources: readonly Problem[];
  /** Content that cannot be used. No message quotes it. */
  readonly problems: readonly Problem[];
  /** Secret or ConfigMap and key that a value comes from; undefined if no source sets it. */
  readonly findPosition: (path: string) => string | undefined;
}

/** How the content of sources is found, and the section that they are for. */
export interface SourceContext {
  readonly namespace: string;
  /** By `id` of the object; undefined = it was not read yet. */
  readonly findContent: (id: string) => SourceContent | undefined;
  /** The module's name, or `global`. */
  readonly owner: string;
  readonly secrets: KnownSecrets | undefined;
}

/** The values of one source. */
interface SourceContribution {
  readonly section: JsonObject;
  /** Title and key of the object, for messages. */
  readonly position: string;
  readonly isSecret: boolean;
}

/** Merges the content of the sources, the last one strongest. Never throws: lists missing sources and problems in the result. */
export function buildSourceLayer(sources: readonly OwnedSource[], context: SourceContext): SourceLayer {
  const lostSources: Problem[] = [];
  const problems: Problem[] = [];
  const missingSources: string[] = [];
  const contributions = sources.flatMap((source) => {
    const { bytes, lack } = findSource(source, context);
    if (bytes !== undefined) return collect(problems, () => readContribution(bytes, source, context)) ?? [];
    // An optional object that was not read yet may exist: only the read shows whether the module may run without it.
    if (source.optional === true && lack !== NOT_READ) return [];
    const { kind, key = DEFAULT_SOURCE_KEY } = source;
    const { title } = toSourceObject(source, context.namespace);
    missingSources.push(`${title}, which ${lack}`);
    // The same as a problem, for a section whose earlier content stays in force.
    const remedy = `put it back, or remove it from valuesFrom of ${context.owner}`;
    lostSources.push({ file: title, key, message: `the ${kind} ${lack}`, remedy });
    return [];
  });
  const secretSections = contributions.filter(({ isSecret }) => isSecret).map(({ section }) => section);
  let words: SecretWords | undefined;
  return {
    section: mergeLayers(contributions.map(({ section }) => section)) as JsonObject | undefined,
    secretPaths: secretSections.flatMap(listSecretPaths),
    secretWords: () => (words ??= new SecretWords(secretSections.flatMap(collectTexts))),
    missingSources,
    lostSources,
    problems,
    findPosition: (path) =>
      contributions.findLast(({ section }) => valueAt(section, parsePointer(path)) !== undefined)?.position,
  };
}

const NOT_READ = "was not read yet";

/** Looks up the bytes of a source. Without them, `lack` says what is missing, as the end of a sentence that begins with the object. */
function findSource(
  source: OwnedSource,
  { namespace, findContent }: SourceContext,
): { readonly bytes?: Uint8Array | undefined; readonly lack: string } {
  const { key = DEFAULT_SOURCE_KEY } = source;
  const content = findContent(toSourceObject(source, namespace).id);
  if (content === undefined) return { lack: NOT_READ };
  if ("lack" in content) return content;
  return { bytes: member(content.data, key), lack: `has no key ${key}` };
}

/** Reads the values in the bytes of a source, and registers those of a Secret for redaction. Throws ProblemError. */
function readContribution(
  bytes: Uint8Array,
  source: ValuesSource,
  context: SourceContext,
): SourceContribution {
  const { key = DEFAULT_SOURCE_KEY, path } = source;
  const { title } = toSourceObject(source, context.namespace);
  const refuse = (message: string, remedy: string): ProblemError =>
    new ProblemError({ file: title, key, message: `has values of ${context.owner} and ${message}`, remedy });
  if (bytes.length > MAX_BYTES)
    throw refuse("is larger than 512 KiB", "let the chart mount large data instead");
  if (!isUtf8(bytes)) throw refuse("is no UTF-8 text", "encode binary data, e.g. with base64");
  const text = Buffer.from(bytes).toString();
  const section = path === undefined ? parseDocumentOnce(bytes, text, refuse) : nestAtPointer(text, path);
  const isSecret = source.kind === "Secret";
  // The path "" marks all values of the section as secret.
  if (isSecret) context.secrets?.register(section, new Set([""]));
  return { section, position: `${title}, key ${key}`, isSecret };
}

/** Parsed documents by their bytes, so that an unchanged document is parsed once. */
const documents = new WeakMap<Uint8Array, JsonObject>();

/** The YAML map in the bytes of a source, which are `text`; an empty document is an empty map. `refuse` creates the error to throw. */
function parseDocumentOnce(
  bytes: Uint8Array,
  text: string,
  refuse: (message: string, remedy: string) => ProblemError,
): JsonObject {
  const cached = documents.get(bytes);
  if (cached !== undefined) return cached;
  const value = parseWithoutQuoting(text, refuse);
  if (value !== null && !isJsonObject(value)) throw refuse("is no YAML map", REMEDY);
  const section = value ?? {};
  documents.set(bytes, section);
  return section;
}

const REMEDY = "write `key: value` pairs, or set path in valuesFrom for a single value";

/** Parses YAML. The error, which `refuse` creates, names only line and column: the message of the parser may quote a secret. */
function parseWithoutQuoting(text: string, refuse: (message: string, remedy: string) => ProblemError): Json {
  try {
    return parseYaml(text, "").value;
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    throw refuse(`is no valid YAML at line ${error.line}, column ${error.column}`, REMEDY);
  }
}

/** Nests `text` in maps so that it is at the JSON pointer `path`. */
function nestAtPointer(text: string, path: string): JsonObject {
  return parsePointer(path).reduceRight<Json>((value, segment) => {
    const map: JsonObject = {};
    setMember(map, segment, value);
    return map;
  }, text) as JsonObject;
}

function collectTexts(value: Json | undefined): string[] {
  if (typeof value === "string" || isNumber(value)) return [String(value)];
  return isContainer(value) ? Object.values(value).flatMap(collectTexts) : [];
}

/** JSON pointers of all values of a section from a Secret; of its top-level members if it has very many. */
function listSecretPaths(section: JsonObject): string[] {
  const paths: string[] = [];
  collectLeafPaths(section, "", paths);
  return paths.length > MAX_SECRET_PATHS ? Object.keys(section).map((key) => toPointer([key])) : paths;
}

/** Adds the JSON pointers of the leaves of `value`, which is at `path`, to `found`, up to the limit. */
function collectLeafPaths(value: Json, path: string, found: string[]): void {
  if (found.length > MAX_SECRET_PATHS) return;
  if (!isJsonObject(value)) found.push(path);
  else
    for (const [key, below] of Object.entries(value))
      collectLeafPaths(below ?? null, `${path}${toPointer([key])}`, found);
}
