/** The command `wait`: until a module is Ready or Healthy (docs/DEBUG.md). */

import { UsageError } from "../../config.ts";
import { formatDuration, parseDuration, sleep, systemClock, visible, type Clock } from "../../lib/index.ts";
import { STALLED } from "../../status/index.ts";
import { get, type Line, type World } from "../table/row.ts";
import { refusalOf } from "./ask.ts";
import { inTime, objectIn, operatorOf } from "./socket.ts";

const LOOK_MS = 250;
const TIMEOUT_MS = 300_000;
/** How long a module may be Stalled: an edit may not have been seen yet. */
const STALLED_MS = 5000;

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
  /** How long its runs usually take. */
  readonly usualSeconds?: number;
}

/** Where it is learned from. */
export interface Waiting {
  readonly clock: Clock;
  /** What is said of the module of this name, or why nothing is. */
  readonly look: (module: string) => Promise<Said | { readonly refusal: string }>;
}

/** `wait` by the running operator. Throws UsageError, and NoOperatorError where none listens. */
export function wait(line: Line, world: World, clock: Clock = systemClock): Promise<number> {
  const ask = operatorOf(line, world);
  return awaitModule(line, world, {
    clock,
    look: async (module) => {
      const answer = await ask(get(`/module/${encodeURIComponent(module)}/status.json`), inTime());
      return answer.status < 400 ? (objectIn(answer.body) as Said) : { refusal: refusalOf(answer) };
    },
  });
}

/**
 * Prints what the module does whenever that changes, until the condition is True (exit code 0), time is up (1), or it has
 * been Stalled for five seconds (1). Throws UsageError.
 */
export async function awaitModule(line: Line, world: World, { clock, look }: Waiting): Promise<number> {
  const { module, condition, timeoutMs } = wantedIn(line);
  const deadline = clock.monotonic() + timeoutMs;
  const tell = (text: string): void => world.print(`${visible(text)}\n`);
  const tellUsual = usualTeller(module, tell);
  let last = "";
  let wentOnAt = clock.monotonic();
  for (;;) {
    const said = await look(module);
    if ("refusal" in said) return ended(tell, said.refusal.trim());
    const now = `${module}: ${said.state}: ${said.message}`;
    if (now !== last) tell(now);
    last = now;
    tellUsual(said);
    if (said[condition] === "True") return 0;
    if (!isStalled(said.state)) wentOnAt = clock.monotonic();
    if (clock.monotonic() - wentOnAt >= STALLED_MS)
      return ended(tell, `${module}: waiting does not end this`);
    if (clock.monotonic() >= deadline) return ended(tell, `${module}: not ${condition} in time`);
    await sleep(clock, LOOK_MS);
  }
}

/** Tells once how long a run usually takes: of one that is under way. */
function usualTeller(module: string, tell: (text: string) => void): (said: Said) => void {
  let isTold = false;
  return ({ state, usualSeconds: is }) => {
    if (isTold || state !== "Running" || is === undefined) return;
    isTold = true;
    tell(`${module}: a run of it usually takes ${formatDuration(is * 1000)}`);
  };
}

function isStalled(state: string): boolean {
  return new Set<string>(STALLED).has(state);
}

function ended(tell: (text: string) => void, text: string): number {
  tell(text);
  return 1;
}

function wantedIn({ args, flags }: Line): Wanted {
  const [module = ""] = args;
  const { for: condition = "ready", timeout } = flags;
  if (condition !== "ready" && condition !== "healthy")
    throw new UsageError([`--for: "${condition}" is not accepted; use ready or healthy`]);
  const timeoutMs = typeof timeout === "string" ? parseDuration(timeout) : TIMEOUT_MS;
  if (timeoutMs === undefined || timeoutMs < 0)
    throw new UsageError([`--timeout: "${timeout}" is not accepted; use a duration such as 90s or 5m`]);
  return { module, condition, timeoutMs };
}
