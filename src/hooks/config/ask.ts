/** Asks files for the configuration of their hooks: `--config`, and batch files `hook list` and `hook config`. */

import { oneLine, systemClock, type Clock, type Logger } from "../../lib/index.ts";
import type { HookFile } from "../../model/index.ts";
import { run, type RunResult } from "../../process/index.ts";
import { batchEnvironment, mayBeBatch } from "../batch.ts";
import { commandOf, type StartSettings } from "../run-hook.ts";
import { parseBatchConfig, type BatchOwner, type Configured } from "./batch-config.ts";
import { isConfiguration, parseHookConfig } from "./hook-config.ts";

/** What asking hooks needs. `checkFilter` rejects when the text is wrong. */
export interface AskOptions extends StartSettings {
  readonly checkFilter?: ((filter: string) => Promise<unknown>) | undefined;
  /** For one call of the file; default 60 s. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  /** Where it is logged that a file does not answer soon. */
  readonly logger?: Logger;
}

/** What a file was asked. */
export type Question = "--config" | "hook list" | "hook config";

/** The hooks of a file; or why there is no answer; or everything that is wrong with it. */
export type ConfigAnswer =
  | Configured
  | { readonly key: Question; readonly failure: string; readonly timedOut?: boolean }
  | { readonly key: Question; readonly errors: readonly string[] };

const TIMEOUT_MS = 60_000;
/** A file that takes longer is named in the log. */
const SLOW_MS = 5000;
const TAIL_LINES = 3;
const TOO_LARGE = { errors: ["the configuration is larger than 1 MiB"] } as const;

/**
 * Asks a file what its hooks bind to. Never throws.
 *
 * `--config` comes first, since it is the one question that no hook runs its work for. Only a file without extension
 * that has no configuration for it is asked `hook list`, and `hook config` if it has a list: so a hook that ignores
 * its arguments is neither run for a question that it does not know, nor taken for something else.
 */
export async function askConfig(
  file: HookFile,
  owner: BatchOwner,
  options: AskOptions,
): Promise<ConfigAnswer> {
  const asking = { file, owner, options };
  try {
    await options.prepare?.();
  } catch (error) {
    return { key: "--config", failure: oneLine(error) };
  }
  const result = await ask(asking, "--config");
  const answer = hookAnswer(result, owner);
  return checked(couldBeBatch(file, result) ? await askBatch(asking, answer) : answer, options);
}

interface Asking {
  readonly file: HookFile;
  readonly owner: BatchOwner;
  readonly options: AskOptions;
}

async function ask({ file, owner, options }: Asking, question: Question): Promise<RunResult> {
  const { timeoutMs = TIMEOUT_MS, clock = systemClock, logger } = options;
  const command = await commandOf(file, question.split(" "), options);
  const more = question === "--config" ? {} : batchEnvironment(owner.module);
  const fields = { hook: file.path, module: owner.module, question, limit: `${timeoutMs / 1000}s` };
  const slow = clock.setTimer(SLOW_MS, () => logger?.warn("Waiting for the configuration of a hook", fields));
  try {
    return await run({ ...command, env: { ...command.env, ...more }, timeoutMs });
  } finally {
    slow.cancel();
  }
}

function hookAnswer(result: RunResult, { kind, queue }: BatchOwner): ConfigAnswer {
  const key = "--config";
  if (result.outcome !== "succeeded") return failureIn(key, result);
  if (result.stdoutTruncated) return { key, ...TOO_LARGE };
  const parsed = parseHookConfig(result.stdout, kind, queue);
  if ("errors" in parsed) return { key, errors: parsed.errors };
  return { hooks: [{ config: parsed.config }], warnings: parsed.warnings };
}

/** Whether it ended by itself and without a configuration. */
function couldBeBatch(file: HookFile, { outcome, exitCode, stdout }: RunResult): boolean {
  if (!mayBeBatch(file) || exitCode === undefined || outcome === "timedOut" || outcome === "cancelled")
    return false;
  return outcome === "failed" || !isConfiguration(stdout);
}

const LIST = /Found [1-9]\d{0,3} items/;

/** The answer of a batch file; of any other one its `answer` to `--config`. */
async function askBatch(asking: Asking, answer: ConfigAnswer): Promise<ConfigAnswer> {
  const list = await ask(asking, "hook list");
  if (list.outcome === "timedOut") return failureIn("hook list", list);
  if (list.outcome !== "succeeded" || !LIST.test(list.stdout)) return withList(answer, list);
  const key = "hook config";
  const result = await ask(asking, key);
  if (result.outcome !== "succeeded") return failureIn(key, result);
  if (result.stdoutTruncated) return { key, ...TOO_LARGE };
  const parsed = parseBatchConfig(result.stdout, asking.owner);
  return "errors" in parsed ? { key, ...parsed } : parsed;
}

function failureIn(key: Question, result: RunResult): ConfigAnswer {
  return { key, failure: describe(result), timedOut: result.outcome === "timedOut" };
}

/** Who wrote a batch file learns why it is not taken for one. */
function withList(answer: ConfigAnswer, list: RunResult): ConfigAnswer {
  if (!("failure" in answer)) return answer;
  const why = list.outcome === "succeeded" ? 'prints no "Found N items"' : `fails: ${describe(list)}`;
  return { ...answer, failure: `${answer.failure} (as a batch file: hook list ${why})` };
}

function describe(result: RunResult): string {
  const tail = oneLine(result.stderr.trimEnd().split("\n").slice(-TAIL_LINES).join(" | "));
  if (result.outcome !== "failed" || result.exitCode === undefined || tail === "") return result.message;
  return `exit code ${result.exitCode}: ${tail}`;
}

/** The answer, with its filters checked. */
async function checked(answer: ConfigAnswer, { checkFilter }: AskOptions): Promise<ConfigAnswer> {
  if (!("hooks" in answer) || checkFilter === undefined) return answer;
  const found = answer.hooks.flatMap(({ config, item }) =>
    config.bindings.kubernetes.map(async ({ id, jqFilter }) => {
      if (jqFilter === undefined) return [];
      const place = item === undefined ? id : `hooks[${item}].${id}`;
      return checkFilter(jqFilter).then(
        () => [],
        (error: unknown) => [`${place}.jqFilter is invalid: ${oneLine(error)}`],
      );
    }),
  );
  const errors = (await Promise.all(found)).flat();
  const isBatch = answer.hooks.some(({ item }) => item !== undefined);
  return errors.length === 0 ? answer : { key: isBatch ? "hook config" : "--config", errors };
}
