/** Runs one hook without a cluster, for the sub-command `hook run`. */

import { basename, dirname, relative, sep } from "node:path";

import { oneLine, parseJson } from "../lib/index.ts";
import { type HookFile, isJsonObject, type JsonObject } from "../model/index.ts";
import { type FileRun, type HookRunResult, runHookFile } from "./run-hook.ts";

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
