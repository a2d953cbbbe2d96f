/** Writes Kubernetes Events (docs/reference/status.md, "Events"). A *series* is one Event with its repetitions: the same module, reason and note again. */

import PQueue from "p-queue";

import { type KnownSecrets, nextWriteTime, oneLine, sleep, Timers, WallTimes } from "../base/index.ts";
import { EVENTS, create, isNotFound, mergePatch, formatMicroTime } from "../kube/index.ts";
import type { Event, KubeAccess } from "../kube/index.ts";
import { API_VERSION, toStatusLine } from "./models/kinds.ts";

/** The reasons of all Events, with their type, and what the operator did or tried. */
export const EVENT_REASONS = {
  ReleaseInstalled: { type: "Normal", action: "Install" },
  ReleaseUpgraded: { type: "Normal", action: "Upgrade" },
  RolledBack: { type: "Warning", action: "Rollback" },
  ReleaseRemoved: { type: "Normal", action: "Uninstall" },
  ReleaseAdopted: { type: "Normal", action: "Adopt" },
  KindsGone: { type: "Warning", action: "Forget" },
  ObjectsTakenOver: { type: "Warning", action: "Adopt" },
  RunFailed: { type: "Warning", action: "Run" },
  HookFailed: { type: "Warning", action: "RunHook" },
  HookHangs: { type: "Warning", action: "RunHook" },
  ValuesInvalid: { type: "Warning", action: "Validate" },
  ModuleEnabled: { type: "Normal", action: "Enable" },
  ModuleDisabled: { type: "Normal", action: "Disable" },
  CrdRefused: { type: "Warning", action: "ApplyCRDs" },
  Healed: { type: "Normal", action: "Heal" },
  Drifted: { type: "Warning", action: "Compare" },
  Repaired: { type: "Normal", action: "Repair" },
  Unhealthy: { type: "Warning", action: "Watch" },
  Recovered: { type: "Normal", action: "Watch" },
  PendingReleaseRecovered: { type: "Warning", action: "Recover" },
  ConfigMapInvalid: { type: "Warning", action: "ReadConfig" },
  ConfigMapMissing: { type: "Warning", action: "ReadConfig" },
  PurgeRefused: { type: "Warning", action: "Purge" },
  SourceUpdated: { type: "Normal", action: "Fetch" },
  UpdateHeld: { type: "Normal", action: "Fetch" },
  UpdateApproved: { type: "Normal", action: "Fetch" },
  ApprovalUnmatched: { type: "Warning", action: "Fetch" },
  UpdateRejected: { type: "Warning", action: "Rollback" },
  SourceUnavailable: { type: "Warning", action: "Fetch" },
  Withdrawn: { type: "Warning", action: "Fetch" },
  SourceCheckFailed: { type: "Warning", action: "Fetch" },
  SourceRecovered: { type: "Normal", action: "Fetch" },
  NotVerified: { type: "Warning", action: "Fetch" },
  RemovalHeld: { type: "Warning", action: "Uninstall" },
} as const;
export type EventReason = keyof typeof EVENT_REASONS;

/** Something that happened. */
export interface OperatorEvent {
  /** The module it is about; undefined = the operator. */
  readonly module: string | undefined;
  readonly reason: EventReason;
  /** What happened, for people; shortened to one line, secrets redacted. */
  readonly note: string;
}

/** Settings of an {@link EventWriter}. */
export interface EventWriterOptions extends KubeAccess {
  /** Name of the AddonOperator. */
  readonly operatorName: string;
  /** `reportingInstance`: name of the Pod or machine. */
  readonly instance: string;
  /** Removes secrets from the note. */
  readonly secrets: KnownSecrets;
  /** uid of an object, where it is known: makes `kubectl describe` find the Event. */
  readonly uidOf: (module: string | undefined) => string | undefined;
}

/** A repetition within this time after the last one joins its series. */
const SERIES_MS = 6 * 60_000;
/** A repetition is written after this time, together with those that follow meanwhile. */
const SERIES_EVERY_MS = 10_000;
/** Bounds the memory; a forgotten series only becomes a new Event. */
const MAX_SERIES = 1000;
/** Calls that wait or run; more Events are dropped, since a slow server must not make the operator grow. */
const MAX_CALLS = 100;
/** How long after the first Event an object may take to appear before Events are written without its uid. */
const UID_WAIT_MS = 5000;
const UID_CHECK_MS = 50;
/** The API server refuses a longer `reportingInstance`. */
const MAX_INSTANCE_LENGTH = 128;
const CALL_TIMEOUT_MS = 5000;
/** Calls at once: one after another, a server that answers after 50 ms would get three new Events a second. */
const CALLS_AT_ONCE = 8;

/** An Event and its repetitions, which the server stores as one object. */
interface Series {
  /** Name of the Event. */
  readonly name: string;
  /** Repetitions, the first Event included. */
  count: number;
  /** By the monotonic clock. */
  lastAt: number;
  /** Resolves when the call that creates the Event has ended. */
  readonly created: Promise<void>;
}

/**
 * Writes Kubernetes Events (events.k8s.io/v1) about AddonModules and the AddonOperator. The same thing again within
 * six minutes becomes a series of one Event. Never blocks and never throws: what cannot be written is dropped.
 */
export class EventWriter {
  readonly #options: EventWriterOptions;
  readonly #abort = new AbortController();
  readonly #flushAbort = new AbortController();
  readonly #series = new Map<string, Series>();
  /** Series with repetitions that are not written yet. */
  readonly #timers: Timers<Series>;
  readonly #calls = new PQueue({ concurrency: CALLS_AT_ONCE });
  readonly #wall: WallTimes;
  #seq = 0;
  /** Until when Events wait for the uids of their objects; undefined before the first. */
  #uidWaitEndsAt: number | undefined;

  constructor(options: EventWriterOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#wall = new WallTimes(options.clock);
  }

  /** Events, and repetitions of them, that are not written yet. */
  get unwrittenCount(): number {
    // A timer runs until it writes the repetitions.
    const withRepetitions = [...this.#series.values()].filter((series) => this.#timers.has(series));
    return this.#callCount + withRepetitions.length;
  }

  /** Queues a new Event, or counts a repetition in the series of the Event that it repeats. Returns at once. */
  record(event: OperatorEvent): void {
    if (this.#abort.signal.aborted) return;
    const note = toStatusLine(this.#options.secrets.redact(event.note));
    const key = [event.module ?? "", event.reason, note].join("\0");
    const now = this.#options.clock.monotonic();
    const series = this.#series.get(key);
    if (series === undefined || now - series.lastAt >= SERIES_MS) {
      this.#forgetEndedSeries(now);
      this.#startSeries(key, { ...event, note });
      return;
    }
    series.count += 1;
    series.lastAt = now;
    // One write for all repetitions of the next SERIES_EVERY_MS.
    this.#timers.setUnlessRunning(series, SERIES_EVERY_MS, () => this.#writeSeries(series));
  }

  /**
   * Writes everything recorded so far, repetitions included, and resolves when it is written or dropped. A stopping operator calls
   * it, so it ends the waits for the next burst and for the uids of objects.
   */
  async flush(): Promise<void> {
    this.#uidWaitEndsAt = 0;
    this.#flushAbort.abort();
    for (const series of this.#series.values()) {
      if (!this.#timers.has(series)) continue;
      this.#timers.cancel(series);
      this.#writeSeries(series);
    }
    await this.#calls.onIdle();
  }

  /** Aborts calls under way, and drops what is not written yet. */
  close(): void {
    this.#abort.abort();
    this.#timers.close();
  }

  /** Starts the series of a new Event and queues the call that creates it. `key` identifies its repetitions. */
  #startSeries(key: string, event: OperatorEvent): void {
    const { operatorName, clock } = this.#options;
    const now = clock.now();
    // Two Events of one millisecond need different names.
    const sequence = this.#seq.toString(16).padStart(4, "0");
    this.#seq += 1;
    const name = `${event.module ?? operatorName}.${now.toString(16)}${sequence}`;
    const target = { resource: EVENTS, namespace: this.#options.namespace };
    // Only the first Events wait for uids: objects that are missing after this time may never appear.
    this.#uidWaitEndsAt ??= clock.monotonic() + UID_WAIT_MS;
    const created = this.#enqueueCall(async (signal) => {
      await this.#waitBeforeCreate(event.module, signal);
      const body = this.#buildEvent(name, event, now);
      return create(this.#options.client, target, { body, signal, timeoutMs: CALL_TIMEOUT_MS });
    });
    // The map is in the order of insertion: a new series must be its last entry.
    this.#series.delete(key);
    this.#series.set(key, { name, count: 1, lastAt: clock.monotonic(), created });
  }

  /**
   * Waits until the operator next sends its deferrable writes together (once a second, see `nextWriteTime`), then until the uid of
   * the Event's object is known, because `kubectl describe` finds Events by uid. A flush ends both waits.
   */
  async #waitBeforeCreate(module: string | undefined, signal: AbortSignal): Promise<void> {
    const { clock, uidOf } = this.#options;
    const now = clock.monotonic();
    const msUntilBurst = nextWriteTime(now) - now;
    if (msUntilBurst > 0)
      await sleep(clock, msUntilBurst, AbortSignal.any([signal, this.#flushAbort.signal]));
    while (uidOf(module) === undefined && clock.monotonic() < (this.#uidWaitEndsAt ?? 0))
      await sleep(clock, UID_CHECK_MS, signal);
  }

  /** Queues the call that writes the count and the last time of a series into its Event. */
  #writeSeries(series: Series): void {
    const { client, namespace } = this.#options;
    const target = { resource: EVENTS, namespace, name: series.name };
    void this.#enqueueCall(async (signal) => {
      await series.created;
      const lastObservedTime = formatMicroTime(this.#wall.toWallTime(series.lastAt));
      const body = { series: { count: series.count, lastObservedTime } };
      try {
        await mergePatch(client, target, { body, signal, timeoutMs: CALL_TIMEOUT_MS });
      } catch (error) {
        if (!isNotFound(error)) throw error;
        // The server has deleted the Event because of its age. This time makes the next repetition start a new series.
        series.lastAt = Number.NEGATIVE_INFINITY;
      }
    });
  }

  get #callCount(): number {
    return this.#calls.size + this.#calls.pending;
  }

  /** Queues a call; beyond MAX_CALLS, the Event is dropped (back-pressure). Resolves when it has ended or is dropped. */
  async #enqueueCall(call: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    if (this.#callCount >= MAX_CALLS) return;
    try {
      await this.#calls.add(() => call(this.#abort.signal));
    } catch (error) {
      this.#options.logger.debug("Event dropped", { error: oneLine(error) });
    }
  }

  /** Forgets series that have ended, and the oldest ones beyond MAX_SERIES: the map begins with the oldest. */
  #forgetEndedSeries(now: number): void {
    for (const [key, series] of this.#series) {
      const hasEnded = now - series.lastAt >= SERIES_MS;
      if (!hasEnded && this.#series.size <= MAX_SERIES) continue;
      this.#timers.cancel(series);
      this.#series.delete(key);
    }
  }

  /** The Event object, about the AddonModule of the module, or about the AddonOperator without one. */
  #buildEvent(name: string, { module, reason, note }: OperatorEvent, now: number): Event {
    const { namespace, operatorName, instance, uidOf } = this.#options;
    const uid = uidOf(module);
    return {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name, namespace },
      eventTime: formatMicroTime(now),
      reportingController: "addon-operator.io/addon-operator",
      reportingInstance: instance.slice(0, MAX_INSTANCE_LENGTH),
      reason,
      ...EVENT_REASONS[reason],
      note,
      regarding: {
        apiVersion: API_VERSION,
        kind: module === undefined ? "AddonOperator" : "AddonModule",
        namespace,
        name: module ?? operatorName,
        ...(uid === undefined ? {} : { uid }),
      },
    };
  }
}
