/** Pauses that registries ask for (`Retry-After`). */

/** Statuses after which the same request may succeed. */
export const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504, 522]);

/** A registry must not end updates for longer than this by one answer. */
const MAX_PAUSE_MS = 24 * 3_600_000;
const MAX_HOSTS = 100;

/** Remembers which registries have asked for a pause. The clients of all checks share it, so that no check breaks a pause. */
export class RegistryPauses {
  /** By host: the end, in milliseconds since the epoch. */
  readonly #ends = new Map<string, number>();

  /** Records a pause of `ms` from `now` on. */
  begin(host: string, now: number, ms: number): void {
    if (this.#ends.size >= MAX_HOSTS) this.#ends.clear();
    this.#ends.set(host, now + Math.min(ms, MAX_PAUSE_MS));
  }

  /** Until when a registry gets no requests; undefined if it has no pause. */
  find(host: string, now: number): number | undefined {
    const end = this.#ends.get(host);
    // After a change of the clock, no pause is longer than it was.
    if (end !== undefined && now < end && end - now <= MAX_PAUSE_MS) return end;
    this.#ends.delete(host);
    return undefined;
  }

  /** Ends the pause of a registry, because a user requests a check. */
  end(host: string): void {
    this.#ends.delete(host);
  }
}

/** The pause that `Retry-After` demands (seconds or a date), in milliseconds; undefined without a valid header. */
export function readRetryAfter(text: string | undefined, now: number): number | undefined {
  if (text === undefined) return undefined;
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(ms) ? Math.max(ms, 0) : undefined;
}
