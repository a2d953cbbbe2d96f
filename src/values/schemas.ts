import { digest } from "../lib/index.ts";
import { ProblemError, isJsonObject } from "../model/index.ts";
import type { Json, JsonObject, Problem, SchemaFile, SchemaFiles, Section } from "../model/index.ts";
import { configPart } from "./config-part.ts";
import { EndlessDefaultsError, fillerOf } from "./defaults.ts";
import type { Filler } from "./defaults.ts";
import { checkSchema, secretPathsOf } from "./schema-check.ts";
import { extend, forHelm, toJsonSchema } from "./schema-document.ts";
import { schemaWarnings } from "./schema-warnings.ts";
import { parseMap } from "./static-values.ts";
import { metaProblems, validatorOf } from "./validator.ts";
import type { Validator, Violation } from "./validator.ts";

export type { Violation } from "./validator.ts";

/** The compiled schemas of `global` or of a module (VALUES "Validation"). What has no file accepts everything. */
export interface Schemas {
  /** Fills in defaults of the config schema; nulls count as present. Nothing is changed in place. */
  configDefaults(value: Section): Section;
  valuesDefaults(value: Section): Section;
  /**
   * The part of `value` that the config schema judges: without keys that only files set (not `written`) and only
   * the values schema knows (README "Validation").
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

const MOST_KEPT = 5000;
const EXTENDS = "config-values.yaml";
const kept = new Map<string, Schemas>();

/**
 * Reads and checks schema files; equal texts share one result. Throws ProblemError with file and path for YAML that
 * cannot be read, words or references that mean nothing, patterns that cannot be used, and an `x-extend` that names
 * anything but an existing `config-values.yaml`.
 */
export function compileSchemas(files: SchemaFiles): Schemas {
  const id = digest(...[files.config, files.values].flatMap((each) => [each?.file ?? "", each?.text ?? ""]));
  let schemas = kept.get(id);
  if (schemas === undefined) {
    schemas = compile(files);
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(id, schemas);
  }
  return schemas;
}

interface Side {
  readonly schema: JsonObject | undefined;
  readonly fill: Filler;
  readonly validate: Validator;
  readonly warnings: readonly string[];
}

const NO_SIDE: Side = { schema: undefined, fill: (value) => value, validate: () => [], warnings: [] };

function compile(files: SchemaFiles): Schemas {
  const config = read(files.config);
  if (config?.["x-extend"] !== undefined) throw extendProblem(files.config, "only values.yaml may extend");
  const values = extended(files, config);
  const configSide = sideOf(files.config, config);
  const valuesSide = sideOf(files.values, values);
  return {
    configDefaults: (value) => configSide.fill(value) as Section,
    valuesDefaults: (value) => valuesSide.fill(value) as Section,
    configPart: (value, written) =>
      configPart({ config: configSide.schema, values: valuesSide.schema }, value, written) as Section,
    validateConfig: configSide.validate,
    validateValues: valuesSide.validate,
    validateHelm: values === undefined ? () => [] : validatorOf(toJsonSchema(forHelm(values))),
    secretPaths: new Set([config, values].flatMap((each) => (each === undefined ? [] : secretPathsOf(each)))),
    warnings: [...configSide.warnings, ...valuesSide.warnings],
  };
}

function read(source: SchemaFile | undefined): JsonObject | undefined {
  return source === undefined ? undefined : parseMap(source.text, source.file).value;
}

function extended(files: SchemaFiles, config: JsonObject | undefined): JsonObject | undefined {
  const values = read(files.values);
  const wish = values?.["x-extend"];
  if (values === undefined || wish === undefined) return values;
  const name = isJsonObject(wish) ? wish["schema"] : undefined;
  if (name !== EXTENDS) throw extendProblem(files.values, `schema must be ${EXTENDS}`);
  if (config === undefined) throw extendProblem(files.values, `${EXTENDS} does not exist beside it`);
  return extend(values, config);
}

function extendProblem(source: SchemaFile | undefined, message: string): ProblemError {
  return new ProblemError([{ file: source?.file ?? "", key: "/x-extend", message }]);
}

function sideOf(source: SchemaFile | undefined, document: JsonObject | undefined): Side {
  if (source === undefined || document === undefined) return NO_SIDE;
  const schema = toJsonSchema(document);
  const problems = [...metaProblems(schema, source.file), ...checkSchema(schema, source.file)];
  if (problems.length > 0) throw new ProblemError(problems);
  const { warnings } = parseMap(source.text, source.file);
  return {
    schema,
    fill: checkedFiller(schema, source.file),
    validate: validatorOf(schema),
    warnings: [...warnings, ...schemaWarnings(document, source.file)],
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
