/** Hooks without a cluster: runs one (`hook run`), and checks them (`lint`). */

import { basename, dirname, relative, sep } from "node:path";
import { readFile } from "node:fs/promises";

import { oneLine, parseJson } from "../lib/index.ts";
import { isJsonObject, MAIN_QUEUE } from "../model/index.ts";
import type { BatchItem, Hook, HookFile, JsonObject, Problem } from "../model/index.ts";
import { runHookFile, type HookFileRun, type HookRunResult } from "./run-hook.ts";
import { queryConfig, type HookQueryOptions } from "./config/query-config.ts";
import { toConfigProblem, toFailureProblem } from "./config/loader.ts";

/** A run of a hook file with given inputs (`hook run PATH --context FILE`). */
export interface OfflineRun extends Omit<HookFileRun, "hook" | "context" | "fields"> {
  /** Absolute path of the hook. */
  readonly path: string;
  /** Undefined for global hooks. */
  readonly module?: string | undefined;
  /** Which hook of a batch file is run; without it the file is run as an ordinary hook. */
  readonly item?: BatchItem | undefined;
  /** Text of the binding context file: a JSON array; a single context without brackets is accepted. */
  readonly context: string;
}

/** Runs a hook as the operator would and returns what it would change. Never throws; nothing is applied. */
export async function runHookFileOffline(request: OfflineRun): Promise<HookRunResult> {
  const { path, context, module, item, ...rest } = request;
  const contexts = parseContexts(context);
  if ("failure" in contexts) return { result: undefined, failure: contexts.failure };
  const hook = toHookFile(path);
  const first = contexts.list[0]?.binding;
  const fields = { hook: hook.name, binding: typeof first === "string" ? first : "" };
  const text = `${JSON.stringify(contexts.list)}\n`;
  return runHookFile({
    ...rest,
    hook: { ...hook, id: `offline:${hook.name}`, module, item },
    context: text,
    fields,
  });
}

/** Parses a binding context file: an array of objects, or one object without brackets. */
function parseContexts(text: string): { list: JsonObject[] } | { failure: string } {
  try {
    const value = parseJson(text);
    const list = Array.isArray(value) ? value : [value];
    if (list.every((item) => isJsonObject(item))) return { list };
    return { failure: "the context file must contain a JSON array of objects" };
  } catch (error) {
    return { failure: `the context file is no JSON: ${oneLine(error)}` };
  }
}

/** The hook file at a path, as a scan of its hooks directory returns it. */
export function toHookFile(path: string): HookFile {
  const parts = dirname(path).split(sep);
  const at = parts.lastIndexOf("hooks");
  const root = at < 0 ? dirname(path) : parts.slice(0, at + 1).join(sep);
  const name = at < 0 ? basename(path) : `hooks/${relative(root, path)}`;
  return { name, path, root, signature: "" };
}

export interface HookFindings {
  /** The hooks of the file; empty if it has problems. */
  readonly hooks: readonly Hook[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/**
 * Checks a hook file without a cluster (`lint DIR`): runs it with `--config` and checks its bindings, crontabs and
 * filters. `module` is undefined for global hooks. Returns one problem per mistake, with the line of the binding in the
 * script if it is found there.
 */
export async function lintHook(
  file: HookFile,
  module: string | undefined,
  options: HookQueryOptions,
): Promise<HookFindings> {
  const kind = module === undefined ? "global" : "module";
  const answer = await queryConfig(file, { kind, queue: MAIN_QUEUE, module }, options);
  if ("failure" in answer) return { hooks: [], problems: [toFailureProblem(file, answer)], warnings: [] };
  const isBatch = "errors" in answer ? answer.key !== "--config" : answer.hooks[0]?.item !== undefined;
  const findings = isBatch ? createBatchProblems(file) : await createLineProblems(file);
  if ("errors" in answer) return { hooks: [], problems: findings(answer.errors), warnings: [] };
  const hooks = answer.hooks.map((hook, index) => ({
    ...file,
    ...hook,
    id: `${file.path} ${index}`,
    module,
  }));
  return { hooks, problems: [], warnings: findings(answer.warnings) };
}

type ToProblems = (texts: readonly string[]) => Problem[];

/** Makes a function that turns messages about a batch file, which has no lines to name, into problems. */
function createBatchProblems(file: HookFile): ToProblems {
  return (texts) => texts.map((text) => toConfigProblem(file, text, "hook config"));
}

/** Makes a function that turns messages about a hook into problems with the line of its script. */
async function createLineProblems(file: HookFile): Promise<ToProblems> {
  const script = await readFile(file.path, "utf8").catch(() => "");
  return (texts) => texts.map((text) => toConfigProblem(file, text, findLine(script, text)));
}

const PATH = /^([A-Za-z0-9_]+)(?:\[(\d+)\])?(?:\.([A-Za-z0-9_.[\]]+))?/;

/** `line 12`, the place of the key that begins the message, in the script; `--config` if it is not found. */
function findLine(script: string, message: string): string {
  const [, binding = "", index = "0", rest = ""] = PATH.exec(message) ?? [];
  const lines = script.split("\n");
  const first = findKey(lines, binding, { from: 0, nth: 0 });
  if (first === undefined) return "--config";
  // A missing key has no line: use the line of its binding.
  const field = message.endsWith(" is required") ? "" : (rest.split(/[.[]/)[0] ?? "");
  const inner = findKey(lines, field, { from: first, nth: Number(index) });
  return `line ${(inner ?? first) + 1}`;
}

/** Index of the line with the nth occurrence of `key` as a key, from a start line on; of the last one if there are fewer. */
function findKey(
  lines: readonly string[],
  key: string,
  { from, nth }: { from: number; nth: number },
): number | undefined {
  if (!/^\w+$/.test(key)) return undefined;
  const found = lines.flatMap((line, index) => (index >= from && containsKey(line, key) ? [index] : []));
  return found[nth] ?? found.at(-1);
}

/** Whether a line contains `key` as a whole word before a colon, quoted or not. */
function containsKey(line: string, key: string): boolean {
  for (let at = line.indexOf(key); at >= 0; at = line.indexOf(key, at + 1)) {
    if (/\w/.test(line.charAt(at - 1))) continue;
    const after = line
      .slice(at + key.length)
      .replace(/^["']/, "")
      .trimStart();
    if (after.startsWith(":")) return true;
  }
  return false;
}
