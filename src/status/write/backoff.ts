/** Waits and log lines after errors of the API server. */

import { type Clock, type Logger, oneLine, retryDelay } from "../../lib/index.ts";
import { ApiError, ConnectionError } from "../../kube/index.ts";

const BOUNDS = { minMs: 1000, maxMs: 60_000 };
/** A missing CRD is looked for this often. */
const LONGEST_FOR_MISSING_MS = 10_000;

/**
 * How long to pause after errors that every write would meet, and what to log: each kind of problem once, and once
 * that it is over.
 */
export class WriteBackoff {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #failures = 0;
  #said: string | undefined;
  readonly #refused = new Set<string>();
  /** No write before this time of the monotonic clock. */
  until = -Infinity;
  /** In a pause that the server asked for: when to ask whether it answers again. */
  #askAt: number | undefined;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Notes a failure and returns the delay before the next try, in milliseconds. */
  failed(error: unknown): number {
    const now = this.#clock.monotonic();
    // Writes that were under way together fail together: one outage counts as one failure.
    if (now < this.until) return this.until - now;
    this.#failures += 1;
    this.#say(error);
    const isMissing = error instanceof ApiError && error.status === 404;
    const bounds = isMissing ? { ...BOUNDS, maxMs: LONGEST_FOR_MISSING_MS } : BOUNDS;
    const own = retryDelay(this.#failures, bounds, 0.5);
    const delay = Math.max(own, error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0);
    this.until = now + delay;
    this.#askAt = delay > own ? now + own : undefined;
    return delay;
  }

  /** The delay for one object that the server refused `failures` times in a row, in milliseconds. */
  alone(error: unknown, failures: number): number {
    const fields = { error: oneLine(error) };
    if (error instanceof ApiError && error.status === 403) return this.#forbidden(error, failures);
    if (failures === 1) this.#logger.debug("A status was refused and is written again", fields);
    if (failures === 5) this.#logger.warn("A status is refused again and again", fields);
    return failures === 1 ? 0 : retryDelay(failures - 1, BOUNDS, 0.5);
  }

  /** Missing rights concern every object of the kind and verb: logged once, tried seldom. */
  #forbidden(error: ApiError, failures: number): number {
    const about = JSON.stringify(error.details?.["kind"] ?? "");
    if (!this.#refused.has(about)) this.#logger.warn(sentence(error), { error: oneLine(error) });
    this.#refused.add(about);
    return retryDelay(failures, { minMs: 5000, maxMs: 300_000 }, 0.5);
  }

  /**
   * Milliseconds until one read may show that the server answers again; undefined where nobody asked for a longer pause than
   * usual.
   */
  get askInMs(): number | undefined {
    return this.#askAt === undefined ? undefined : Math.max(0, this.#askAt - this.#clock.monotonic());
  }

  /** The server has answered a read: the pause is over, but a write that fails again makes a longer one. */
  answered(): void {
    this.until = -Infinity;
    this.#askAt = undefined;
  }

  /** Notes that a call succeeded. */
  succeeded(): void {
    this.#failures = 0;
    this.answered();
    if (this.#said === undefined) return;
    this.#said = undefined;
    this.#logger.info("Status is written again");
  }

  #say(error: unknown): void {
    const text = sentence(error);
    if (text === this.#said) return;
    this.#said = text;
    this.#logger.warn(text, { error: oneLine(error) });
  }
}

function sentence(error: unknown): string {
  if (!(error instanceof ApiError)) return "Status is not written: the API server does not answer";
  if (error.status === 404) {
    return "Status is not written: install the CRDs addonmodules and addonoperators of addon-operator.io";
  }
  if (error.status === 403) {
    return "Status is not written: grant get, list, create, patch and delete on addonmodules and addonoperators";
  }
  return "Status is not written: the API server is in trouble";
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
