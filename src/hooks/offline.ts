/** Hooks without a cluster: runs one (`hook run`), and checks them (`lint`). A batch file is an executable with several hooks. */

import { basename, dirname, relative, sep } from "node:path";
import { readFile } from "node:fs/promises";

import { oneLine, parseExactJson } from "../base/index.ts";
import { asString, isJsonObject, MAIN_QUEUE } from "../base/model/index.ts";
import type { BatchItem, Hook, HookFile, JsonObject, Problem } from "../base/model/index.ts";
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
  /** The names of the hook's bindings: a context with another one is refused. Undefined = any name. */
  readonly bindings?: readonly string[];
  /** Text of the binding context file: a JSON array; a single context without brackets is accepted. */
  readonly context: string;
}

/** Runs a hook as the operator would and returns what it would change. Never throws; nothing is applied. */
export async function runHookFileOffline(request: OfflineRun): Promise<HookRunResult> {
  const { path, context, module, item, bindings, ...options } = request;
  const contexts = parseContexts(context, bindings);
  if ("failure" in contexts) return { result: undefined, failure: contexts.failure };
  const file = toHookFile(path);
  const hook = { ...file, id: `offline:${file.name}`, module, item };
  const logFields = { hook: file.name, binding: asString(contexts.list[0]?.binding) ?? "" };
  const text = `${JSON.stringify(contexts.list)}\n`;
  return runHookFile({ ...options, hook, context: text, fields: logFields });
}

/** Parses a binding context file: an array of objects, or one object without brackets. Each names one of the bindings, or none. */
function parseContexts(
  text: string,
  bindings: readonly string[] | undefined,
): { list: JsonObject[] } | { failure: string } {
  try {
    const value = parseExactJson(text);
    const list = Array.isArray(value) ? value : [value];
    if (!list.every((item) => isJsonObject(item)))
      return { failure: "the context file must contain a JSON array of objects" };
    const names = list.map(({ binding }) => asString(binding)).filter((name) => name !== undefined);
    const unknown = bindings && names.find((name) => !bindings.includes(name));
    if (bindings === undefined || unknown === undefined) return { list };
    const known = [...new Set(bindings)].join(", ") || "none";
    return { failure: `the context file names the binding "${unknown}"; the hook has: ${known}` };
  } catch (error) {
    return { failure: `the context file is no JSON: ${oneLine(error)}` };
  }
}

/**
 * The hook file at a path, as a scan of its hooks directory returns it: `/modules/010-a/hooks/b/c.sh` is the hook `hooks/b/c.sh`
 * of the directory `/modules/010-a/hooks`. Without a parent directory `hooks`, the directory is that of the file.
 */
export function toHookFile(path: string): HookFile {
  const parts = dirname(path).split(sep);
  const hooksIndex = parts.lastIndexOf("hooks");
  if (hooksIndex < 0) return { name: basename(path), path, root: dirname(path), signature: "" };
  const root = parts.slice(0, hooksIndex + 1).join(sep);
  return { name: `hooks/${relative(root, path)}`, path, root, signature: "" };
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
  // The source of a batch file, a binary, is unknown.
  const toProblems = isBatch ? createBatchProblems(file) : await createLineProblems(file);
  if ("errors" in answer) return { hooks: [], problems: toProblems(answer.errors), warnings: [] };
  const hooks = answer.hooks.map((hook, index) => ({
    ...file,
    ...hook,
    id: `${file.path} ${index}`,
    module,
  }));
  return { hooks, problems: [], warnings: toProblems(answer.warnings) };
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

/**
 * `line 12`, where the script contains the key that begins the message, such as `kubernetes[1].kind`; `--config` if it is not
 * found. It is a guess: the second `kind` after `kubernetes` is that of the second binding.
 */
function findLine(script: string, message: string): string {
  const [, binding = "", index = "0", path = ""] = PATH.exec(message) ?? [];
  const lines = script.split("\n");
  const bindingLine = findKey(lines, binding, { from: 0, nth: 0 });
  if (bindingLine === undefined) return "--config";
  // A missing key has no line: use the line of its binding.
  const key = message.endsWith(" is required") ? "" : (path.split(/[.[]/)[0] ?? "");
  const keyLine = findKey(lines, key, { from: bindingLine, nth: Number(index) });
  return `line ${(keyLine ?? bindingLine) + 1}`;
}

/** Index of the line with the nth occurrence of `key` as a key, from a start line on; of the last one if there are fewer. */
function findKey(
  lines: readonly string[],
  key: string,
  { from, nth }: { from: number; nth: number },
): number | undefined {
  const isPlainKey = /^\w+$/.test(key);
  if (!isPlainKey) return undefined;
  const matches = lines.flatMap((line, index) => (index >= from && containsKey(line, key) ? [index] : []));
  return matches[nth] ?? matches.at(-1);
}

/** Whether a line contains `key` as a whole word before a colon, quoted or not. */
function containsKey(line: string, key: string): boolean {
  for (let start = line.indexOf(key); start >= 0; start = line.indexOf(key, start + 1)) {
    const isEndOfLongerWord = /\w/.test(line.charAt(start - 1));
    const textAfterKey = line
      .slice(start + key.length)
      .replace(/^["']/, "")
      .trimStart();
    if (!isEndOfLongerWord && textAfterKey.startsWith(":")) return true;
  }
  return false;
}
