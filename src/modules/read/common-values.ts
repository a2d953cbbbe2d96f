/** The `modules/values.yaml` of all modules directories, merged. */

import { join } from "node:path";

import { collect, type JsonObject, type Section, type StaticValues } from "../../model/index.ts";
import { mergeLayers, parseCommonValues, type CommonValues } from "../../values/index.ts";
import { isSettled, missingValues, readText } from "./files.ts";
import { confirmGone, type Reading, type RememberedValues } from "./reading.ts";
import type { DirScan } from "./scan-dir.ts";

/** One `modules/values.yaml` that counts. */
export interface CommonFile {
  readonly file: string;
  readonly values: CommonValues;
}

/**
 * The `modules/values.yaml` of every directory, in order. One that is broken or missing is a problem, or keeps the
 * content of the last read.
 */
export function readCommonFiles(reading: Reading, scans: readonly DirScan[]): CommonFile[] {
  return scans.flatMap((scan) => {
    const file = join(scan.dir, "values.yaml");
    const now = readOne(reading, file, scan);
    if (now === undefined) return [];
    reading.after.values.set(file, now);
    reading.warnings.push(...now.values.warnings);
    return [{ file, values: now.values }];
  });
}

/** The `global` of all files merged; for each leaf the first directory wins. */
export function mergeGlobals(files: readonly CommonFile[]): JsonObject | undefined {
  return mergeLayers(files.map(({ values }) => values.global).reverse()) as JsonObject | undefined;
}

/** What all files together say about one module. Returns the same object as last time where nothing changed. */
export function commonOf(reading: Reading, files: readonly CommonFile[], valuesKey: string): StaticValues {
  const unchanged = files.every(({ file, values }) => reading.before.values.get(file)?.values === values);
  const known = reading.before.commons.get(valuesKey);
  const sameFiles = reading.before.values.size === files.length;
  const common = unchanged && sameFiles && known !== undefined ? known : mergeSaid(files, valuesKey);
  reading.after.commons.set(valuesKey, common);
  return common;
}

/** Position of each key in the first file that has it. */
export function placeIn(files: readonly CommonFile[], pointer: string): string | undefined {
  for (const { values } of files) {
    const place = values.placeOf(pointer);
    if (place !== undefined) return place;
  }
  return undefined;
}

function mergeSaid(files: readonly CommonFile[], valuesKey: string): StaticValues {
  const said = files.flatMap(({ file, values }) => {
    const one = values.byKey.get(valuesKey);
    return one === undefined ? [] : [{ file, ...one }];
  });
  return {
    file: (said[0] ?? files[0])?.file ?? "values.yaml",
    section: mergeLayers(said.map((one) => one.section).reverse()) as Section | undefined,
    enabled: said.find((one) => one.enabled !== undefined)?.enabled,
    placeOf: (pointer) => placeIn(files, pointer),
  };
}

function readOne(reading: Reading, file: string, scan: DirScan): RememberedValues | undefined {
  const before = reading.before.values.get(file);
  const found = scan.valuesFile;
  if (found === undefined) return absent(reading, file, before);
  if (before?.settled === true && before.signature === found.signature) return before;
  const values = collect(reading.problems, () => parseCommonValues(readText(file), file));
  if (values === undefined) return before;
  return { signature: found.signature, settled: isSettled(found.changedAt, reading.now), values };
}

function absent(reading: Reading, file: string, before?: RememberedValues): RememberedValues | undefined {
  if (before !== undefined) return confirmGone(reading, [file]) ? undefined : before;
  if (reading.strict) reading.problems.push(missingValues(file));
  return undefined;
}
