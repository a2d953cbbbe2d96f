/** Reads the global hooks directory: hooks and schemas. */

import { existsSync } from "node:fs";
import { join } from "node:path";

import { ProblemError, collect, type SchemaFiles } from "../../model/index.ts";
import { compileSchemas } from "../../values/index.ts";
import { findHookFiles, hookFilesOf, idleHooks } from "./hook-files.ts";
import { addFile, SCHEMA_FILES } from "./listing.ts";
import { idleWarning, readSchemas } from "./read-module.ts";
import { fileProblem } from "./read-text.ts";
import { confirmGone, type Reading, type RememberedGlobal } from "./reading.ts";
import type { Found } from "./signature.ts";

const NOTHING: RememberedGlobal = { hookFiles: [], schemas: {}, paths: [] };

/**
 * Hooks and schemas of the global hooks directory: hooks in its `hooks/` where that exists, else in the directory
 * itself. A missing directory is a warning; a broken one is a problem and keeps the content of the last read.
 */
export function readGlobal(reading: Reading, dir: string | undefined): RememberedGlobal {
  const before = reading.before.global;
  const global = dir === undefined ? NOTHING : (attempt(reading, dir) ?? before ?? NOTHING);
  const missing = (before?.paths ?? []).filter((path) => !global.paths.includes(path));
  const held = before !== undefined && missing.length > 0 && !confirmGone(reading, missing);
  const kept = held ? before : global;
  reading.after.global = kept;
  return kept;
}

function attempt(reading: Reading, dir: string): RememberedGlobal | undefined {
  try {
    return read(reading, dir);
  } catch (error) {
    reading.problems.push(...(error instanceof ProblemError ? error.problems : [fileProblem(dir, error)]));
    return undefined;
  }
}

function read(reading: Reading, dir: string): RememberedGlobal {
  if (!existsSync(dir)) {
    reading.warnings.push(`${dir}: there is no such directory, so there are no global hooks`);
    return NOTHING;
  }
  const root = existsSync(join(dir, "hooks")) ? join(dir, "hooks") : dir;
  const hooks = findHookFiles(root);
  const schemaFiles = findSchemas(dir);
  reading.warnings.push(...idleHooks(hooks).map(idleWarning));
  return {
    hookFiles: hookFilesOf(root, hooks),
    schemas: goodSchemas(reading, readSchemas(schemaFiles)),
    paths: [...hooks.values(), ...schemaFiles.values()].map((file) => file.path),
  };
}

/** Schemas that cannot be used are a problem; those of the last read stay in force. */
function goodSchemas(reading: Reading, files: SchemaFiles): SchemaFiles {
  const compiled = collect(reading.problems, () => compileSchemas(files));
  return compiled === undefined ? (reading.before.global?.schemas ?? {}) : files;
}

function findSchemas(dir: string): Map<string, Found> {
  const files = new Map<string, Found>();
  for (const rel of Object.values(SCHEMA_FILES)) addFile(files, dir, rel);
  return files;
}
