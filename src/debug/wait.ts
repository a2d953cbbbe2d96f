/** The sub-command `wait`: until a module is Ready or Healthy (docs/DEBUG.md). */

import { parseArgs } from "node:util";

import { parseDuration, sleep, type Clock } from "../lib/index.ts";
import { callOperator, CliError } from "./ask.ts";

export const WAIT_FLAGS = ["--for", "--timeout"] as const;

const LOOK_MS = 250;
const TIMEOUT_MS = 300_000;
const USAGE = "usage: addon-operator wait NAME [--for=ready|healthy] [--timeout=5m]";

interface Wanted {
  readonly module: string;
  readonly condition: "ready" | "healthy";
  readonly timeoutMs: number;
}

/** What the operator says of a module. */
interface Said {
  readonly state: string;
  readonly message: string;
  readonly ready: string;
  readonly healthy: string;
}

interface WaitTools {
  readonly places: readonly string[];
  readonly clock: Clock;
  readonly print: (line: string) => void;
}

/**
 * Prints what the module does whenever that changes, until the condition is True (exit code 0) or time is up (1). Throws
 * CliError, and NoOperatorError where no operator listens.
 */
export async function waitFor(args: readonly string[], { places, clock, print }: WaitTools): Promise<number> {
  const { module, condition, timeoutMs } = wantedIn(args);
  const deadline = clock.monotonic() + timeoutMs;
  const path = `/module/${encodeURIComponent(module)}/status.json`;
  let last = "";
  for (;;) {
    const { status, body } = await callOperator(places, { method: "GET", path });
    if (status >= 400) return tell(print, body.trim(), 1);
    const said = JSON.parse(body) as Said;
    const line = `${module}: ${said.state}: ${said.message}`;
    if (line !== last) print(line);
    last = line;
    if (said[condition] === "True") return 0;
    if (clock.monotonic() >= deadline) return tell(print, `${module}: not ${condition} in time`, 1);
    await sleep(clock, LOOK_MS);
  }
}

function tell(print: WaitTools["print"], line: string, code: number): number {
  print(line);
  return code;
}

function wantedIn(args: readonly string[]): Wanted {
  const { values, positionals } = parsed(args);
  const [module, extra] = positionals;
  const { for: condition = "ready", timeout } = values;
  if (module === undefined || extra !== undefined) throw new CliError(USAGE);
  if (condition !== "ready" && condition !== "healthy")
    throw new CliError(`--for: "${condition}" is not accepted; use ready or healthy`);
  const timeoutMs = timeout === undefined ? TIMEOUT_MS : parseDuration(timeout);
  if (timeoutMs === undefined || timeoutMs < 0)
    throw new CliError(`--timeout: "${timeout}" is not accepted; use a duration such as 90s or 5m`);
  return { module, condition, timeoutMs };
}

function parsed(args: readonly string[]) {
  try {
    const options = { for: { type: "string" }, timeout: { type: "string" } } as const;
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch {
    throw new CliError(USAGE);
  }
}
