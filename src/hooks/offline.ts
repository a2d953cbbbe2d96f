/** Hooks without a cluster: runs one (`hook run`), and checks them (`lint`). */

import { basename, dirname, relative, sep } from "node:path";
import { readFile } from "node:fs/promises";

import { oneLine, parseJson } from "../lib/index.ts";
import { isJsonObject, type HookFile, type JsonObject, type Problem } from "../model/index.ts";
import type { HookKind } from "../bindings/index.ts";
import { runHookFile, type FileRun, type HookRunResult } from "./run-hook.ts";
import { askConfig, configProblem, failureProblem, type AskOptions } from "./config/loader.ts";

/** A run of a hook file with given inputs (`hook run PATH --context FILE`). */
export interface OfflineRun extends Omit<FileRun, "hook" | "context" | "fields"> {
  /** Absolute path of the hook. */
  readonly path: string;
  /** Text of the binding context file: a JSON array; a single context without brackets is accepted. */
  readonly context: string;
}

/** Runs a hook as the operator would and returns what it would change. Never throws; nothing is applied. */
export async function hookOffline(request: OfflineRun): Promise<HookRunResult> {
  const { path, context, ...rest } = request;
  const contexts = readContexts(context);
  if ("failure" in contexts) return { result: undefined, failure: contexts.failure };
  const hook = hookFileAt(path);
  const first = contexts.list[0]?.binding;
  const fields = { hook: hook.name, binding: typeof first === "string" ? first : "" };
  const text = `${JSON.stringify(contexts.list)}\n`;
  return runHookFile({ ...rest, hook: { ...hook, id: `offline:${hook.name}` }, context: text, fields });
}

function readContexts(text: string): { list: JsonObject[] } | { failure: string } {
  try {
    const value = parseJson(text);
    const list = Array.isArray(value) ? value : [value];
    if (list.every((item) => isJsonObject(item))) return { list };
    return { failure: "the context file must hold a JSON array of objects" };
  } catch (error) {
    return { failure: `the context file is no JSON: ${oneLine(error)}` };
  }
}

/** The hook, as it would be found in a module's or the global hooks directory. */
export function hookFileAt(path: string): HookFile {
  const parts = dirname(path).split(sep);
  const at = parts.lastIndexOf("hooks");
  const root = at < 0 ? dirname(path) : parts.slice(0, at + 1).join(sep);
  const name = at < 0 ? basename(path) : `hooks/${relative(root, path)}`;
  return { name, path, root, signature: "" };
}

/** What is wrong with a hook, and its warnings. */
export interface HookFindings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/**
 * Checks a hook without a cluster (`lint DIR`): it is run with `--config`, and crontabs and filters are checked.
 * One problem for each mistake, with the line of the script where the binding stands, if it can be found there.
 */
export async function lintHook(file: HookFile, kind: HookKind, options: AskOptions): Promise<HookFindings> {
  const answer = await askConfig(file, { kind }, options);
  if ("failure" in answer) return { problems: [failureProblem(file, answer.failure)], warnings: [] };
  const script = await readFile(file.path, "utf8").catch(() => "");
  const findings = (texts: readonly string[]) =>
    texts.map((text) => configProblem(file, text, lineOf(script, text)));
  if ("errors" in answer) return { problems: findings(answer.errors), warnings: [] };
  return { problems: [], warnings: findings(answer.warnings) };
}

const PATH = /^([A-Za-z0-9_]+)(?:\[(\d+)\])?(?:\.([A-Za-z0-9_.[\]]+))?/;

/** `line 12` where the key that a message begins with stands in the script; `--config` where it cannot be found. */
function lineOf(script: string, message: string): string {
  const [, binding = "", index = "0", rest = ""] = PATH.exec(message) ?? [];
  const lines = script.split("\n");
  const first = findKey(lines, binding, { from: 0, nth: 0 });
  if (first === undefined) return "--config";
  // A missing key stands nowhere: the line of its binding is the best place.
  const field = message.endsWith(" is required") ? "" : (rest.split(/[.[]/)[0] ?? "");
  const inner = findKey(lines, field, { from: first, nth: Number(index) });
  return `line ${(inner ?? first) + 1}`;
}

/** Index of the line with the nth (or last) place from a line on where `key` is written as a key. */
function findKey(
  lines: readonly string[],
  key: string,
  { from, nth }: { from: number; nth: number },
): number | undefined {
  if (!/^\w+$/.test(key)) return undefined;
  const found = lines.flatMap((line, index) => (index >= from && isKeyIn(line, key) ? [index] : []));
  return found[nth] ?? found.at(-1);
}

/** Whether `key` stands in a line as a whole word before a colon, quoted or not. */
function isKeyIn(line: string, key: string): boolean {
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
