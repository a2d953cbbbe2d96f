/** The entry point and the command line: chooses the sub-command, runs it, and turns its outcome into an exit code. */

import { UsageError, parseSettings } from "./config.ts";
import {
  CLI_FLAGS,
  CliError,
  DEBUG_COMMANDS,
  NoOperatorError,
  WAIT_FLAGS,
  callOf,
  callOperator,
  socketPlaces,
  waitFor,
} from "./debug/index.ts";
import type { Call } from "./debug/index.ts";
import { environment, type Environment } from "./environment.ts";
import { createLogger, logSink, sleep, systemClock, writeAll } from "./lib/index.ts";
import { ProblemError } from "./model/index.ts";
import { usage } from "./usage.ts";
import { VERSION } from "./version.ts";

const OLDEST_NODE = 24;
const REFUSED = 1;
const USAGE = 2;
/** Of `module diff`, where there is a difference. */
const DIFFERS = 10;
const WATCH_MS = 1000;
/** Terminal codes: cursor home, clear the rest of the screen. */
const CLEAR = "\u001b[H\u001b[J";

type Command = (args: readonly string[], env: Environment) => number | Promise<number>;

const COMMANDS: Readonly<Record<string, Command>> = {
  start,
  help: () => print(usage()),
  version: () => print(`addon-operator ${VERSION}\n`),
  hook: (args, env) => offline("hook", args, env),
  lint: (args, env) => offline("lint", args, env),
  new: (args, env) => offline("new", args, env),
  "upgrade-chart": upgradeChart,
  wait,
  ...Object.fromEntries(
    DEBUG_COMMANDS.map((name): [string, Command] => [name, (args, env) => debug([name, ...args], env)]),
  ),
};

/** Exit codes: 0 stopped on request, 1 refused to start or the call failed, 2 wrong usage. */
async function main(args: readonly string[], env: Environment): Promise<number> {
  const { node } = process.versions;
  if (Number.parseInt(node) < OLDEST_NODE)
    throw new UsageError([`addon-operator needs Node ${OLDEST_NODE} or later; this is Node ${node}`]);
  if (args.includes("--help") || args.includes("-h")) return print(usage());
  if (args[0] === "--version") return print(`addon-operator ${VERSION}\n`);
  // Without a sub-command the operator starts.
  const [name = "start", ...rest] = args[0]?.startsWith("-") === false ? args : ["start", ...args];
  const command = COMMANDS[name];
  if (command === undefined)
    throw new UsageError([`"${name}" is not a sub-command; see addon-operator --help`]);
  return command(rest, env);
}

async function offline(
  command: "hook" | "lint" | "new",
  args: readonly string[],
  env: Environment,
): Promise<number> {
  const { runOffline } = await import("./offline/index.ts");
  const { text, code } = await runOffline(command, args, env);
  print(text);
  return code;
}

async function upgradeChart(args: readonly string[], env: Environment): Promise<number> {
  const { runUpgrade } = await import("./offline/index.ts");
  const { text, code } = await runUpgrade(args, env, ask);
  print(text);
  return code;
}

/** Shows a text and asks for a word at the terminal; without one nobody agrees. */
async function ask(shown: string): Promise<boolean> {
  print(shown);
  if (!process.stdin.isTTY) {
    print("--yes takes it. ");
    return false;
  }
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question("Take it? [y/N] ");
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

async function start(args: readonly string[], env: Environment): Promise<number> {
  const parsed = parseSettings(args, env);
  const extra = parsed.rest[0];
  if (extra !== undefined) throw new UsageError([`"${extra}" is not understood; see addon-operator --help`]);
  // Loaded only now, so that the log shows early where a slow start spends its time.
  createLogger(logSink(parsed.settings)).info("Starting", { version: VERSION });
  const { operate } = await import("./run-operator.ts");
  return operate(parsed, env);
}

/** Asks the running operator over its debug socket. `plan` does the work itself where no operator runs. */
async function debug(args: readonly string[], env: Environment): Promise<number> {
  const { settings, rest } = parseSettings(args, env, CLI_FLAGS);
  const call = callOf(rest);
  const places = socketPlaces(settings);
  if (call.watch) return watch(places, call);
  try {
    const answer = await callOperator(places, call);
    return rest[1] === "diff" && answer.status < 400 ? showDiff(answer.body, env) : show(answer);
  } catch (error) {
    if (!(error instanceof NoOperatorError) || args[0] !== "plan") throw error;
    const { planAlone } = await import("./wiring/plan-alone.ts");
    return print(await planAlone(settings, env, call.format));
  }
}

function show({ status, body }: { status: number; body: string }): number {
  writeAll(status < 400 ? 1 : 2, body);
  return status < 400 ? 0 : REFUSED;
}

function showDiff(text: string, env: Environment): number {
  if (text === "") return print("No differences\n");
  print(process.stdout.isTTY && !env["NO_COLOR"] ? inColour(text) : text);
  return DIFFERS;
}

/** Names bold, what goes red, what comes green. */
function inColour(text: string): string {
  const codes: Readonly<Record<string, number>> = { "#": 1, "-": 31, "+": 32 };
  const paint = (line: string): string => {
    const code = codes[line.charAt(0)];
    return code === undefined ? line : `\u001b[${code}m${line}\u001b[0m`;
  };
  return text.split("\n").map(paint).join("\n");
}

function wait(args: readonly string[], env: Environment): Promise<number> {
  const { settings, rest } = parseSettings(args, env, WAIT_FLAGS);
  const tools = {
    places: socketPlaces(settings),
    clock: systemClock,
    print: (line: string) => print(`${line}\n`),
  };
  return waitFor(rest, tools);
}

/** Prints the answer again each second in the same place of the screen, until it is interrupted. */
async function watch(places: readonly string[], call: Call): Promise<number> {
  for (;;) {
    const { status, body } = await callOperator(places, call);
    if (status >= 400) return show({ status, body });
    print(`${process.stdout.isTTY ? CLEAR : ""}${body}`);
    await sleep(systemClock, WATCH_MS);
  }
}

function print(text: string): number {
  writeAll(1, text);
  return 0;
}

try {
  process.exitCode = await main(process.argv.slice(2), environment());
} catch (error) {
  process.exitCode = codeOf(error);
  writeAll(2, `${(error as Error).message}\n`);
}

/**
 * Turns an error into an exit code. What is no mistake of the user or the environment is a bug and is printed with
 * its stack.
 */
function codeOf(error: unknown): number {
  if (error instanceof UsageError || error instanceof CliError) return USAGE;
  if (error instanceof NoOperatorError || error instanceof ProblemError) return REFUSED;
  throw error;
}
