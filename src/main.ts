/** The entry point: runs the command line of this process. */

import { exitCodeOf, runLine, type World } from "./commands/index.ts";
import { environment } from "./environment.ts";
import { visible, writeAll } from "./lib/index.ts";

const OLDEST_NODE = 24;

const world: World = {
  env: environment(),
  print: (text) => writeAll(1, text),
  complain: (text) => writeAll(2, text),
  ask,
  isTerminal: process.stdout.isTTY,
  isTyped: process.stdin.isTTY || process.stdout.isTTY,
  columns: (process.stdout.isTTY && process.stdout.columns) || Number.POSITIVE_INFINITY,
};

/** Shows a text and asks for a word at the terminal; without one nobody agrees. */
async function ask(shown: string): Promise<boolean> {
  world.print(shown);
  if (!process.stdin.isTTY) {
    world.print("--yes takes it. ");
    return false;
  }
  const { createInterface } = await import("node:readline/promises");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await terminal.question("Take it? [y/N] ");
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

const { node } = process.versions;
if (Number.parseInt(node) < OLDEST_NODE) {
  world.complain(`addon-operator needs Node ${OLDEST_NODE} or later; this is Node ${node}\n`);
  process.exitCode = 2;
} else {
  try {
    process.exitCode = await runLine(process.argv.slice(2), world);
  } catch (error) {
    process.exitCode = exitCodeOf(error);
    // A bug is printed with its stack.
    if (process.exitCode === undefined) throw error;
    world.complain(`${visible((error as Error).message)}\n`);
  }
}
