/** The entry point: runs the command line of this process. */

import { exitCodeForError, runCommandLine, type Terminal } from "./main/commands/index.ts";
import { readEnvironment } from "./config/settings/index.ts";
import { escapeControlCharacters, writeAll } from "./base/index.ts";

const OLDEST_NODE = 24;

const terminal: Terminal = {
  env: readEnvironment(),
  print: (text) => writeAll(1, text),
  printError: (text) => writeAll(2, text),
  confirm,
  isTerminal: process.stdout.isTTY,
  isInteractive: process.stdin.isTTY || process.stdout.isTTY,
  columns: (process.stdout.isTTY && process.stdout.columns) || Number.POSITIVE_INFINITY,
};

/** Prints a change (`displayed`) and has the user confirm it. Without a terminal the answer is no. */
async function confirm(displayed: string): Promise<boolean> {
  terminal.print(displayed);
  if (!process.stdin.isTTY) {
    terminal.print("To apply the change, add --yes. ");
    return false;
  }
  const { createInterface } = await import("node:readline/promises");
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await reader.question("Apply the change? [y/N] ");
  reader.close();
  return /^y(es)?$/i.test(answer.trim());
}

const { node } = process.versions;
if (Number.parseInt(node) < OLDEST_NODE) {
  terminal.printError(`addon-operator needs Node ${OLDEST_NODE} or later; this is Node ${node}\n`);
  process.exitCode = 2;
} else {
  try {
    process.exitCode = await runCommandLine(process.argv.slice(2), terminal);
  } catch (error) {
    process.exitCode = exitCodeForError(error);
    // A bug is printed with its stack.
    if (process.exitCode === undefined) throw error;
    terminal.printError(`${escapeControlCharacters((error as Error).message)}\n`);
  }
}
