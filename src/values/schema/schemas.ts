/**
 * Compiles the schemas of a section: of a module's values or of the global values (docs/reference/values.md, "Schemas"). A section may
 * have two schema files: the *config schema* (`config-values.yaml`) for what users set, the *values schema* (`values.yaml`) for all
 * values, also those of hooks. `x-extend` in the values schema takes over the content of the config schema.
 */

import { digest, Memo } from "../../base/index.ts";
import {
  isContainer,
  isJsonObject,
  mapMembers,
  member,
  objectOf,
  ProblemError,
} from "../../base/model/index.ts";
import type { Json, JsonObject, SchemaFile, SchemaFiles } from "../../base/model/index.ts";
import type { SchemaReference, Section } from "../../base/model/index.ts";
import { parseMap } from "../static-values.ts";
import { compileCelRules, type CelRules } from "./cel-rules.ts";
import { EndlessDefaultsError, createDefaultsFiller, type FillDefaults } from "./defaults.ts";
import { compilePattern } from "./pattern.ts";
import { ReferenceBundle } from "./references.ts";
import { checkSchema, schemaWarnings, extendSchema, requireForHelm } from "./schema-document.ts";
import { toJsonSchema } from "./schema-document.ts";
import { findSecretPaths } from "./secret-paths.ts";
import { schemasOfSameValue } from "./schema-tree.ts";
import { hasUnusableKeys, tolerateGoSchema } from "./tolerance.ts";
import { findMetaSchemaProblems, createValidator, type Validator } from "./validator.ts";
import { violationId, type Violation } from "./violation.ts";

/** The compiled schemas of `global` or of a module. Without a file, everything is valid. */
export interface Schemas {
  /** Fills in defaults of the config schema; nulls count as present. Does not modify `value`. */
  fillConfigDefaults(value: Section): Section;
  fillValuesDefaults(value: Section): Section;
  /** The part of `value` that the config schema validates: without keys that only files set (not `written`) and only the values schema declares. */
  selectConfigPart(value: Section, written: Section | undefined): Section;
  validateConfig(value: Json): readonly Violation[];
  /** The rules of the config schema that a change of the values in force (`old`) violates. */
  validateTransition(value: Json, old: Json): readonly Violation[];
  validateValues(value: Json): readonly Violation[];
  /** As validateValues, with `x-required-for-helm`. */
  validateHelm(value: Json): readonly Violation[];
  /** JSON pointers, within the section, of values to redact; `*` matches any member or item. */
  readonly secretPaths: ReadonlySet<string>;
  readonly warnings: readonly string[];
  /** A key accepts no value or no string, because its type is misspelt or its pattern is invalid. */
  readonly hasUnusableKeys: boolean;
}

const EXTENDED_FILE = "config-values.yaml";
/** By digest of the texts. */
const compiled = new Memo<Schemas>(5000);
/** By identity: files that have not changed are the same objects, whose texts need no digest again. */
const compiledByFiles = new WeakMap<SchemaFiles, Schemas>();

/** Reads and checks schema files; equal texts share one result. Throws ProblemError for invalid YAML, keywords, references or patterns. */
export function compileSchemas(files: SchemaFiles): Schemas {
  const known = compiledByFiles.get(files);
  if (known !== undefined) return known;
  const allFiles = [files.config, files.values, ...(files.references ?? [])];
  const texts = allFiles.flatMap((each) => [each?.file ?? "", each?.text ?? ""]);
  const schemas = compiled.getOrMake(digest(...texts), () => compileSectionSchemas(files));
  compiledByFiles.set(files, schemas);
  return schemas;
}

/** As `compileSchemas`, but broken files accept everything: their module is Invalid anyway, and its values must stay readable. */
export function usableSchemas(files: SchemaFiles): Schemas {
  try {
    return compileSchemas(files);
  } catch (error) {
    if (error instanceof ProblemError) return compileSchemas({});
    throw error;
  }
}

/** A parsed schema file, with its references to other files included. */
interface ParsedSchemaFile {
  readonly file: string;
  readonly document: JsonObject;
  readonly warnings: readonly string[];
}

/** The results for one schema file, with `x-extend` applied. */
interface CompiledFile {
  readonly document: JsonObject | undefined;
  readonly schema: JsonObject | undefined;
  readonly secretPaths: readonly string[];
  readonly fill: FillDefaults;
  readonly validate: Validator;
  readonly warnings: readonly string[];
}

const NO_FILE: CompiledFile = {
  document: undefined,
  schema: undefined,
  secretPaths: [],
  fill: (value) => value,
  validate: () => [],
  warnings: [],
};

/** Reads, checks and compiles the schema files of a section. Throws ProblemError. */
function compileSectionSchemas(files: SchemaFiles): Schemas {
  const { references = [] } = files;
  const configFile = readSchemaFile(files.config, references);
  const config = compileFile(warnOfExtendInConfig(configFile));
  const values = compileFile(applyExtend(readSchemaFile(files.values, references), configFile));
  const schemas = {
    ...(config.schema && { config: config.schema }),
    ...(values.schema && { values: values.schema }),
  };
  const rules = compileCelRules(configFile?.document ?? {}, configFile?.file ?? EXTENDED_FILE);
  const documents = [config.document, values.document].filter((each) => each !== undefined);
  return {
    fillConfigDefaults: (value) => config.fill(value) as Section,
    fillValuesDefaults: (value) => values.fill(value) as Section,
    selectConfigPart: (value, written) => withoutFileOnlyKeys(schemas, value, written) as Section,
    ...createConfigValidators(config.validate, rules.check),
    validateValues: values.validate,
    validateHelm: createHelmValidator(values),
    secretPaths: new Set([...config.secretPaths, ...values.secretPaths]),
    warnings: [...config.warnings, ...values.warnings, ...rules.warnings],
    hasUnusableKeys: documents.some(hasUnusableKeys),
  };
}

/** The validators of the config schema with its rules in CEL. The violations of a map or list are kept as those of a validator. */
function createConfigValidators(
  validate: Validator,
  check: CelRules["check"],
): Pick<Schemas, "validateConfig" | "validateTransition"> {
  if (check === undefined) return { validateConfig: validate, validateTransition: () => [] };
  const violationsByValue = new WeakMap<object, readonly Violation[]>();
  return {
    validateConfig: (value) => {
      const cached = isContainer(value) ? violationsByValue.get(value) : undefined;
      if (cached !== undefined) return cached;
      const violations = [...validate(value), ...check(value)];
      if (isContainer(value)) violationsByValue.set(value, violations);
      return violations;
    },
    validateTransition: (value, old) => {
      const ids = new Set(check(value).map(violationId));
      return check(value, old).filter((each) => !ids.has(violationId(each)));
    },
  };
}

/** The validator for the values of helm, which also requires the keys of `x-required-for-helm`; the ordinary one if there are none. */
function createHelmValidator(values: CompiledFile): Validator {
  if (values.document === undefined) return values.validate;
  const document = requireForHelm(values.document);
  const requiresMore = JSON.stringify(document) !== JSON.stringify(values.document);
  return requiresMore ? createValidator(toJsonSchema(document)) : values.validate;
}

/** Parses a schema file and includes the files that it references. Undefined if the module has no such file. */
function readSchemaFile(
  schemaFile: SchemaFile | undefined,
  references: readonly SchemaReference[],
): ParsedSchemaFile | undefined {
  if (schemaFile === undefined) return undefined;
  const { text, file } = schemaFile;
  const { value, warnings } = parseMap(text, file);
  return { file, document: new ReferenceBundle(value, file, references).bundleRoot(), warnings };
}

/** Adds a warning to a config schema with `x-extend`, which has an effect in the values schema only. */
function warnOfExtendInConfig(config: ParsedSchemaFile | undefined): ParsedSchemaFile | undefined {
  if (config?.document["x-extend"] === undefined) return config;
  return withWarning(config, "only values.yaml extends another schema, so it means nothing");
}

/** Applies `x-extend` of the values schema, which takes over the config schema. Warns if that is missing or another file is named. */
function applyExtend(
  values: ParsedSchemaFile | undefined,
  config: ParsedSchemaFile | undefined,
): ParsedSchemaFile | undefined {
  const extendSetting = values?.document["x-extend"];
  if (values === undefined || extendSetting === undefined) return values;
  if (config === undefined)
    return withWarning(values, `${EXTENDED_FILE} does not exist beside it, so it means nothing`);
  const extendedValues = { ...values, document: extendSchema(values.document, config.document) };
  const namesConfigSchema = objectOf(extendSetting)["schema"] === EXTENDED_FILE;
  return namesConfigSchema
    ? extendedValues
    : withWarning(extendedValues, `it always extends ${EXTENDED_FILE}; write schema: ${EXTENDED_FILE}`);
}

function withWarning(parsed: ParsedSchemaFile, text: string): ParsedSchemaFile {
  return { ...parsed, warnings: [...parsed.warnings, `${parsed.file}: /x-extend: ${text}`] };
}

/** Checks one schema file, and makes the functions that fill and validate values by it. Throws ProblemError. */
function compileFile(parsed: ParsedSchemaFile | undefined): CompiledFile {
  if (parsed === undefined) return NO_FILE;
  const { file } = parsed;
  const { document, warnings } = tolerateGoSchema(parsed.document, file);
  const schema = toJsonSchema(document);
  const problems = [...findMetaSchemaProblems(schema, file), ...checkSchema(schema, file)];
  if (problems.length > 0) throw new ProblemError(...problems);
  return {
    document,
    schema,
    // Also below keywords that the validation ignores, such as `if`.
    secretPaths: findSecretPaths(parsed.document),
    fill: createCheckedFiller(schema, file),
    validate: createValidator(schema),
    warnings: [...parsed.warnings, ...warnings, ...schemaWarnings(parsed.document, file)],
  };
}

/** The function that fills in the defaults of a schema. Throws ProblemError for infinitely recursive defaults, at once or when it is called. */
function createCheckedFiller(schema: JsonObject, file: string): FillDefaults {
  const fill = createDefaultsFiller(schema);
  const fillChecked: FillDefaults = (value) => {
    try {
      return fill(value);
    } catch (error) {
      if (!(error instanceof EndlessDefaultsError)) throw error;
      const remedy = "give the recursive property no default";
      throw new ProblemError({ file, message: error.message, remedy });
    }
  };
  // Most infinite defaults already occur in an empty value.
  fillChecked({});
  return fillChecked;
}

/** A part of the values, with what the ConfigMap sets there and the schemas that describe it. */
interface ValuePosition {
  readonly value: Json;
  /** What the ConfigMap, its overlay or a Secret sets there. */
  readonly written: Json | undefined;
  /** All parts of the config schema and of the values schema that describe the value. */
  readonly config: readonly JsonObject[];
  readonly values: readonly JsonObject[];
}

type Roots = Readonly<Record<"config" | "values", JsonObject>>;

/**
 * Prepares `value` for the validation against the config schema. A module's own values.yaml may set keys that the values schema
 * declares and the config schema forbids: removes these keys. Keeps each key that the ConfigMap sets (`written`), so that the
 * validation reports it. Without one of the schemas, nothing is to be removed.
 */
function withoutFileOnlyKeys(
  { config, values }: Partial<Roots>,
  value: Json,
  written: Json | undefined,
): Json {
  if (config === undefined || values === undefined) return value;
  const rootSchemas = {
    config: [...schemasOfSameValue(config, config)],
    values: [...schemasOfSameValue(values, values)],
  };
  return withoutFileOnlyKeysAt({ config, values }, { value, written, ...rootSchemas });
}

/** `withoutFileOnlyKeys` for the part of the value at `parent`, whose members it removes or walks into. */
function withoutFileOnlyKeysAt(roots: Roots, parent: ValuePosition): Json {
  if (!isJsonObject(parent.value)) return parent.value;
  return mapMembers(parent.value, (_, key) => {
    const child = descendToMember(roots, parent, key);
    return isOnlyForFiles(parent, child) ? undefined : withoutFileOnlyKeysAt(roots, child);
  });
}

/** The member `key` of a part of the value, with all schemas that describe the member. */
function descendToMember(roots: Roots, parent: ValuePosition, key: string): ValuePosition {
  const listSchemas = (schemas: readonly JsonObject[], root: JsonObject): JsonObject[] => {
    const seen = new Set<JsonObject>();
    return schemas
      .flatMap((schema) => listMemberSchemas(schema, key))
      .flatMap((each) => [...schemasOfSameValue(root, each, seen)]);
  };
  return {
    value: isJsonObject(parent.value) ? (member(parent.value, key) ?? null) : null,
    written: isJsonObject(parent.written) ? member(parent.written, key) : undefined,
    config: listSchemas(parent.config, roots.config),
    values: listSchemas(parent.values, roots.values),
  };
}

/**
 * Whether only files may set a member: the values schema declares it, and the config schema, which describes what the ConfigMap may set,
 * does not and forbids undeclared members. False for a member that the ConfigMap sets all the same, so that validation reports it.
 */
function isOnlyForFiles(parent: ValuePosition, child: ValuePosition): boolean {
  const isSetInConfigMap = child.written !== undefined;
  const isDeclaredForFilesOnly = child.config.length === 0 && child.values.length > 0;
  if (isSetInConfigMap || !isDeclaredForFilesOnly) return false;
  return parent.config.some((each) => each["additionalProperties"] === false);
}

/**
 * The sub-schemas for the member `key`: those of `properties` and of matching patterns, else that of `additionalProperties`. With
 * `additionalProperties: true`, the empty schema, which accepts all; none if the schema does not mention the member or forbids it.
 */
function listMemberSchemas(schema: JsonObject, key: string): JsonObject[] {
  const { properties, patternProperties, additionalProperties } = schema;
  const candidates = isJsonObject(properties) ? [member(properties, key)] : [];
  for (const [pattern, patternSchema] of Object.entries(objectOf(patternProperties))) {
    if (compilePattern(pattern).test(key)) candidates.push(patternSchema);
  }
  const declared = candidates.filter((each) => isJsonObject(each));
  if (declared.length > 0) return declared;
  if (isJsonObject(additionalProperties)) return [additionalProperties];
  return additionalProperties === true ? [{}] : [];
}
