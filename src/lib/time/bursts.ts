/** Gathers writes that nobody waits for into bursts. */

const EVERY_MS = 1000;
/** How long a burst stays open. */
const OPEN_MS = 150;

/**
 * When a write that can wait may be sent, in ms since the epoch: at once while a burst is open, else at the next
 * whole second. Each write makes the API server's next consistent list of another kind wait for up to 100 ms,
 * helm's lists too; so writes that nobody waits for are sent together.
 */
export function nextBurst(now: number): number {
  return now % EVERY_MS < OPEN_MS ? now : Math.ceil(now / EVERY_MS) * EVERY_MS;
}
