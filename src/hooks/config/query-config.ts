/**
 * Queries hook files for their configuration: `--config`, for batch files (executables with several hooks, each with a number
 * `item`) `hook list` and `hook config`. An answer has the hooks, or the errors in the configuration, or a failure of the query.
 */

import {
  callIfLate,
  describeInvalidLine,
  oneLine,
  systemClock,
  type Clock,
  type Logger,
} from "../../base/index.ts";
import type { HookFile } from "../../base/model/index.ts";
import type { RunResult } from "../../base/process/index.ts";
import { batchEnvironment, mayBeBatchFile } from "../batch.ts";
import { buildCommand, type StartSettings } from "../run-hook.ts";
import { parseBatchConfig, type BatchOwner, type ConfiguredHooks } from "./batch-config.ts";
import { looksLikeConfig, parseHookConfig } from "./hook-config.ts";

/** `checkFilter` rejects for an invalid filter. */
export interface HookQueryOptions extends StartSettings {
  readonly checkFilter?: ((filter: string) => Promise<unknown>) | undefined;
  /** For one call of the file; default 60 s. */
  readonly timeoutMs?: number;
  /** Ends the file that is called. */
  readonly signal?: AbortSignal | undefined;
  readonly clock?: Clock;
  /** Receives a warning for a file that answers slowly. */
  readonly logger?: Logger;
}

/** The query that a file was run with. */
export type QueryWords = "--config" | "hook list" | "hook config";

/** The hooks of a file; or why it has no answer; or all errors of its configuration. */
export type ConfigAnswer =
  | ConfiguredHooks
  | { readonly key: QueryWords; readonly failure: string; readonly timedOut?: boolean }
  | { readonly key: QueryWords; readonly errors: readonly string[] };

const TIMEOUT_MS = 60_000;
/** After this time in milliseconds, a file that has not answered is logged. */
export const SLOW_MS = 5000;
const MAX_STDERR_LINES = 3;
const TOO_LARGE = { errors: ["the configuration is larger than 1 MiB"] } as const;

/**
 * Queries a file for the configuration of its hooks. Never throws.
 *
 * `--config` comes first, because every hook knows it and does not do its work for it. `hook list` follows only for a
 * file without extension that prints no configuration, and `hook config` only after a list: so a hook that ignores its
 * arguments is neither run by an unknown query nor mistaken for a batch file.
 */
export async function queryConfig(
  file: HookFile,
  owner: BatchOwner,
  options: HookQueryOptions,
): Promise<ConfigAnswer> {
  const query = { file, owner, options };
  try {
    // Creates the files that the environment of hooks names, such as the kubeconfig.
    await options.prepare?.();
  } catch (error) {
    return { key: "--config", failure: oneLine(error) };
  }
  const result = await runQuery(query, "--config");
  const answer = parseHookAnswer(result, owner);
  return checkFilters(isBatchCandidate(file, result) ? await queryBatch(query, answer) : answer, options);
}

interface Query {
  readonly file: HookFile;
  readonly owner: BatchOwner;
  readonly options: HookQueryOptions;
}

/** Runs the file with the arguments of a query. Logs a warning while a slow file has not answered. */
async function runQuery({ file, owner, options }: Query, question: QueryWords): Promise<RunResult> {
  const { timeoutMs = TIMEOUT_MS, clock = systemClock, logger, signal } = options;
  const command = await buildCommand(file, question.split(" "), options);
  const batchVariables = question === "--config" ? {} : batchEnvironment(owner.module);
  const fields = { hook: file.path, module: owner.module, question, limit: `${timeoutMs / 1000}s` };
  const warnIfSlow = () => logger?.warn("Waiting for the configuration of a hook", fields);
  // A query does nothing in the cluster, so the hook of a module with an account needs no token.
  const env = { ...command.env, ...batchVariables, ...options.actor?.variablesWithoutAccess };
  const result = options.children.run({ ...command, env, uid: options.actor?.uid, timeoutMs, signal });
  return callIfLate(clock, SLOW_MS, warnIfSlow, result);
}

/** Reads the answer to `--config`: the configuration of one hook, or why there is none. */
function parseHookAnswer(result: RunResult, { kind, queue }: BatchOwner): ConfigAnswer {
  const key = "--config";
  if (result.outcome !== "succeeded") return toFailure(key, result);
  if (result.stdoutTruncated) return { key, ...TOO_LARGE };
  if (result.invalidLine !== undefined) return { key, errors: [describeInvalidLine(result.invalidLine)] };
  const parsed = parseHookConfig(result.stdout, kind, queue);
  if ("errors" in parsed) return { key, errors: parsed.errors };
  return { hooks: [{ config: parsed.config }], warnings: parsed.warnings };
}

/** Whether the file may be a batch file: it exited by itself and printed no configuration. */
function isBatchCandidate(file: HookFile, { outcome, exitCode, stdout }: RunResult): boolean {
  const hasExited = exitCode !== undefined && outcome !== "timedOut" && outcome !== "cancelled";
  if (!hasExited || !mayBeBatchFile(file)) return false;
  return outcome === "failed" || !looksLikeConfig(stdout);
}

const LIST_OUTPUT = /Found [1-9]\d{0,3} items/;

/**
 * Queries a file that has not answered `--config` as a batch file: one executable with several hooks, which answers `hook list` and
 * `hook config`. If it is none, returns its `answer` to `--config`. A time-out is no answer: the file may be a batch file that hangs.
 */
async function queryBatch(query: Query, answer: ConfigAnswer): Promise<ConfigAnswer> {
  const list = await runQuery(query, "hook list");
  if (list.outcome === "timedOut") return toFailure("hook list", list);
  if (list.outcome !== "succeeded" || !LIST_OUTPUT.test(list.stdout)) return addListFailure(answer, list);
  const key = "hook config";
  const result = await runQuery(query, key);
  if (result.outcome !== "succeeded") return toFailure(key, result);
  if (result.stdoutTruncated) return { key, ...TOO_LARGE };
  if (result.invalidLine !== undefined) return { key, errors: [describeInvalidLine(result.invalidLine)] };
  const parsed = parseBatchConfig(result.stdout, query.owner);
  return "errors" in parsed ? { key, ...parsed } : parsed;
}

/** The answer that says why a query failed. */
function toFailure(key: QueryWords, result: RunResult): ConfigAnswer {
  return { key, failure: describeRun(result), timedOut: result.outcome === "timedOut" };
}

/** Adds to the error why the file is not accepted as a batch file, for its author. */
function addListFailure(answer: ConfigAnswer, list: RunResult): ConfigAnswer {
  if (!("failure" in answer)) return answer;
  const listFailure = describeRun(list);
  // The usual hook fails for the same reason whatever it is called with.
  if (list.outcome !== "succeeded" && listFailure === answer.failure) return answer;
  const why = list.outcome === "succeeded" ? 'prints no "Found N items"' : `fails: ${listFailure}`;
  return { ...answer, failure: `${answer.failure} (as a batch file: hook list ${why})` };
}

/** Why a run failed, with the last lines of stderr if the file wrote some. */
function describeRun(result: RunResult): string {
  const lastLines = oneLine(result.stderr.trimEnd().split("\n").slice(-MAX_STDERR_LINES).join(" | "));
  // The message names a signal, a time-out, or why the file cannot work.
  const hasExited = result.outcome === "failed" && result.exitCode !== undefined;
  return hasExited && result.isExplained !== true && lastLines !== ""
    ? `exit code ${result.exitCode}: ${lastLines}`
    : result.message;
}

/** Checks the jq filters of all kubernetes bindings; returns the answer itself, or the errors of the filters. */
async function checkFilters(answer: ConfigAnswer, { checkFilter }: HookQueryOptions): Promise<ConfigAnswer> {
  if (!("hooks" in answer) || checkFilter === undefined) return answer;
  const checks = answer.hooks.flatMap(({ config, item }) =>
    config.bindings.kubernetes.map(async ({ id, jqFilter }) => {
      if (jqFilter === undefined) return [];
      const place = item === undefined ? id : `hooks[${item}].${id}`;
      return checkFilter(jqFilter).then(
        () => [],
        (error: unknown) => [`${place}.jqFilter is invalid: ${oneLine(error)}`],
      );
    }),
  );
  const errors = (await Promise.all(checks)).flat();
  const isBatch = answer.hooks.some(({ item }) => item !== undefined);
  return errors.length === 0 ? answer : { key: isBatch ? "hook config" : "--config", errors };
}
