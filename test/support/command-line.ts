import { runCommandLine } from "../../src/main/commands/index.ts";
import { parseCommandLine } from "../../src/main/commands/run.ts";
import type { CommandLine, Terminal, SocketRequest } from "../../src/main/commands/table/row.ts";
import type { Environment } from "../../src/config/settings/index.ts";

/** The command that a line names. */
export function lineOf(args: readonly string[], env: Environment = {}): CommandLine {
  const parsed = parseCommandLine(args, env);
  if ("help" in parsed) throw new Error("this asks for help");
  return parsed;
}

/** The request that a command makes. */
export function callOf(args: readonly string[]): SocketRequest {
  const line = lineOf(args);
  const call = line.row.request?.(line);
  if (call === undefined) throw new Error(`${line.row.words} asks nothing`);
  return call;
}

/** Settings as the command `start` reads them. */
export function parseSettings(args: readonly string[], env: Environment) {
  return lineOf(["start", ...args], env).settings(env);
}

/** What a command prints in this process, and how it ends. */
export async function run(
  args: readonly string[],
  terminal: Partial<Terminal> = {},
): Promise<{ code: number; text: string }> {
  let text = "";
  const print = (part: string): void => void (text += part);
  const confirm = (): Promise<boolean> => Promise.resolve(false);
  const code = await runCommandLine(args, {
    env: {},
    print,
    printError: print,
    confirm,
    isTerminal: false,
    columns: Number.POSITIVE_INFINITY,
    ...terminal,
  });
  return { code, text };
}

/** The same of a command that needs no operator. */
export function runOffline(command: string, args: readonly string[], env: Environment) {
  return run([command, ...args], { env });
}
