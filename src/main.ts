import { writeSync } from "node:fs";

import { UsageError, environment, parseSettings } from "./config.ts";
import type { Environment } from "./config.ts";
import { CLI_FLAGS, CliError, DEBUG_COMMANDS, callOf, callSocket } from "./debug/index.ts";
import { usage } from "./usage.ts";
import { VERSION } from "./version.ts";

const USAGE = 2;

type Command = (args: readonly string[], env: Environment) => number | Promise<number>;

const COMMANDS: Readonly<Record<string, Command>> = {
  start,
  help: () => print(usage()),
  version: () => print(`addon-operator ${VERSION}\n`),
  hook: (args, env) => offline("hook", args, env),
  lint: (args, env) => offline("lint", args, env),
  ...Object.fromEntries(
    DEBUG_COMMANDS.map((name): [string, Command] => [name, (args, env) => debug([name, ...args], env)]),
  ),
};

/** Exit codes: 0 stopped on request, 1 refused to start or the call failed, 2 wrong usage (design: Running). */
async function main(args: readonly string[], env: Environment): Promise<number> {
  if (args.includes("--help") || args.includes("-h")) return print(usage());
  if (args[0] === "--version") return print(`addon-operator ${VERSION}\n`);
  // Without a sub-command the operator starts.
  const [name = "start", ...rest] = args[0]?.startsWith("-") === false ? args : ["start", ...args];
  const command = COMMANDS[name];
  if (command === undefined)
    throw new UsageError([`"${name}" is not a sub-command; see addon-operator --help`]);
  return command(rest, env);
}

async function offline(command: "hook" | "lint", args: readonly string[], env: Environment): Promise<number> {
  const { runOffline } = await import("./offline.ts");
  return runOffline(command, args, env);
}

async function start(args: readonly string[], env: Environment): Promise<number> {
  const parsed = parseSettings(args, env);
  const extra = parsed.rest[0];
  if (extra !== undefined) throw new UsageError([`"${extra}" is not understood; see addon-operator --help`]);
  const { operate } = await import("./operator.ts");
  return operate(parsed, env);
}

/** Asks the running operator over its debug socket. */
async function debug(args: readonly string[], env: Environment): Promise<number> {
  const { settings, rest } = parseSettings(args, env, CLI_FLAGS);
  const call = callOf(rest);
  const answer = await callSocket(settings.debugSocket, call);
  print(answer.body);
  return answer.status < 400 ? 0 : 1;
}

function print(text: string): number {
  writeSync(1, text);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2), environment());
} catch (error) {
  if (!(error instanceof UsageError || error instanceof CliError)) throw error;
  writeSync(2, `${error.message}\n`);
  process.exitCode = USAGE;
}
