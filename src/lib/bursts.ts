const EVERY_MS = 1000;
/** A burst stays open for so long. */
const OPEN_MS = 150;

/**
 * When a write that can wait may go out, in ms since the epoch: at once while a burst is open, else at the next whole
 * second. Each write of any object makes the API server's next consistent list of another kind wait for up to 100 ms,
 * helm's among them; so writes that nobody waits for come together.
 */
export function nextBurst(now: number): number {
  return now % EVERY_MS < OPEN_MS ? now : Math.ceil(now / EVERY_MS) * EVERY_MS;
}
