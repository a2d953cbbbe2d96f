/**
 * The `modules/values.yaml` of all modules directories, merged. A `Reading` is one read of the directories: its `before`
 * is the memory of the last read, its `after` the memory for the next one.
 */

import { join } from "node:path";

import {
  collect,
  mergeLayers,
  type JsonObject,
  type Section,
  type StaticValues,
} from "../../base/model/index.ts";
import { parseCommonValues, type CommonValues } from "../../values/index.ts";
import { missingValuesFile, readText } from "./files.ts";
import { Fingerprint } from "./fingerprint.ts";
import { confirmMissing, type Reading, type RememberedValues } from "./reading.ts";
import type { DirScan } from "./scan-dir.ts";

/** One `modules/values.yaml` and its content in force, which may be that of an earlier read. */
export interface CommonFile {
  readonly file: string;
  readonly values: CommonValues;
}

/**
 * Reads the `modules/values.yaml` of every modules directory, in order. The file is optional. If one that was read before is
 * broken, or has just disappeared, its last content stays in force.
 */
export function readCommonFiles(reading: Reading, scans: readonly DirScan[]): CommonFile[] {
  return scans.flatMap((scan) => {
    const file = join(scan.dir, "values.yaml");
    const content = readCommonFile(reading, file, scan);
    if (content === undefined) return [];
    reading.after.values.set(file, content);
    reading.warnings.push(...content.values.warnings);
    return [{ file, values: content.values }];
  });
}

/** Merges the section `global` of all files; for each leaf the first directory wins, so the list is reversed for `mergeLayers`, where the last layer wins. */
export function mergeGlobals(files: readonly CommonFile[]): JsonObject | undefined {
  return mergeLayers(files.map(({ values }) => values.global).reverse()) as JsonObject | undefined;
}

/**
 * Merges the section and the enabled flag of one module from all files; `valuesKey` is the key of its section. Returns the
 * same object as the last read if no file has changed, because a module with the same object need not be read again.
 */
export function mergeCommonValues(
  reading: Reading,
  files: readonly CommonFile[],
  valuesKey: string,
): StaticValues {
  const { before, after } = reading;
  const isNoneMissing = before.values.size === files.length;
  const areUnchanged =
    isNoneMissing && files.every(({ file, values }) => before.values.get(file)?.values === values);
  const lastMerged = areUnchanged ? before.commonValues.get(valuesKey) : undefined;
  const merged = lastMerged ?? mergeSections(files, valuesKey);
  after.commonValues.set(valuesKey, merged);
  return merged;
}

/** File and line of a value in the first file that contains it, which is the file whose value wins. For messages. */
export function findFirstPosition(files: readonly CommonFile[], pointer: string): string | undefined {
  const positions = files.values().map(({ values }) => values.findPosition(pointer));
  return positions.find((position) => position !== undefined);
}

/** Merges section and enabled flag of one module from all files; the first directory wins. */
function mergeSections(files: readonly CommonFile[], valuesKey: string): StaticValues {
  const sections = files.flatMap(({ file, values }) => {
    const sectionAndFlag = values.byKey.get(valuesKey);
    return sectionAndFlag === undefined ? [] : [{ file, ...sectionAndFlag }];
  });
  return {
    // Messages name this file.
    file: (sections[0] ?? files[0])?.file ?? "values.yaml",
    section: mergeLayers(sections.map((one) => one.section).reverse()) as Section | undefined,
    enabled: sections.find((one) => one.enabled !== undefined)?.enabled,
    findPosition: (pointer) => findFirstPosition(files, pointer),
  };
}

/** Reads one `modules/values.yaml`, or returns the content of the last read if the file has not changed or is broken; undefined if there is none. */
function readCommonFile(reading: Reading, file: string, scan: DirScan): RememberedValues | undefined {
  const remembered = reading.before.values.get(file);
  const currentFile = scan.valuesFile;
  if (currentFile === undefined) {
    // A file that the last read found counts as deleted only once a second read has missed it, too.
    if (remembered !== undefined) return confirmMissing(reading, [file]) ? undefined : remembered;
    if (reading.options.strict) reading.problems.push(missingValuesFile(file));
    return undefined;
  }
  const fingerprint = new Fingerprint([[file, currentFile]]);
  if (remembered?.fingerprint.isUnchanged(remembered.readAt, fingerprint) === true) return remembered;
  const values = collect(reading.problems, () => parseCommonValues(readText(file), file));
  return values === undefined ? remembered : { fingerprint, readAt: reading.now, values };
}
