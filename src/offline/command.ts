/** The sub-commands that need no cluster (docs/DEBUG.md, "Without a cluster"). */

import { UsageError, parseSettings } from "../config.ts";
import type { Environment } from "../config.ts";
import { runHookOffline } from "./try-hook.ts";
import { lintDirs, rbacOf } from "./lint.ts";
import { writeModule } from "./new/new-module.ts";
import type { Printed } from "./surroundings.ts";

const COMMANDS = { hook, lint, new: newModule };

/**
 * Runs `hook run`, `lint` or `new module`. Exit code 1 when the hook fails or lint finds something. Throws UsageError.
 */
export function runOffline(
  command: keyof typeof COMMANDS,
  args: readonly string[],
  env: Environment,
): Promise<Printed> {
  return COMMANDS[command](args, env);
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
    if (file === undefined || file === "") throw new UsageError([`${name}: needs a value`]);
    files.set(name, file);
  }
  return { words, files };
}

const CHART_FLAGS = ["--chart", "--version", "--repo"] as const;
const NEW_USAGE =
  "new module NAME [--chart DIR|FILE.tgz|oci://…|REPO/CHART] [--version VERSION] [--repo URL]";

async function newModule(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, CHART_FLAGS);
  const { words, files: flags } = split(rest);
  const [what, name, extra] = words;
  if (what !== "module" || name === undefined || extra !== undefined)
    throw new UsageError([`usage: addon-operator ${NEW_USAGE}`]);
  const [chart, version, repo] = CHART_FLAGS.map((flag) => flags.get(flag));
  if (chart === undefined && (version ?? repo) !== undefined)
    throw new UsageError(["--version and --repo say where --chart comes from: name it"]);
  return writeModule(
    { name, chart: chart === undefined ? undefined : { ref: chart, version, repo } },
    settings,
    env,
  );
}

async function lint(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, ["--rbac", "--values"]);
  const { words, files } = split(rest.filter((arg) => arg !== "--rbac"));
  if (words.length === 0) throw new UsageError(["usage: addon-operator lint [--rbac] [--values FILE] DIR…"]);
  const request = { dirs: words, values: files.get("--values") };
  return rest.includes("--rbac") ? rbacOf(request, settings, env) : lintDirs(request, settings, env);
}
