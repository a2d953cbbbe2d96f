/**
 * Runs batch files, executables with several hooks, such as module-sdk builds (docs/reference/hooks.md, "Batch hooks"). The
 * `item` of a hook is its number in the file, or `ready` for the readiness probe; ordinary hooks have none.
 */

import { extname } from "node:path";

import { attempt, oneLine, parseJson } from "../base/index.ts";
import { asString, GLOBAL, objectOf } from "../base/model/index.ts";
import type { Hook, HookFile } from "../base/model/index.ts";
import type { RunResult } from "../base/process/index.ts";

/** Whether a file may be a batch file: its name has no extension. */
export function mayBeBatchFile({ path }: Pick<HookFile, "path">): boolean {
  return extname(path) === "";
}

/** The arguments that select a hook of a batch file; none for an ordinary hook. */
export function batchArguments({ item }: Pick<Hook, "item">): readonly string[] {
  if (item === undefined) return [];
  return item === "ready" ? ["hook", "ready"] : ["hook", "run", String(item)];
}

/** The environment variables of batch files, besides those of all hooks. */
export function batchEnvironment(module: string | undefined): Readonly<Record<string, string>> {
  return { MODULE_NAME: module ?? GLOBAL, APPLICATION_NAME: "", APPLICATION_NAMESPACE: "" };
}

/** A probe that hangs must end, because the next one waits for it. */
const MAX_PROBE_MS = 60_000;

/** Time limit of a run of the hook: the one of all hooks, for readiness probes a short one. Undefined = none. */
export function getTimeLimitMs({ item }: Pick<Hook, "item">, hookTimeoutMs?: number): number | undefined {
  return item === "ready" ? Math.min(hookTimeoutMs ?? Infinity, MAX_PROBE_MS) : hookTimeoutMs;
}

/** The failure in one line. Of a batch file that ended by itself, takes the message of the JSON error that it printed, if any. */
export function describeFailedResult({ item }: Pick<Hook, "item">, result: RunResult): string {
  const isExitOfBatchFile = item !== undefined && result.exitCode !== undefined && !result.isExplained;
  const message = isExitOfBatchFile ? parseErrorMessage(result.stderr) : undefined;
  return message === undefined ? result.message : `exit code ${result.exitCode}: ${message}`;
}

/** The message of the JSON error in the last line of stderr, as module-sdk writes it; undefined if there is none. */
function parseErrorMessage(stderr: string): string | undefined {
  const lastLine = stderr.trimEnd().split("\n").at(-1) ?? "";
  const value = attempt(() => parseJson(lastLine));
  const message = asString(objectOf(value)["message"]) ?? "";
  return message === "" ? undefined : oneLine(message);
}
