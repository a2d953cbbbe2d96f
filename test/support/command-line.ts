import { runLine } from "../../src/commands/index.ts";
import { parseLine } from "../../src/commands/run.ts";
import type { Line, World, Call } from "../../src/commands/table/row.ts";
import type { Environment } from "../../src/config.ts";

/** The command that a line names. */
export function lineOf(args: readonly string[], env: Environment = {}): Line {
  const parsed = parseLine(args, env);
  if ("help" in parsed) throw new Error("this asks for help");
  return parsed;
}

/** The request that a command makes. */
export function callOf(args: readonly string[]): Call {
  const line = lineOf(args);
  const call = line.row.call?.(line);
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
  world: Partial<World> = {},
): Promise<{ code: number; text: string }> {
  let text = "";
  const print = (part: string): void => void (text += part);
  const ask = (): Promise<boolean> => Promise.resolve(false);
  const code = await runLine(args, {
    env: {},
    print,
    complain: print,
    ask,
    isTerminal: false,
    columns: Number.POSITIVE_INFINITY,
    ...world,
  });
  return { code, text };
}

/** The same of a command that needs no operator. */
export function runOffline(command: string, args: readonly string[], env: Environment) {
  return run([command, ...args], { env });
}
