/** Acquires, renews and releases a Lease. */

import type { Timer } from "../../lib/index.ts";
import { oneLine, sleep } from "../../lib/index.ts";
import { isAlreadyExists, isConflict, isNotFound } from "../api-errors.ts";
import type { KubeAccess } from "../client/client.ts";
import { microTime, type LeaseSpec } from "../resources.ts";
import { formatIdentity, isGone, LeaseObject, type Identity, type Limits } from "./lease-object.ts";

/** What a Lease reports to its owner. */
interface LeaseEvents {
  /** Held for `ms` from now on, and lost then unless this is called again. */
  readonly onHeld: (ms: number) => void;
  /** Another process may hold it from `--lease-duration` on: end what must not run twice. Once per acquisition. */
  readonly onLost: (reason: string) => void;
  /** Somebody else holds it; once for each holder. */
  readonly onWaiting: (holder: string) => void;
}

/** Times in milliseconds (`--lease-duration`, `--lease-renew-deadline`, `--lease-retry-period`). */
interface LeaseTimes {
  readonly durationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryMs: number;
}

interface LeaseOptions extends KubeAccess {
  readonly name: string;
  readonly identity: Identity;
  readonly times: LeaseTimes;
  readonly events: LeaseEvents;
}

/** A waiting process looks this often, so a lease that was released is taken within two seconds. */
const LOOK_MS = 1500;
const RELEASE_MS = 3000;
/** A renewal that failed is tried again this soon. */
const AFTER_FAILURE_MS = 2000;

type Attempt = { readonly held: true } | { readonly held: false; readonly waitMs: number };

/**
 * Guards against a second operator on the same ConfigMap by a `coordination.k8s.io` Lease: it is only ever replaced in
 * the version that was read, so of two who take it one gets a conflict. A holder that is
 * provably dead (same boot, same PID namespace, no such process) is succeeded at once, any other after its lease
 * has not been renewed for its duration, measured by the own clock. A holder that cannot renew gives up at the
 * renew deadline, which leaves `durationMs - renewDeadlineMs` to end what runs.
 */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #holder: string;
  readonly #object: LeaseObject;
  readonly #observed = new ObservedLease();
  #waitingFor: string | undefined;
  #term: AbortController | undefined;
  #deadline: Timer | undefined;
  #heldUntil = 0;
  #renewing: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#holder = formatIdentity(options.identity);
    this.#object = new LeaseObject(options);
  }

  /** Held and not lost; false from the renew deadline on, even before `onLost` could be called. */
  get held(): boolean {
    return this.#term !== undefined && this.#options.clock.monotonic() < this.#heldUntil;
  }

  /**
   * Resolves when the lease is held, after which it renews itself; rejects with the reason of an aborted `signal`.
   */
  async acquire(signal?: AbortSignal): Promise<void> {
    if (this.#term !== undefined) return;
    for (;;) {
      signal?.throwIfAborted();
      const started = this.#options.clock.monotonic();
      const attempt = await this.#tryAcquire(signal);
      if (attempt.held) return this.#begin(started);
      await sleep(this.#options.clock, attempt.waitMs, signal);
    }
  }

  /** Releases the lease, so that the next holder need not wait. Never throws; `onLost` is not called. */
  async release(): Promise<void> {
    if (!this.held) return;
    this.#end();
    await this.#renewing;
    try {
      await this.#free({ timeoutMs: RELEASE_MS });
    } catch (error) {
      this.#options.logger.warn("The lease could not be given back and will expire", {
        error: oneLine(error),
      });
    }
  }

  /** The object may have changed since; it is released as long as it still names this holder. */
  async #free(limits: Limits): Promise<void> {
    const write = (): Promise<void> =>
      this.#object.write((spec) => freeSpec(spec, this.#options.clock.now()), limits);
    try {
      await write();
    } catch (error) {
      if (!isConflict(error)) throw error;
      const found = await this.#object.read(limits);
      if (found?.holderIdentity === this.#holder) await write();
    }
  }

  async #tryAcquire(signal: AbortSignal | undefined): Promise<Attempt> {
    const limits = { signal, timeoutMs: this.#options.times.retryMs };
    try {
      const found = await this.#object.read(limits);
      const waitMs = this.#waitFor(found);
      if (waitMs > 0) return { held: false, waitMs };
      if (found === undefined) await this.#object.create(this.#mySpec(undefined), limits);
      else await this.#object.write((spec) => this.#mySpec(spec), limits);
      return { held: true };
    } catch (error) {
      signal?.throwIfAborted();
      // Somebody was quicker: look who.
      if (isConflict(error) || isAlreadyExists(error)) return { held: false, waitMs: 0 };
      this.#options.logger.warn("The lease cannot be acquired", {
        lease: this.#options.name,
        error: oneLine(error),
        ...(isNotFound(error) && { remedy: "create the namespace, or name the right one with --namespace" }),
      });
      return { held: false, waitMs: this.#options.times.retryMs };
    }
  }

  /** Milliseconds until the next look; 0 when the lease is free or its holder's time is up. */
  #waitFor(spec: LeaseSpec = {}): number {
    const holder = spec.holderIdentity ?? "";
    if (holder === "" || holder === this.#holder || isGone(holder, this.#options.identity)) return 0;
    const remainingMs = this.#observed.remainingMs(spec, this.#options.clock.monotonic());
    if (remainingMs > 0) this.#tellWaiting(holder);
    return Math.min(remainingMs, LOOK_MS, this.#options.times.retryMs);
  }

  #tellWaiting(holder: string): void {
    if (this.#waitingFor === holder) return;
    this.#waitingFor = holder;
    this.#options.events.onWaiting(holder);
  }

  #begin(started: number): void {
    const term = new AbortController();
    this.#term = term;
    this.#waitingFor = undefined;
    this.#extend(started);
    this.#renewing = this.#renewLoop(term.signal);
  }

  /** Counts the deadline from when the successful request was sent: the server's view can only be later. */
  #extend(sentAt: number): void {
    this.#deadline?.cancel();
    const { clock, events } = this.#options;
    this.#heldUntil = sentAt + this.#options.times.renewDeadlineMs;
    const reason = `it could not be renewed for ${this.#options.times.renewDeadlineMs / 1000} s`;
    const leftMs = this.#heldUntil - clock.monotonic();
    this.#deadline = clock.setTimer(leftMs, () => this.#lose(reason));
    events.onHeld(leftMs);
  }

  async #renewLoop(signal: AbortSignal): Promise<void> {
    let pauseMs = this.#options.times.retryMs;
    for (;;) {
      await sleep(this.#options.clock, pauseMs, signal);
      if (signal.aborted) return;
      const sentAt = this.#options.clock.monotonic();
      try {
        await this.#renew(signal);
        if (!signal.aborted) this.#extend(sentAt);
        pauseMs = this.#options.times.retryMs;
      } catch (error) {
        if (signal.aborted) return;
        pauseMs = Math.min(this.#options.times.retryMs, AFTER_FAILURE_MS);
        const { name, logger } = this.#options;
        logger.warn("The lease was not renewed; trying again", { lease: name, error: oneLine(error) });
      }
    }
  }

  async #renew(signal: AbortSignal): Promise<void> {
    const limits = { signal, timeoutMs: this.#options.times.retryMs / 2 };
    try {
      await this.#object.write((spec) => this.#mySpec(spec), limits);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
      await this.#recover(limits);
    }
  }

  /** The object changed meanwhile: fine while it still names this holder, or when it is gone. */
  async #recover(limits: Limits): Promise<void> {
    const found = await this.#object.read(limits);
    const holder = found?.holderIdentity;
    if (found === undefined) await this.#object.create(this.#mySpec(undefined), limits);
    else if (holder === this.#holder) await this.#object.write((spec) => this.#mySpec(spec), limits);
    else this.#lose(holder ? `${holder} has taken it` : "somebody has freed it");
  }

  #lose(reason: string): void {
    if (this.#term === undefined) return;
    this.#end();
    this.#options.events.onLost(reason);
  }

  #end(): void {
    this.#deadline?.cancel();
    const term = this.#term;
    this.#term = undefined;
    term?.abort();
  }

  /** What this holder writes now; a new holder counts a transition. */
  #mySpec(before: LeaseSpec | undefined): LeaseSpec {
    const { clock, times } = this.#options;
    const isMine = before?.holderIdentity === this.#holder;
    const renewTime = microTime(clock.now());
    const transitions = before?.leaseTransitions ?? 0;
    return {
      holderIdentity: this.#holder,
      leaseDurationSeconds: Math.max(1, Math.ceil(times.durationMs / 1000)),
      acquireTime: isMine ? (before?.acquireTime ?? renewTime) : renewTime,
      renewTime,
      leaseTransitions: isMine || before === undefined ? transitions : transitions + 1,
    };
  }
}

/** The spec that a holder leaves behind: free for anybody. */
function freeSpec(before: LeaseSpec | undefined, now: number): LeaseSpec {
  return { ...before, holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(now) };
}

/** Measures another holder's renewals by the own clock only; clocks of two machines are never compared. */
class ObservedLease {
  #seen = "";
  #since = 0;

  /** Notes the record read at `now` (monotonic); milliseconds until it may be taken over, 0 = now. */
  remainingMs(spec: LeaseSpec, now: number): number {
    const record = JSON.stringify([spec.holderIdentity, spec.acquireTime, spec.renewTime]);
    if (record !== this.#seen) {
      this.#seen = record;
      this.#since = now;
    }
    return Math.max(0, this.#since + (spec.leaseDurationSeconds ?? 0) * 1000 - now);
  }
}
