/** Compiles the schemas of modules and of global values. */

import { ProblemError } from "../../model/index.ts";
import type { Problem, SchemaFiles } from "../../model/index.ts";
import { compileSchemas } from "../../values/index.ts";
import type { Schemas } from "../../values/index.ts";
import type { Ports } from "../ports.ts";

/** Schemas whose warnings were logged, so that a reload without changes logs nothing. */
const told = new WeakSet<Schemas>();

/** Compiles schemas and logs their warnings once; returns what makes them unusable. */
export function checkSchemas({ logger }: Pick<Ports, "logger">, files: SchemaFiles): Problem | undefined {
  try {
    const schemas = compileSchemas(files);
    if (!told.has(schemas)) for (const warning of schemas.warnings) logger.warn(warning);
    told.add(schemas);
    return undefined;
  } catch (error) {
    if (error instanceof ProblemError) return error.problems[0];
    throw error;
  }
}
