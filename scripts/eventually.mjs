// Waiting for a condition, never for a duration.
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Calls `check` every `intervalMs` until it neither throws nor returns false, and resolves to what it returned.
 * After the deadline (60 s) it rejects, naming `what` and the last failure. By default the interval is a tenth of the time
 * waited so far, from 25 to 100 ms: each call costs a processor that the awaited needs.
 */
export async function eventually(check, what, options = {}) {
  const { timeoutMs = 60_000, intervalMs, context } = options;
  const begin = performance.now();
  for (;;) {
    let last;
    try {
      const value = await check();
      if (value !== false) return value;
      last = new Error("the condition is false");
    } catch (error) {
      last = error;
    }
    const waitedMs = performance.now() - begin;
    if (waitedMs > timeoutMs)
      throw new Error(`${what}: not within ${timeoutMs} ms: ${last.message}${tail(context)}`, {
        cause: last,
      });
    await sleep(intervalMs ?? Math.min(Math.max(waitedMs / 10, 25), 100));
  }
}

function tail(context) {
  return context ? `\n${context()}` : "";
}
