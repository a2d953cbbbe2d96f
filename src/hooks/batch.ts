/**
 * How batch files are run: executables with several hooks, such as module-sdk builds (docs/HOOKS.md, "Batch hooks").
 */

import { extname } from "node:path";

import { oneLine, parseJson } from "../lib/index.ts";
import { GLOBAL, isJsonObject } from "../model/index.ts";
import type { Hook, HookFile, Json } from "../model/index.ts";
import type { RunResult } from "../process/index.ts";

/** Whether a file may be a batch file: its name has no extension. */
export function mayBeBatch({ path }: Pick<HookFile, "path">): boolean {
  return extname(path) === "";
}

/** The arguments that run a hook: none where it has its file to itself. */
export function argumentsOf({ item }: Pick<Hook, "item">): readonly string[] {
  if (item === undefined) return [];
  return item === "ready" ? ["hook", "ready"] : ["hook", "run", String(item)];
}

/** The variables that batch files get beside those of all hooks. */
export function batchEnvironment(module: string | undefined): Readonly<Record<string, string>> {
  return { MODULE_NAME: module ?? GLOBAL, APPLICATION_NAME: "", APPLICATION_NAMESPACE: "" };
}

/** A probe that takes longer has failed, so that the next one can begin. */
const LONGEST_PROBE_MS = 60_000;

/** How long a run of the hook may take; undefined: as long as it likes. */
export function timeLimit({ item }: Pick<Hook, "item">, hookTimeoutMs?: number): number | undefined {
  return item === "ready" ? Math.min(hookTimeoutMs ?? Infinity, LONGEST_PROBE_MS) : hookTimeoutMs;
}

/** What went wrong, in one line: with the message of the error that the file printed as JSON, where it did. */
export function failureOf({ item }: Pick<Hook, "item">, result: RunResult): string {
  const message = item === undefined ? undefined : reportedError(result.stderr);
  return message === undefined || result.exitCode === undefined
    ? result.message
    : `exit code ${result.exitCode}: ${message}`;
}

function reportedError(stderr: string): string | undefined {
  const last = stderr.trimEnd().split("\n").at(-1) ?? "";
  let value: Json;
  try {
    value = parseJson(last);
  } catch {
    return undefined;
  }
  const message = isJsonObject(value) ? value["message"] : undefined;
  return typeof message === "string" && message !== "" ? oneLine(message) : undefined;
}
