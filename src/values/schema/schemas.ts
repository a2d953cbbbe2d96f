/** Compiles the schemas of a module or of global values (docs/VALUES.md, "Schemas"). */

import { digest, Memo } from "../../lib/index.ts";
import { isJsonObject, member, objectOf, ProblemError, setMember } from "../../model/index.ts";
import type { Json, JsonObject, Problem, SchemaFile, SchemaFiles } from "../../model/index.ts";
import type { SchemaReference, Section } from "../../model/index.ts";
import { parseMap } from "../static-values.ts";
import { EndlessDefaultsError, fillerOf, type Filler } from "./defaults.ts";
import { compilePattern } from "./pattern.ts";
import { bundled } from "./references.ts";
import { checkSchema, schemaWarnings, extend, forHelm, toJsonSchema } from "./schema-document.ts";
import { secretPathsOf } from "./secret-paths.ts";
import { sameValue } from "./schema-tree.ts";
import { hasUnusableKeys, tolerate } from "./tolerance.ts";
import { metaProblems, validatorOf, type Validator, type Violation } from "./validator.ts";

/** The compiled schemas of `global` or of a module. Where there is no file, everything is valid. */
export interface Schemas {
  /** Fills in defaults of the config schema; nulls count as present. Nothing is changed in place. */
  configDefaults(value: Section): Section;
  valuesDefaults(value: Section): Section;
  /**
   * The part of `value` that the config schema judges: without keys that only files set (not `written`) and only
   * the values schema knows.
   */
  configPart(value: Section, written: Section | undefined): Section;
  validateConfig(value: Json): readonly Violation[];
  validateValues(value: Json): readonly Violation[];
  /** As validateValues, with `x-required-for-helm`. */
  validateHelm(value: Json): readonly Violation[];
  /** JSON pointers within the section of values never to be shown; `*` stands for any member or item. */
  readonly secretPaths: ReadonlySet<string>;
  readonly warnings: readonly string[];
  /** Some key can have no value, or no text: its type is misspelt, or its pattern cannot be compiled. */
  readonly hasUnusableKeys: boolean;
}

const EXTENDS = "config-values.yaml";
const compiled = new Memo<Schemas>(5000);

/**
 * Reads and checks schema files; equal texts share one result. Throws ProblemError with file and path for YAML that
 * cannot be read, words or references that mean nothing, patterns that cannot be used, and an `x-extend` that names
 * anything but an existing `config-values.yaml`.
 */
export function compileSchemas(files: SchemaFiles): Schemas {
  let schemas = ofFiles.get(files);
  if (schemas === undefined) {
    schemas = compileOnce(files);
    ofFiles.set(files, schemas);
  }
  return schemas;
}

/** The same file objects again: their content need not be compared. */
const ofFiles = new WeakMap<SchemaFiles, Schemas>();

function compileOnce(files: SchemaFiles): Schemas {
  const all = [files.config, files.values, ...(files.references ?? [])];
  const texts = all.flatMap((each) => [each?.file ?? "", each?.text ?? ""]);
  return compiled.get(digest(...texts), () => compile(files));
}

/** One file as read. */
interface Source {
  readonly file: string;
  readonly document: JsonObject;
  readonly warnings: readonly string[];
}

/** The results for one schema file, with `x-extend` applied. */
interface Side {
  readonly document: JsonObject | undefined;
  readonly schema: JsonObject | undefined;
  readonly fill: Filler;
  readonly validate: Validator;
  readonly warnings: readonly string[];
}

const NO_SIDE: Side = {
  document: undefined,
  schema: undefined,
  fill: (value) => value,
  validate: () => [],
  warnings: [],
};

function compile(files: SchemaFiles): Schemas {
  const { references = [] } = files;
  const source = read(files.config, references);
  const config = sideOf(withoutExtend(source));
  const values = sideOf(extended(read(files.values, references), source));
  const documents = [config.document, values.document].filter((each) => each !== undefined);
  return {
    configDefaults: (value) => config.fill(value) as Section,
    valuesDefaults: (value) => values.fill(value) as Section,
    configPart: (value, written) =>
      configPart({ config: config.schema, values: values.schema }, value, written) as Section,
    validateConfig: config.validate,
    validateValues: values.validate,
    validateHelm: helmValidator(values),
    secretPaths: new Set(documents.flatMap(secretPathsOf)),
    warnings: [...config.warnings, ...values.warnings],
    hasUnusableKeys: documents.some(hasUnusableKeys),
  };
}

/** Most schemas require the same before helm as after a hook; then one validator does for both. */
function helmValidator(values: Side): Validator {
  if (values.document === undefined) return values.validate;
  const document = forHelm(values.document);
  const asksMore = JSON.stringify(document) !== JSON.stringify(values.document);
  return asksMore ? validatorOf(toJsonSchema(document)) : values.validate;
}

function read(source: SchemaFile | undefined, references: readonly SchemaReference[]): Source | undefined {
  if (source === undefined) return undefined;
  const { value, warnings } = parseMap(source.text, source.file);
  return { file: source.file, document: bundled(value, source.file, references), warnings };
}

function withoutExtend(config: Source | undefined): Source | undefined {
  if (config?.document["x-extend"] === undefined) return config;
  return withWarning(config, "only values.yaml extends another schema, so it means nothing");
}

/** Whatever `x-extend` names, it is the schema of the ConfigMap; without one it means nothing. */
function extended(values: Source | undefined, config: Source | undefined): Source | undefined {
  const wish = values?.document["x-extend"];
  if (values === undefined || wish === undefined) return values;
  if (config === undefined)
    return withWarning(values, `${EXTENDS} does not exist beside it, so it means nothing`);
  const extendedValues = { ...values, document: extend(values.document, config.document) };
  const isUsual = objectOf(wish)["schema"] === EXTENDS;
  return isUsual
    ? extendedValues
    : withWarning(extendedValues, `it always extends ${EXTENDS}; write schema: ${EXTENDS}`);
}

function withWarning(source: Source, text: string): Source {
  return { ...source, warnings: [...source.warnings, `${source.file}: /x-extend: ${text}`] };
}

function sideOf(source: Source | undefined): Side {
  if (source === undefined) return NO_SIDE;
  const { file } = source;
  const { document, warnings } = tolerate(source.document, file);
  const schema = toJsonSchema(document);
  const problems = [...metaProblems(schema, file), ...checkSchema(schema, file)];
  if (problems.length > 0) throw new ProblemError(problems);
  return {
    document,
    schema,
    fill: checkedFiller(schema, file),
    validate: validatorOf(schema),
    warnings: [...source.warnings, ...warnings, ...schemaWarnings(source.document, file)],
  };
}

function checkedFiller(schema: JsonObject, file: string): Filler {
  const fill = fillerOf(schema);
  try {
    fill({});
  } catch (error) {
    if (!(error instanceof EndlessDefaultsError)) throw error;
    const problem: Problem = {
      file,
      message: error.message,
      remedy: "give the recursive property no default",
    };
    throw new ProblemError([problem]);
  }
  return fill;
}

/** Prepared schemas of one section. */
interface SchemaPair {
  readonly config: JsonObject | undefined;
  readonly values: JsonObject | undefined;
}

interface PartNode {
  readonly value: Json;
  /** What the ConfigMap says at this place. */
  readonly written: Json | undefined;
  /** All schemas that describe this place. */
  readonly config: readonly JsonObject[];
  readonly values: readonly JsonObject[];
}

interface Roots {
  readonly config: JsonObject;
  readonly values: JsonObject;
}

/**
 * `value` without the members that files set, the config schema forbids as unknown and the values schema knows:
 * such keys are no error. What the ConfigMap itself says always stays.
 */
function configPart(pair: SchemaPair, value: Json, written: Json | undefined): Json {
  const { config, values } = pair;
  if (config === undefined || values === undefined) return value;
  const describing = { config: [...sameValue(config, config)], values: [...sameValue(values, values)] };
  return part({ config, values }, { value, written, ...describing });
}

function part(roots: Roots, place: PartNode): Json {
  if (!isJsonObject(place.value)) return place.value;
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(place.value)) {
    const child = before === undefined ? undefined : below(roots, place, key);
    const after = child === undefined || isForeign(place, child) ? undefined : part(roots, child);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : place.value;
}

function below(roots: Roots, place: PartNode, key: string): PartNode {
  const under = (schemas: readonly JsonObject[], root: JsonObject): JsonObject[] =>
    schemas.flatMap((schema) => describing(schema, key)).flatMap((each) => [...sameValue(root, each)]);
  return {
    value: isJsonObject(place.value) ? (member(place.value, key) ?? null) : null,
    written: isJsonObject(place.written) ? member(place.written, key) : undefined,
    config: under(place.config, roots.config),
    values: under(place.values, roots.values),
  };
}

/** Forbidden by the config schema, but known to the values schema and not written in the ConfigMap. */
function isForeign(parent: PartNode, child: PartNode): boolean {
  if (child.written !== undefined || child.config.length > 0 || child.values.length === 0) return false;
  return parent.config.some((each) => each["additionalProperties"] === false);
}

/** The sub-schemas for one member: none at an open level, the empty schema at a level that allows anything. */
function describing(schema: JsonObject, key: string): JsonObject[] {
  const { properties, patternProperties, additionalProperties } = schema;
  const found = isJsonObject(properties) ? [member(properties, key)] : [];
  for (const [pattern, below] of Object.entries(objectOf(patternProperties))) {
    if (compilePattern(pattern).test(key)) found.push(below);
  }
  const named = found.filter((each) => isJsonObject(each));
  if (named.length > 0) return named;
  if (isJsonObject(additionalProperties)) return [additionalProperties];
  return additionalProperties === true ? [{}] : [];
}
