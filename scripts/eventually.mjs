// Waiting for a condition, never for a duration.
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Calls `check` every 25 ms until it neither throws nor returns false, and resolves to what it returned.
 * After the deadline (60 s) it rejects, naming `what` and the last failure.
 */
export async function eventually(check, what, options = {}) {
  const { timeoutMs = 60_000, intervalMs = 25, context } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    let last;
    try {
      const value = await check();
      if (value !== false) return value;
      last = new Error("the condition is false");
    } catch (error) {
      last = error;
    }
    if (performance.now() > deadline)
      throw new Error(`${what}: not within ${timeoutMs} ms: ${last.message}${tail(context)}`, {
        cause: last,
      });
    await sleep(intervalMs);
  }
}

function tail(context) {
  return context ? `\n${context()}` : "";
}
