/** The sub-commands that need no cluster (docs/DEBUG.md, "Without a cluster"). */

import { UsageError, parseSettings } from "../config.ts";
import type { Environment } from "../config.ts";
import { runHookOffline } from "./try-hook.ts";
import { lintDirs, rbacOf } from "./lint.ts";
import type { Printed } from "./surroundings.ts";

/** Runs `hook run` or `lint`. Exit code 1 when the hook fails or lint finds something. Throws UsageError. */
export function runOffline(
  command: "hook" | "lint",
  args: readonly string[],
  env: Environment,
): Promise<Printed> {
  return command === "hook" ? hook(args, env) : lint(args, env);
}

const HOOK_FLAGS = ["--context", "--values", "--config-values"] as const;
const HOOK_USAGE = "hook run PATH --context FILE [--values FILE] [--config-values FILE]";

async function hook(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, HOOK_FLAGS);
  const { words, files } = split(rest);
  const [verb, path, extra] = words;
  const context = files.get("--context");
  if (verb !== "run" || path === undefined || extra !== undefined || context === undefined)
    throw new UsageError([`usage: addon-operator ${HOOK_USAGE}`]);
  const given = { path, context, values: files.get("--values"), configValues: files.get("--config-values") };
  return runHookOffline(given, settings, env);
}

function split(rest: readonly string[]): { words: string[]; files: Map<string, string> } {
  const words: string[] = [];
  const files = new Map<string, string>();
  const queue = [...rest];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (!arg.startsWith("--")) {
      words.push(arg);
      continue;
    }
    const equals = arg.indexOf("=");
    const name = equals < 0 ? arg : arg.slice(0, equals);
    const file = equals < 0 ? queue.shift() : arg.slice(equals + 1);
    if (file === undefined || file === "") throw new UsageError([`${name}: needs a file`]);
    files.set(name, file);
  }
  return { words, files };
}

async function lint(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, ["--rbac", "--values"]);
  const { words, files } = split(rest.filter((arg) => arg !== "--rbac"));
  if (words.length === 0) throw new UsageError(["usage: addon-operator lint [--rbac] [--values FILE] DIR…"]);
  const request = { dirs: words, values: files.get("--values") };
  return rest.includes("--rbac") ? rbacOf(request, settings, env) : lintDirs(request, settings, env);
}
