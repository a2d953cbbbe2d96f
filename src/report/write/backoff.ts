/** Delays and log lines after a write of a status failed. */

import { type Clock, type Logger, oneLine, retryDelay } from "../../base/index.ts";
import { ApiError, ConnectionError } from "../../kube/index.ts";

/** Shortest and longest delay after a failed write. */
const BOUNDS = { minMs: 1000, maxMs: 60_000 };
/** Longest delay while a CRD is missing: the user who installs it waits for the first status. */
const MAX_DELAY_WITHOUT_CRD_MS = 10_000;
/** Delays after a missing permission, which lasts until an administrator grants it. */
const FORBIDDEN_BOUNDS = { minMs: 5000, maxMs: 300_000 };
/** The jitter of `retryDelay` is fixed: only the leader writes, so no others retry at the same time. */
const JITTER = 0.5;
/** A status that was refused this many times in a row is worth a warning. */
const WARN_AFTER_FAILURES = 5;

/** The back-off of all status writes after errors that every write would meet, such as a server that does not answer. Logs each kind of error once, and its end. */
export class WriteBackoff {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #failures = 0;
  #lastLogged: string | undefined;
  readonly #loggedForbiddenKinds = new Set<string>();
  /** No write before this time of the monotonic clock. */
  pausedUntil = -Infinity;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Records a failure that every write would meet, and pauses all writes. Returns the delay before the next try, in milliseconds. */
  recordFailure(error: unknown): number {
    const now = this.#clock.monotonic();
    // Concurrent writes fail together: one outage counts as one failure.
    if (now < this.pausedUntil) return this.pausedUntil - now;
    this.#failures += 1;
    this.#logOnce(error);
    const isCrdMissing = error instanceof ApiError && error.status === 404;
    const bounds = isCrdMissing ? { ...BOUNDS, maxMs: MAX_DELAY_WITHOUT_CRD_MS } : BOUNDS;
    const requestedMs = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0;
    const delay = Math.max(retryDelay(this.#failures, bounds, JITTER), requestedMs);
    this.pausedUntil = now + delay;
    return delay;
  }

  /**
   * Returns the delay before the next try of one object's write, in milliseconds, after the server refused it `failures` times in a
   * row. The first retry has no delay: an edit at the same time is the usual reason. Logs the first and the fifth refusal.
   */
  delayForObject(error: unknown, failures: number): number {
    const fields = { error: oneLine(error) };
    if (error instanceof ApiError && error.status === 403)
      return this.#delayWithoutPermission(error, failures);
    if (failures === 1) this.#logger.debug("A status was refused and is written again", fields);
    if (failures === WARN_AFTER_FAILURES) this.#logger.warn("A status is refused again and again", fields);
    return failures === 1 ? 0 : retryDelay(failures - 1, BOUNDS, JITTER);
  }

  /** Returns the delay after a 403, which is long. Logs it once per kind, because the permission is missing for all its objects. */
  #delayWithoutPermission(error: ApiError, failures: number): number {
    const kind = JSON.stringify(error.details?.["kind"] ?? "");
    if (!this.#loggedForbiddenKinds.has(kind))
      this.#logger.warn(describeFailure(error), { error: oneLine(error) });
    this.#loggedForbiddenKinds.add(kind);
    return retryDelay(failures, FORBIDDEN_BOUNDS, JITTER);
  }

  /** Records that a write succeeded: ends the back-off, and logs it if an error was logged before. */
  recordSuccess(): void {
    this.#failures = 0;
    this.pausedUntil = -Infinity;
    if (this.#lastLogged === undefined) return;
    this.#lastLogged = undefined;
    this.#logger.info("Status is written again");
  }

  /** Logs an error unless it is of the same kind as the last logged one. */
  #logOnce(error: unknown): void {
    const text = describeFailure(error);
    if (text === this.#lastLogged) return;
    this.#lastLogged = text;
    this.#logger.warn(text, { error: oneLine(error) });
  }
}

/** Says why statuses are not written, and the remedy if it is known. */
function describeFailure(error: unknown): string {
  if (!(error instanceof ApiError)) return "Status is not written: the API server does not answer";
  if (error.status === 404) return "Status is not written: install the CRDs of addon-operator.io";
  if (error.status === 403) return "Status is not written: grant the permission that the error names";
  return "Status is not written: the API server reports errors";
}

/** Whether every other write would meet the error, too: no answer, a missing CRD, an overloaded or failing server. */
export function affectsAllWrites(error: unknown): boolean {
  if (!(error instanceof ApiError)) return error instanceof ConnectionError;
  // Such a 404 is about the kind: one about an object names it.
  const isKindMissing = error.status === 404 && error.details?.["name"] === undefined;
  return isKindMissing || error.status === 429 || error.status >= 500;
}
