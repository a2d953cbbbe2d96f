/** Acquires, renews and releases a Lease, as the leader election of client-go does. */

import type { Timer } from "../../lib/index.ts";
import { oneLine, sleep } from "../../lib/index.ts";
import { isAlreadyExists, isConflict, isNotFound } from "../api-errors.ts";
import type { KubeAccess } from "../client/client.ts";
import { microTime, type LeaseSpec } from "../resources.ts";
import { formatIdentity, isExpired, LeaseLock, type Identity, type LeaseDurations } from "./lease-lock.ts";

/** What a Lease reports to its owner. */
interface LeaseEvents {
  /** Acquired or renewed: it is held for `ms` from now on. */
  readonly onHeld: (ms: number) => void;
  /** Another process may acquire it after the lease duration: end what must not run twice. Once per acquisition. */
  readonly onLost: (reason: string) => void;
  /** Another process holds it. Once for each holder. */
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

/** A candidate reads the Lease at least this often, so that it acquires a released one within two seconds. */
const CHECK_MS = 1500;
const RELEASE_MS = 3000;
/** A failed renewal is retried after this time. */
const AFTER_FAILURE_MS = 2000;

type Attempt = { readonly held: true } | { readonly held: false; readonly waitMs: number };

/**
 * A `coordination.k8s.io` Lease. A candidate acquires it if it has no holder, if the process of the holder has certainly
 * ended, or if the observed record has not changed for its lease duration by the candidate's own clock. Writes use
 * optimistic concurrency: of two candidates, one gets a conflict. A leader that cannot renew stops leading at the renew
 * deadline, which leaves `durationMs - renewDeadlineMs` to end child processes.
 */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #holder: string;
  readonly #object: LeaseLock;
  readonly #observed = new ObservedLease();
  #waitingFor: string | undefined;
  #term: AbortController | undefined;
  #deadline: Timer | undefined;
  #heldUntil = 0;
  #renewing: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#holder = formatIdentity(options.identity);
    this.#object = new LeaseLock(options);
  }

  /** False from the renew deadline on, even before `onLost` is called. */
  get held(): boolean {
    return this.#term !== undefined && this.#options.clock.monotonic() < this.#heldUntil;
  }

  /**
   * Resolves when the Lease is acquired; it is renewed from then on. Rejects with the reason of an aborted `signal`.
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

  /** Releases the Lease, so that the next leader need not wait. Never throws; `onLost` is not called. */
  async release(): Promise<void> {
    if (!this.held) return;
    this.#end();
    await this.#renewing;
    try {
      await this.#writeReleased({ timeoutMs: RELEASE_MS });
    } catch (error) {
      this.#options.logger.warn("The lease cannot be released; it expires", {
        error: oneLine(error),
      });
    }
  }

  /** Retries a conflict once, if this process is still the holder. */
  async #writeReleased(limits: LeaseDurations): Promise<void> {
    const write = (): Promise<void> =>
      this.#object.write((spec) => releasedSpec(spec, this.#options.clock.now()), limits);
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
      if (found === undefined) await this.#object.create(this.#ownSpec(undefined), limits);
      else await this.#object.write((spec) => this.#ownSpec(spec), limits);
      return { held: true };
    } catch (error) {
      signal?.throwIfAborted();
      // Another candidate was faster.
      if (isConflict(error) || isAlreadyExists(error)) return { held: false, waitMs: 0 };
      this.#options.logger.warn("The lease cannot be acquired", {
        lease: this.#options.name,
        error: oneLine(error),
        ...(isNotFound(error) && { remedy: "create the namespace, or name the right one with --namespace" }),
      });
      return { held: false, waitMs: this.#options.times.retryMs };
    }
  }

  /** Milliseconds until the next read; 0 if the Lease has no holder or is expired. */
  #waitFor(spec: LeaseSpec = {}): number {
    const holder = spec.holderIdentity ?? "";
    if (holder === "" || holder === this.#holder || isExpired(holder, this.#options.identity)) return 0;
    const remainingMs = this.#observed.remainingMs(spec, this.#options.clock.monotonic());
    if (remainingMs > 0) this.#reportWaiting(holder);
    return Math.min(remainingMs, CHECK_MS, this.#options.times.retryMs);
  }

  #reportWaiting(holder: string): void {
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

  /** The renew deadline counts from the time when the request was sent: the server renews the Lease later. */
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
      await this.#object.write((spec) => this.#ownSpec(spec), limits);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error)) throw error;
      await this.#recover(limits);
    }
  }

  /** The Lease was changed or deleted: writes it again unless another process holds it. */
  async #recover(limits: LeaseDurations): Promise<void> {
    const found = await this.#object.read(limits);
    const holder = found?.holderIdentity;
    if (found === undefined) await this.#object.create(this.#ownSpec(undefined), limits);
    else if (holder === this.#holder) await this.#object.write((spec) => this.#ownSpec(spec), limits);
    else this.#lose(holder ? `${holder} has acquired it` : "another process has released it");
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

  /** The spec as this holder; a new holder counts a transition. */
  #ownSpec(before: LeaseSpec | undefined): LeaseSpec {
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

/** The spec after a release: without a holder. */
function releasedSpec(before: LeaseSpec | undefined, now: number): LeaseSpec {
  return { ...before, holderIdentity: "", leaseDurationSeconds: 1, renewTime: microTime(now) };
}

/** The observed record and its time by the own clock: clocks of two machines are never compared. */
class ObservedLease {
  #seen = "";
  #since = 0;

  /** Observes a record at `now` (monotonic ms); returns the milliseconds until it expires, 0 = it has. */
  remainingMs(spec: LeaseSpec, now: number): number {
    const record = JSON.stringify([spec.holderIdentity, spec.acquireTime, spec.renewTime]);
    if (record !== this.#seen) {
      this.#seen = record;
      this.#since = now;
    }
    return Math.max(0, this.#since + (spec.leaseDurationSeconds ?? 0) * 1000 - now);
  }
}
