/** Compiles the schemas of a module or of global values (docs/VALUES.md, "Schemas"). */

import { Memo, digest } from "../../lib/index.ts";
import { ProblemError, objectOf } from "../../model/index.ts";
import type { Json, JsonObject, Problem, SchemaFile, SchemaFiles, Section } from "../../model/index.ts";
import { metaProblems, type Violation } from "./ajv.ts";
import { configPart } from "../config/config-part.ts";
import { EndlessDefaultsError, fillerOf, type Filler } from "./defaults.ts";
import { checkSchema, schemaWarnings, secretPathsOf } from "./schema-check.ts";
import { extend, forHelm, toJsonSchema } from "./schema-document.ts";
import { parseMap } from "../static-values.ts";
import { validatorOf, type Validator } from "./validator.ts";

export type { Violation } from "./ajv.ts";

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
  const texts = [files.config, files.values].flatMap((each) => [each?.file ?? "", each?.text ?? ""]);
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
  const source = read(files.config);
  if (source?.document["x-extend"] !== undefined) throw extendProblem(source, "only values.yaml may extend");
  const config = sideOf(source);
  const values = sideOf(extended(read(files.values), source));
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
  };
}

/** Most schemas require the same before helm as after a hook; then one validator does for both. */
function helmValidator(values: Side): Validator {
  if (values.document === undefined) return values.validate;
  const document = forHelm(values.document);
  const asksMore = JSON.stringify(document) !== JSON.stringify(values.document);
  return asksMore ? validatorOf(toJsonSchema(document)) : values.validate;
}

function read(source: SchemaFile | undefined): Source | undefined {
  if (source === undefined) return undefined;
  const { value, warnings } = parseMap(source.text, source.file);
  return { file: source.file, document: value, warnings };
}

function extended(values: Source | undefined, config: Source | undefined): Source | undefined {
  const wish = values?.document["x-extend"];
  if (values === undefined || wish === undefined) return values;
  if (objectOf(wish)["schema"] !== EXTENDS) throw extendProblem(values, `schema must be ${EXTENDS}`);
  if (config === undefined) throw extendProblem(values, `${EXTENDS} does not exist beside it`);
  return { ...values, document: extend(values.document, config.document) };
}

function extendProblem({ file }: Source, message: string): ProblemError {
  return new ProblemError([{ file, key: "/x-extend", message }]);
}

function sideOf(source: Source | undefined): Side {
  if (source === undefined) return NO_SIDE;
  const { document, file } = source;
  const schema = toJsonSchema(document);
  const problems = [...metaProblems(schema, file), ...checkSchema(schema, file)];
  if (problems.length > 0) throw new ProblemError(problems);
  return {
    document,
    schema,
    fill: checkedFiller(schema, file),
    validate: validatorOf(schema),
    warnings: [...source.warnings, ...schemaWarnings(document, file)],
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
