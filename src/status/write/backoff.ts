/** Back-off and log lines after errors of the API server. */

import { type Clock, type Logger, oneLine, retryDelay } from "../../lib/index.ts";
import { ApiError, ConnectionError } from "../../kube/index.ts";

const BOUNDS = { minMs: 1000, maxMs: 60_000 };
/** Longest delay while a CRD is missing. */
const LONGEST_FOR_MISSING_MS = 10_000;

/**
 * The back-off of all writes after errors that every write would meet. Logs each kind of error once, and its end.
 */
export class WriteBackoff {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #failures = 0;
  #lastLogged: string | undefined;
  readonly #refused = new Set<string>();
  /** No write before this time of the monotonic clock. */
  until = -Infinity;
  /** In a pause that the server requested (Retry-After): when to probe whether it answers again. */
  #probeAt: number | undefined;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Records a failure and returns the delay before the next try, in milliseconds. */
  failed(error: unknown): number {
    const now = this.#clock.monotonic();
    // Concurrent writes fail together: one outage counts as one failure.
    if (now < this.until) return this.until - now;
    this.#failures += 1;
    this.#logOnce(error);
    const isMissing = error instanceof ApiError && error.status === 404;
    const bounds = isMissing ? { ...BOUNDS, maxMs: LONGEST_FOR_MISSING_MS } : BOUNDS;
    const own = retryDelay(this.#failures, bounds, 0.5);
    const delay = Math.max(own, error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0);
    this.until = now + delay;
    this.#probeAt = delay > own ? now + own : undefined;
    return delay;
  }

  /** The delay for one object that the server refused `failures` times in a row, in milliseconds. */
  delayForObject(error: unknown, failures: number): number {
    const fields = { error: oneLine(error) };
    if (error instanceof ApiError && error.status === 403) return this.#forbidden(error, failures);
    if (failures === 1) this.#logger.debug("A status was refused and is written again", fields);
    if (failures === 5) this.#logger.warn("A status is refused again and again", fields);
    return failures === 1 ? 0 : retryDelay(failures - 1, BOUNDS, 0.5);
  }

  /** Missing permissions affect every object of the kind: logged once, retried rarely. */
  #forbidden(error: ApiError, failures: number): number {
    const about = JSON.stringify(error.details?.["kind"] ?? "");
    if (!this.#refused.has(about)) this.#logger.warn(describeFailure(error), { error: oneLine(error) });
    this.#refused.add(about);
    return retryDelay(failures, { minMs: 5000, maxMs: 300_000 }, 0.5);
  }

  /**
   * Milliseconds until a read may probe whether the server answers again; undefined if the server requested no longer pause
   * than the back-off.
   */
  get probeInMs(): number | undefined {
    return this.#probeAt === undefined ? undefined : Math.max(0, this.#probeAt - this.#clock.monotonic());
  }

  /** The server has answered a read: ends the pause. The next failed write makes a longer one. */
  answered(): void {
    this.until = -Infinity;
    this.#probeAt = undefined;
  }

  /** Records that a write succeeded. */
  succeeded(): void {
    this.#failures = 0;
    this.answered();
    if (this.#lastLogged === undefined) return;
    this.#lastLogged = undefined;
    this.#logger.info("Status is written again");
  }

  #logOnce(error: unknown): void {
    const text = describeFailure(error);
    if (text === this.#lastLogged) return;
    this.#lastLogged = text;
    this.#logger.warn(text, { error: oneLine(error) });
  }
}

function describeFailure(error: unknown): string {
  if (!(error instanceof ApiError)) return "Status is not written: the API server does not answer";
  if (error.status === 404) {
    return "Status is not written: install the CRDs addonmodules and addonoperators of addon-operator.io";
  }
  if (error.status === 403) {
    return "Status is not written: grant get, list, create, patch and delete on addonmodules and addonoperators";
  }
  return "Status is not written: the API server reports errors";
}

/** Errors that every other write would meet as well: no answer, a missing kind, a server with problems. */
export function isShared(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError)) return false;
  return isMissingKind(error) || error.status === 429 || error.status >= 500;
}

/** 404 for the kind, not for an object of it: that answer names no object. */
function isMissingKind(error: ApiError): boolean {
  return error.status === 404 && error.details?.["name"] === undefined;
}
