import { writeSync } from "node:fs";

import { UsageError, environment, parseSettings } from "./config.ts";
import type { Environment } from "./config.ts";
import { CLI_FLAGS, CliError, DEBUG_COMMANDS, callOf, callSocket } from "./debug/index.ts";
import { usage } from "./usage.ts";
import { VERSION } from "./version.ts";

const USAGE = 2;

/** Exit codes: 0 stopped on request, 1 refused to start or the call failed, 2 wrong usage (design: Running). */
async function main(args: readonly string[], env: Environment): Promise<number> {
  const [command = "start", ...rest] = args[0]?.startsWith("-") === true ? ["start", ...args] : args;
  if (args.includes("--help") || args.includes("-h") || command === "help") return print(usage());
  if (command === "version" || command === "--version") return print(`addon-operator ${VERSION}\n`);
  if (command === "start") return start(rest, env);
  if (DEBUG_COMMANDS.some((known) => known === command)) return debug([command, ...rest], env);
  if (command === "hook" || command === "lint") {
    const { offline } = await import("./offline.ts");
    return offline(command, rest, env);
  }
  throw new UsageError([`"${command}" is not a sub-command; see addon-operator --help`]);
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
