/** Reads and checks the files that a hook leaves. */

import { readFile, stat } from "node:fs/promises";

import { oneLine } from "../../lib/index.ts";
import type { Scratch } from "../../process/index.ts";
import { LeftoverError } from "./json-stream.ts";
import { type MetricOperation, parseMetrics } from "./metric-operations.ts";
import { type ObjectOperation, parseObjectOperations } from "./object-operations.ts";

/** What a successful run left; nothing of it is applied yet. Patches of values are read where values are. */
export interface HookOutput {
  readonly configPatchText: string;
  readonly valuesPatchText: string;
  readonly metrics: readonly MetricOperation[];
  readonly objects: readonly ObjectOperation[];
}

/** Output files, by the variable that names them to the hook. */
export const OUTPUT_FILES = {
  CONFIG_VALUES_JSON_PATCH_PATH: "config-values-patch.json",
  VALUES_JSON_PATCH_PATH: "values-patch.json",
  METRICS_PATH: "metrics.json",
  KUBERNETES_PATCH_PATH: "kubernetes-patch.json",
  SPANS_PATH: "spans.json",
} as const;
type OutputVariable = keyof typeof OUTPUT_FILES;

/** A larger file fails the hook; in bytes. */
const MAX_OUTPUT = 64 * 1024 * 1024;

/** Reads and checks all that a hook left; throws LeftoverError, which names the variable of the bad file. */
export async function readLeftovers(scratch: Scratch): Promise<HookOutput> {
  const text = (variable: OutputVariable): Promise<string> =>
    about(variable, () => readOutput(scratch.path(OUTPUT_FILES[variable])));
  const [configPatchText, valuesPatchText, metrics, objects] = await Promise.all([
    text("CONFIG_VALUES_JSON_PATCH_PATH"),
    text("VALUES_JSON_PATCH_PATH"),
    text("METRICS_PATH"),
    text("KUBERNETES_PATCH_PATH"),
  ]);
  return {
    configPatchText,
    valuesPatchText,
    metrics: await about("METRICS_PATH", () => parseMetrics(metrics)),
    objects: await about("KUBERNETES_PATCH_PATH", () => parseObjectOperations(objects)),
  };
}

async function about<T>(variable: OutputVariable, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const remedy = "nothing of this run takes effect; correct what the hook writes there";
    throw new LeftoverError(`the file at ${variable} is refused: ${oneLine(error)} (${remedy})`);
  }
}

/**
 * A file that the hook removed counts as empty. Anything but a plain file is an error: reading it might never end.
 */
export async function readOutput(path: string, limit = MAX_OUTPUT): Promise<string> {
  const info = await stat(path).catch(() => undefined);
  if (info === undefined) return "";
  if (!info.isFile()) throw new LeftoverError("it is no plain file any more");
  if (info.size > limit) throw new LeftoverError(`it has ${info.size} bytes, more than ${limit}`);
  return info.size === 0 ? "" : readFile(path, "utf8");
}
