import { join } from "node:path";

import { ProblemError } from "../model/index.ts";
import type { JsonObject, StaticValues } from "../model/index.ts";
import type { RememberedValues } from "./memory.ts";
import { readText } from "./read-module.ts";
import { confirmGone, isSettled } from "./reading.ts";
import type { Reading } from "./reading.ts";
import type { DirScan } from "./scan-dir.ts";
import { globalValues, mergeSections, parseObject, staticValues } from "./static-values.ts";

/** One `modules/values.yaml` in force. */
export interface CommonFile {
  readonly file: string;
  readonly doc: JsonObject;
}

/**
 * The `modules/values.yaml` of every directory, in order. A broken or vanished one is a problem, or held over from
 * the last read.
 */
export function readCommonFiles(reading: Reading, scans: readonly DirScan[]): CommonFile[] {
  return scans.flatMap((scan) => {
    const file = join(scan.dir, "values.yaml");
    const now = readOne(reading, file, scan);
    if (now === undefined) return [];
    reading.after.values.set(file, now);
    return [{ file, doc: now.doc }];
  });
}

/** The `global` of all files merged; the first directory's leaf wins. */
export function mergeGlobals(reading: Reading, files: readonly CommonFile[]): JsonObject | undefined {
  let merged: JsonObject | undefined;
  for (const { file, doc } of files) {
    const values = guarded(reading, () => globalValues(doc, file));
    if (values !== undefined) {
      merged = merged === undefined ? values : (mergeSections(merged, values) as JsonObject);
    }
  }
  return merged;
}

/** What all files together say of one module. The same object as last time where nothing changed. */
export function commonOf(reading: Reading, files: readonly CommonFile[], valuesKey: string): StaticValues {
  const unchanged = files.every(({ file, doc }) => reading.before.values.get(file)?.doc === doc);
  const known = reading.before.commons.get(valuesKey);
  const sameFiles = reading.before.values.size === files.length;
  const common = unchanged && sameFiles && known !== undefined ? known : merge(reading, files, valuesKey);
  reading.after.commons.set(valuesKey, common);
  return common;
}

function merge(reading: Reading, files: readonly CommonFile[], valuesKey: string): StaticValues {
  const said = files
    .map(({ file, doc }) => guarded(reading, () => staticValues(doc, valuesKey, file)))
    .filter((one) => one !== undefined);
  const telling = said.filter((one) => one.section !== undefined || one.enabled !== undefined);
  const sections = said.map((one) => one.section).filter((section) => section !== undefined);
  return {
    file: (telling[0] ?? said[0])?.file ?? "values.yaml",
    section: sections.length === 0 ? undefined : sections.reduce((first, next) => mergeSections(first, next)),
    enabled: said.find((one) => one.enabled !== undefined)?.enabled,
  };
}

function readOne(reading: Reading, file: string, scan: DirScan): RememberedValues | undefined {
  const before = reading.before.values.get(file);
  const found = scan.valuesFile;
  if (found === undefined) return absent(reading, file, before);
  if (before?.settled === true && before.signature === found.signature) return before;
  const doc = guarded(reading, () => parseCommon(file));
  if (doc === undefined) return before;
  return { signature: found.signature, settled: isSettled(reading, found.changedAt), doc };
}

function parseCommon(file: string): JsonObject {
  const doc = parseObject(readText(file), file);
  globalValues(doc, file);
  return doc;
}

function absent(reading: Reading, file: string, before?: RememberedValues): RememberedValues | undefined {
  if (before !== undefined) return confirmGone(reading, [file]) ? undefined : before;
  if (reading.strict) {
    const remedy = "add it, or start without --strict-check-values-mode-enabled";
    reading.problems.push({ file, message: "is missing", remedy });
  }
  return undefined;
}

function guarded<T>(reading: Reading, read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    reading.problems.push(...error.problems);
    return undefined;
  }
}
