/** Acquires, renews and releases a Lease, as the leader election of client-go does. */

import { oneLine, sleep, Timers } from "../../base/index.ts";
import { ignoreNotFound, isAlreadyExists, isConflict, isNotFound } from "../api-errors.ts";
import type { KubeAccess } from "../client/client.ts";
import { create, get, replace } from "../client/verbs.ts";
import { LEASES, formatMicroTime, type LeaseObject, type LeaseSpec } from "../resources.ts";
import { formatIdentity, hasHolderEnded, type LeaderIdentity } from "./identity.ts";
import { explainWebhookObstacle } from "./webhook-obstacle.ts";

interface RequestLimits {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs: number;
}

/** Callbacks to the owner of a Lease. */
interface LeaseEvents {
  /** The Lease was acquired or renewed: this process holds it for `ms` from now on. */
  readonly onHeld: (ms: number) => void;
  /** Another process may acquire it after the lease duration: end everything that must not run twice. Called once per acquisition. */
  readonly onLost: (reason: string) => void;
  /** The Lease cannot be read or written, with the reason and a remedy. Called for each try but the first in a row; undefined = it can again. */
  readonly onFailing: (issue: string | undefined) => void;
  /** Another process holds the Lease. Called once for each holder. */
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
  readonly identity: LeaderIdentity;
  readonly times: LeaseTimes;
  readonly events: LeaseEvents;
}

/** A candidate reads the Lease at least this often, so that it acquires a released one, and notices the last renewal, within half a second. */
const MAX_CHECK_INTERVAL_MS = 400;
/**
 * A request may take this part of the renew deadline, as with client-go: a slow answer is better than none, because the next request needs
 * a new connection. There is time for another try.
 */
const REQUEST_SHARE = 1 / 2;
/** The search for an explanation must not delay renewals for long. */
const EXPLAIN_TIMEOUT_MS = 2000;
/** After another candidate was faster, the Lease is read again. */
const CONFLICT_PAUSE_MS = 100;
const RELEASE_TIMEOUT_MS = 3000;
const RETRY_RENEWAL_MS = 2000;

/** Result of one try to acquire the Lease; `waitMs` is the time until the next try. */
type AcquireResult = { readonly isAcquired: true } | { readonly isAcquired: false; readonly waitMs: number };

/**
 * A `coordination.k8s.io` Lease. A candidate acquires it if it has no holder, if the process of the holder has certainly
 * ended, or if the observed record has not changed for its lease duration by the candidate's own clock. Writes use
 * optimistic concurrency: of two candidates, one gets a conflict. A term is the time for which this process holds the Lease. A leader that cannot
 * renew ends its term at the renew deadline, which leaves `durationMs - renewDeadlineMs` to end child processes.
 */
export class Lease {
  readonly #options: LeaseOptions;
  readonly #ownHolder: string;
  /** The version of the Lease that was read or written last; undefined = it did not exist. */
  #lastLease: LeaseObject | undefined;
  /** Holder and times of the Lease as another process wrote them, and since when they are unchanged by our monotonic clock. */
  #observed = { record: "", since: 0 };
  /** The holder that `onWaiting` was last called with. */
  #reportedHolder: string | undefined;
  /** Aborted at the end of the term. Undefined = no term. */
  #termController: AbortController | undefined;
  /** What this process writes into the Lease beside the spec. */
  #annotations: Readonly<Record<string, string>> = {};
  readonly #timers: Timers<"deadline">;
  /** The renew deadline (monotonic ms). */
  #heldUntil = 0;
  #renewLoopEnd: Promise<void> = Promise.resolve();
  /** Failed requests in a row. */
  #failures = 0;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#ownHolder = formatIdentity(options.identity);
  }

  /** Whether this process holds the Lease. False from the renew deadline on, even before `onLost` is called. */
  get isHeld(): boolean {
    return this.#termController !== undefined && this.#options.clock.monotonic() < this.#heldUntil;
  }

  /** How long a read or write of the Lease may take. */
  get #requestMs(): number {
    return this.#options.times.renewDeadlineMs * REQUEST_SHARE;
  }

  /**
   * Waits until the Lease is acquired, and renews it from then on. Each write adds the `annotations`, so that none is lost if someone deletes the
   * Lease. Rejects with the reason of an aborted `signal`.
   */
  async acquire(signal?: AbortSignal, annotations: Readonly<Record<string, string>> = {}): Promise<void> {
    if (this.#termController !== undefined) return;
    this.#annotations = annotations;
    for (;;) {
      signal?.throwIfAborted();
      const startedAt = this.#options.clock.monotonic();
      const result = await this.#tryAcquire(signal);
      if (result.isAcquired) return this.#startTerm(startedAt);
      await sleep(this.#options.clock, result.waitMs, signal);
    }
  }

  /** Releases the Lease, so that the next leader need not wait. Never throws; `onLost` is not called. */
  async release(): Promise<void> {
    if (!this.isHeld) return;
    this.#endTerm();
    // A renewal under way could write this process as holder again.
    await this.#renewLoopEnd;
    try {
      await this.#writeReleased({ timeoutMs: RELEASE_TIMEOUT_MS });
    } catch (error) {
      this.#options.logger.warn("The lease cannot be released; it expires", { error: oneLine(error) });
    }
  }

  /** Writes the Lease without a holder. After a conflict, writes once more if this process is still the holder. */
  async #writeReleased(limits: RequestLimits): Promise<void> {
    const write = (): Promise<void> =>
      this.#replace(buildReleasedSpec(this.#lastLease?.spec, this.#options.clock.now()), limits);
    try {
      await write();
    } catch (error) {
      if (!isConflict(error)) throw error;
      const spec = await this.#read(limits);
      if (spec?.holderIdentity === this.#ownHolder) await write();
    }
  }

  /** Reads the Lease and returns its spec; undefined = it does not exist. The next write replaces the version that is read here. */
  async #read(limits: RequestLimits): Promise<LeaseSpec | undefined> {
    const { client, namespace, name } = this.#options;
    const request = get<LeaseObject>(client, { resource: LEASES, namespace, name }, limits);
    this.#lastLease = await request.catch(ignoreNotFound);
    return this.#lastLease && (this.#lastLease.spec ?? {});
  }

  /** Writes this process as holder: into the version that was read or written last, or into a new Lease if there was none. */
  async #writeAsHolder(limits: RequestLimits): Promise<void> {
    const { client, namespace, name } = this.#options;
    const spec = this.#buildOwnSpec(this.#lastLease?.spec);
    if (this.#lastLease !== undefined) return this.#replace(spec, limits);
    const metadata = { name, namespace, annotations: this.#annotations };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    this.#lastLease = await create<LeaseObject>(client, { resource: LEASES, namespace }, { ...limits, body });
  }

  /** Replaces the spec of the version that was read or written last, if there was one. Throws a conflict if a newer one exists. */
  async #replace(spec: LeaseSpec, limits: RequestLimits): Promise<void> {
    const { client, namespace, name } = this.#options;
    if (this.#lastLease === undefined) return;
    const target = { resource: LEASES, namespace, name };
    const { metadata } = this.#lastLease;
    const annotations = { ...metadata.annotations, ...this.#annotations };
    const body = { ...this.#lastLease, metadata: { ...metadata, annotations }, spec };
    this.#lastLease = await replace<LeaseObject>(client, target, { ...limits, body });
  }

  /** Reads the Lease, and writes this process into it as holder if it may. Errors are logged. */
  async #tryAcquire(signal: AbortSignal | undefined): Promise<AcquireResult> {
    const limits = { signal, timeoutMs: this.#requestMs };
    try {
      const waitMs = this.#computeWaitMs(await this.#read(limits));
      const result =
        waitMs > 0 ? { isAcquired: false as const, waitMs } : await this.#tryWriteAsHolder(limits);
      this.#reportSuccess();
      return result;
    } catch (error) {
      signal?.throwIfAborted();
      await this.#reportFailure("The lease cannot be acquired", error);
      return { isAcquired: false, waitMs: this.#options.times.retryMs };
    }
  }

  /** Writes this process as holder, unless another candidate has written the Lease since the read. */
  async #tryWriteAsHolder(limits: RequestLimits): Promise<AcquireResult> {
    try {
      await this.#writeAsHolder(limits);
      return { isAcquired: true };
    } catch (error) {
      if (!isConflict(error) && !isAlreadyExists(error)) throw error;
      return { isAcquired: false, waitMs: CONFLICT_PAUSE_MS };
    }
  }

  /**
   * Returns the milliseconds until the next read; 0 if this process may acquire the Lease: it has no holder or this process as holder, the
   * process of its holder has ended, or it is expired. Reports each other holder once.
   */
  #computeWaitMs(spec: LeaseSpec = {}): number {
    const holder = spec.holderIdentity ?? "";
    if (holder === "" || holder === this.#ownHolder || hasHolderEnded(holder, this.#options.identity))
      return 0;
    const remainingMs = this.#observeRemainingMs(spec);
    if (remainingMs > 0 && this.#reportedHolder !== holder) {
      this.#reportedHolder = holder;
      this.#options.events.onWaiting(holder);
    }
    return Math.min(remainingMs, MAX_CHECK_INTERVAL_MS, this.#options.times.retryMs);
  }

  /**
   * Returns the milliseconds until the Lease expires. Measures by our own clock how long it has been unchanged, because the times in it
   * come from the clock of another machine.
   */
  #observeRemainingMs({
    holderIdentity,
    acquireTime,
    renewTime,
    leaseDurationSeconds = 0,
  }: LeaseSpec): number {
    const now = this.#options.clock.monotonic();
    const record = JSON.stringify([holderIdentity, acquireTime, renewTime]);
    if (record !== this.#observed.record) this.#observed = { record, since: now };
    return Math.max(0, this.#observed.since + leaseDurationSeconds * 1000 - now);
  }

  /** Starts a term: the Lease was acquired by a request that was sent at `sentAt`, and is renewed from now on. */
  #startTerm(sentAt: number): void {
    const termController = new AbortController();
    this.#termController = termController;
    this.#reportedHolder = undefined;
    this.#extendTerm(sentAt);
    this.#renewLoopEnd = this.#renewLoop(termController.signal);
  }

  /**
   * Moves the renew deadline, at which this process stops to lead. It counts from the time when the request was sent: other candidates count
   * from a later time, so this process stops before any of them starts.
   */
  #extendTerm(sentAt: number): void {
    const { clock, events } = this.#options;
    this.#heldUntil = sentAt + this.#options.times.renewDeadlineMs;
    const reason = `it could not be renewed for ${this.#options.times.renewDeadlineMs / 1000} s`;
    const leftMs = this.#heldUntil - clock.monotonic();
    this.#timers.set("deadline", leftMs, () => this.#endLostTerm(reason));
    events.onHeld(leftMs);
  }

  /**
   * Renews the Lease until the signal is aborted; a failed renewal is logged and retried. Measures the time to the next renewal from the begin of
   * one, so that a slow answer is followed by the next renewal at once.
   */
  async #renewLoop(signal: AbortSignal): Promise<void> {
    const { clock, times } = this.#options;
    let nextAt = clock.monotonic() + times.retryMs;
    for (;;) {
      await sleep(clock, Math.max(0, nextAt - clock.monotonic()), signal);
      if (signal.aborted) return;
      const sentAt = clock.monotonic();
      try {
        await this.#renew(signal);
        if (!signal.aborted) this.#extendTerm(sentAt);
        this.#reportSuccess();
        nextAt = sentAt + times.retryMs;
      } catch (error) {
        if (signal.aborted) return;
        await this.#reportFailure("The lease was not renewed; trying again", error);
        nextAt = sentAt + Math.min(times.retryMs, RETRY_RENEWAL_MS);
      }
    }
  }

  /** Logs that the Lease cannot be read or written, with a remedy. Reports it to the owner unless it is the first failure in a row. */
  async #reportFailure(message: string, error: unknown): Promise<void> {
    const { name, logger, client, times, events } = this.#options;
    this.#failures += 1;
    const remedy = isNotFound(error)
      ? "create the namespace, or name the right one with --namespace"
      : await explainWebhookObstacle(client, error, Math.min(times.retryMs, EXPLAIN_TIMEOUT_MS));
    const reason = oneLine(error);
    logger.warn(message, { lease: name, error: reason, ...(remedy !== undefined && { remedy }) });
    if (this.#failures === 1) return;
    const parts = [`The Lease ${name} cannot be written: ${reason}`, remedy];
    events.onFailing(parts.filter((part) => part !== undefined).join("; "));
  }

  /** The Lease was read and written, or another process holds it. */
  #reportSuccess(): void {
    if (this.#failures > 1) this.#options.events.onFailing(undefined);
    this.#failures = 0;
  }

  /** Writes the Lease as holder. If it was changed or deleted, writes it again unless another process holds it. */
  async #renew(signal: AbortSignal): Promise<void> {
    const limits = { signal, timeoutMs: this.#requestMs };
    try {
      await this.#writeAsHolder(limits);
    } catch (error) {
      if (!isConflict(error) && !isNotFound(error) && !isAlreadyExists(error)) throw error;
      const spec = await this.#read(limits);
      const holder = spec?.holderIdentity;
      if (spec === undefined || holder === this.#ownHolder) await this.#writeAsHolder(limits);
      else this.#endLostTerm(holder ? `${holder} has acquired it` : "another process has released it");
    }
  }

  /** Ends the term and calls `onLost`, unless the term has ended already. */
  #endLostTerm(reason: string): void {
    if (this.#termController === undefined) return;
    this.#endTerm();
    this.#options.events.onLost(reason);
  }

  /** Stops to hold and renew the Lease. */
  #endTerm(): void {
    this.#timers.cancel("deadline");
    const termController = this.#termController;
    this.#termController = undefined;
    termController?.abort();
  }

  /** Builds the spec with this process as holder; a change of the holder counts as a transition. */
  #buildOwnSpec(before: LeaseSpec | undefined): LeaseSpec {
    const { clock, times } = this.#options;
    const wasHolder = before?.holderIdentity === this.#ownHolder;
    const renewTime = formatMicroTime(clock.now());
    const transitions = before?.leaseTransitions ?? 0;
    return {
      holderIdentity: this.#ownHolder,
      leaseDurationSeconds: Math.max(1, Math.ceil(times.durationMs / 1000)),
      acquireTime: wasHolder ? (before?.acquireTime ?? renewTime) : renewTime,
      renewTime,
      leaseTransitions: wasHolder || before === undefined ? transitions : transitions + 1,
    };
  }
}

/** Builds the spec without a holder, so that the next candidate acquires the Lease at once. */
function buildReleasedSpec(before: LeaseSpec | undefined, now: number): LeaseSpec {
  return { ...before, holderIdentity: "", leaseDurationSeconds: 1, renewTime: formatMicroTime(now) };
}
