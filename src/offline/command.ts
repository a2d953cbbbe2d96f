/** The sub-commands that need no cluster (docs/DEBUG.md, "Without a cluster"). */

import { UsageError, parseSettings, type Environment } from "../config.ts";
import { runHookOffline } from "./try-hook.ts";
import { lintDirs, rbacOf } from "./lint.ts";
import { writeHook } from "./new/new-hook.ts";
import { writeModule } from "./new/new-module.ts";
import { upgradeChart } from "./new/upgrade-chart.ts";
import type { Ask, ChartUpgrade } from "./new/upgrade-chart.ts";
import type { Printed } from "./surroundings.ts";

const COMMANDS = { hook, lint, new: newOne };

/**
 * Runs `hook run`, `lint`, `new module` or `new hook`. Exit code 1 when the hook fails or lint finds something. Throws
 * UsageError.
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
  const { words, flags } = split(rest);
  const [verb, path, extra] = words;
  const context = flags.get("--context");
  if (verb !== "run" || path === undefined || extra !== undefined || context === undefined)
    throw new UsageError([`usage: addon-operator ${HOOK_USAGE}`]);
  const given = { path, context, values: flags.get("--values"), configValues: flags.get("--config-values") };
  return runHookOffline(given, settings, env);
}

/** Flags that stand alone. */
const SWITCHES: ReadonlySet<string> = new Set(["--yes", "--rbac", "--plain-http"]);

function split(rest: readonly string[]): { words: string[]; flags: Map<string, string> } {
  const words: string[] = [];
  const flags = new Map<string, string>();
  const queue = [...rest];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (!arg.startsWith("--")) {
      words.push(arg);
      continue;
    }
    const equals = arg.indexOf("=");
    const name = equals < 0 ? arg : arg.slice(0, equals);
    if (SWITCHES.has(name)) {
      if (equals >= 0) throw new UsageError([`${name}: takes no value`]);
      flags.set(name, "");
      continue;
    }
    const value = equals < 0 ? queue.shift() : arg.slice(equals + 1);
    if (value === undefined || value === "") throw new UsageError([`${name}: needs a value`]);
    flags.set(name, value);
  }
  return { words, flags };
}

const CHART_FLAGS = ["--chart", "--version", "--repo", "--ca-file", "--plain-http"] as const;
const HOOK_PARTS = ["--language", "--on-event", "--schedule"] as const;
const NEW_USAGE = [
  "new module NAME [--chart DIR|FILE.tgz|oci://…|REPO/CHART] [--version VERSION] [--repo URL] [--ca-file FILE] [--plain-http]",
  "new hook MODULE NAME [--language bash|python] [--on-event [GROUP/VERSION/]KIND | --schedule CRONTAB]",
];

async function newOne(args: readonly string[], env: Environment): Promise<Printed> {
  const what = args.find((arg) => !arg.startsWith("-"));
  if (what === "module") return newModule(args, env);
  if (what === "hook") return newHook(args, env);
  throw new UsageError(NEW_USAGE.map((usage) => `usage: addon-operator ${usage}`));
}

async function newModule(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, CHART_FLAGS);
  const { words, flags } = split(rest);
  const [, name, extra] = words;
  if (name === undefined || extra !== undefined)
    throw new UsageError([`usage: addon-operator ${NEW_USAGE[0]}`]);
  const chart = chartIn(flags);
  const { ref } = chart;
  if (ref === undefined && CHART_FLAGS.some((flag) => flags.has(flag)))
    throw new UsageError([`${CHART_FLAGS.slice(1).join(", ")} say where --chart comes from: name it`]);
  return writeModule({ name, chart: ref === undefined ? undefined : { ...chart, ref } }, settings, env);
}

function chartIn(flags: ReadonlyMap<string, string>): ChartUpgrade["chart"] {
  const [ref, version, repo, caFile] = CHART_FLAGS.map((flag) => flags.get(flag));
  return { ref, version, repo, caFile, plainHttp: flags.has("--plain-http") };
}

async function newHook(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, HOOK_PARTS);
  const { words, flags } = split(rest);
  const [, module, name, extra] = words;
  const [language = "bash", onEvent, schedule] = HOOK_PARTS.map((flag) => flags.get(flag));
  if (module === undefined || name === undefined || extra !== undefined)
    throw new UsageError([`usage: addon-operator ${NEW_USAGE[1]}`]);
  if (language !== "bash" && language !== "python")
    throw new UsageError([`--language: "${language}" is neither bash nor python`]);
  return writeHook({ module, name, language, onEvent, schedule }, settings, env);
}

const UPGRADE_USAGE =
  "upgrade-chart NAME [--version VERSION] [--chart …] [--repo URL] [--ca-file FILE] [--plain-http] [--values FILE] [--yes]";

/** Runs `upgrade-chart`; `ask` shows what changes and asks whether it shall. Throws UsageError. */
export async function runUpgrade(args: readonly string[], env: Environment, ask: Ask): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, ["--yes", "--values", ...CHART_FLAGS]);
  const { words, flags } = split(rest);
  const [module, extra] = words;
  if (module === undefined || extra !== undefined)
    throw new UsageError([`usage: addon-operator ${UPGRADE_USAGE}`]);
  let shown = "";
  const yes: Ask = (text) => {
    shown = text;
    return Promise.resolve(true);
  };
  const asking = flags.has("--yes") ? yes : ask;
  const wanted = { module, chart: chartIn(flags), values: flags.get("--values") };
  const printed = await upgradeChart(wanted, { settings, env, ask: asking });
  return { ...printed, text: `${shown}${printed.text}` };
}

async function lint(args: readonly string[], env: Environment): Promise<Printed> {
  const { settings, rest } = parseSettings(args, env, ["--rbac", "--values"]);
  const { words, flags } = split(rest);
  if (words.length === 0) throw new UsageError(["usage: addon-operator lint [--rbac] [--values FILE] DIR…"]);
  const request = { dirs: words, values: flags.get("--values") };
  return flags.has("--rbac") ? rbacOf(request, settings, env) : lintDirs(request, settings, env);
}
