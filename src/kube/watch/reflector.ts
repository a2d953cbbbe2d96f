/** The watch loop: lists, watches, and recovers from every failure. */

import { exponentialDelay, sleep, Timers, toError, type Clock } from "../../base/index.ts";
import { isJsonObject, readJson, type JsonObject } from "../../base/model/index.ts";
import { ApiError, ConnectionError, OversizeError, statusToApiError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { formatAcceptHeader } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { listObjects, requestNewestVersion } from "./list.ts";
import { FrameSplitter, TimeSlice, completeObject, readStream } from "./stream.ts";
import {
  wasEtcdRestored,
  findNewestVersion,
  toSelectorQuery,
  type WatchedObject,
  type WatchSpec,
} from "./watch-spec.ts";

/** Receives the events of a watch loop, in order. The loop waits for a returned promise. */
export interface ReflectorHandler {
  /** A list begins; drop the objects of an unfinished list. */
  onListStart(): void;
  onListed(object: WatchedObject): Promise<void> | void;
  /** The list is complete, as of this resource version. */
  onListComplete(resourceVersion: string): Promise<void> | void;
  onApplied(object: WatchedObject): Promise<void> | void;
  onDeleted(object: WatchedObject): Promise<void> | void;
  /** Whether consumers have this object in this version. */
  hasVersion(object: WatchedObject): boolean;
  /** How many objects consumers have. */
  countKnown(): number;
  /** The server has exactly the known objects as of this version. */
  onCompared(resourceVersion: string): void;
  /** Events of the watch were lost; a list follows. */
  onEventsLost(): void;
  /** The newest version that consumers know from answers; "" = none. */
  getNewestVersion(): string;
  /** The server's etcd was restored to an earlier state: versions seen so far cannot be compared with the next list. */
  onEtcdRestored(): void;
  /** Called for every failure of a list or watch. */
  onFailure(error: unknown): void;
  /** A list or watch fails and is retried; undefined = it works again. Not called for routine failures. */
  onError(error: Error | undefined): void;
}

export interface ReflectorTools {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  /** The known objects are compared with the server's after this time and up to half of it more; 0 = never. One hour by default. */
  readonly compareMs?: number | undefined;
}

// The server sends a bookmark about every minute: silence for this long means that the connection is dead.
const WATCH_SILENCE_MS = 150_000;
/** The server ends a watch after 240 to 300 s: random, so that watches do not end together. */
const SHORTEST_WATCH_S = 240;
const WATCH_SPREAD_S = 60;
/** A watch that lived this long, or delivered something, counts as working. */
const WORKING_WATCH_MS = 10_000;
/**
 * The known objects are compared with the server's after 60 to 90 minutes: a proxy or a defect of the server may lose events while bookmarks
 * arrive, and the next watch continues after them.
 */
const COMPARE_MS = 60 * 60_000;
/** A watch is not shorter than this, whatever the interval of the comparisons that follow it. */
const SHORTEST_WATCH_BEFORE_COMPARE_S = 2;
/** A watch that ends earlier counts as a failure. */
const MIN_WATCH_MS = 1000;

/**
 * Lists and then watches until `close`: reopens a closed watch from the last version seen, and lists again when that
 * version has expired. After a failure the server may come back with an earlier state of its etcd, and a watch from a
 * future version would stay silent: so the loop compares the server's newest version with the newest one known.
 */
export class Reflector {
  readonly #spec: WatchSpec;
  readonly #tools: ReflectorTools & { readonly signal: AbortSignal };
  readonly #compareMs: number;
  readonly #handler: ReflectorHandler;
  readonly #abortController = new AbortController();
  /** The newest version that the watch has seen: it continues after this version, unless it has to list. */
  #version = "";
  #mustList = true;
  /** Set after a failure, during which the server's etcd may have been restored: a watch must not continue before a check. */
  #mustCheckForRestore = false;
  #consecutiveFailures = 0;
  /** When to compare the known objects with the server's. */
  #compareAt = Infinity;
  /** Lists in a row whose pages expired before the last page. */
  #expiredLists = 0;
  #hasReportedError = false;

  constructor(spec: WatchSpec, tools: ReflectorTools, handler: ReflectorHandler) {
    this.#spec = spec;
    this.#tools = { ...tools, signal: this.#abortController.signal };
    this.#compareMs = tools.compareMs ?? COMPARE_MS;
    this.#handler = handler;
  }

  /** Runs until `close`; never rejects. */
  async run(): Promise<void> {
    const { signal } = this.#abortController;
    while (!signal.aborted) {
      try {
        // A list is a check itself.
        if (this.#mustCheckForRestore && !this.#mustList) await this.#checkForRestore();
        if (this.#tools.clock.monotonic() >= this.#compareAt) await this.#compareWithServer();
        if (this.#mustList) this.#version = await this.#listAll();
        this.#mustList = false;
        await this.#watch();
      } catch (error) {
        if (!signal.aborted) await this.#recover(error);
      }
    }
  }

  /** Ends the loop; calls the handler no more. */
  close(): void {
    this.#abortController.abort(new ConnectionError("ECLOSED", "the watch is closed"));
  }

  /** Finds out whether the server's etcd was restored to an earlier state. If so, the loop lists everything again. */
  async #checkForRestore(): Promise<void> {
    // Known before the request: answers that arrive during the request can be newer than its answer.
    const knownVersion = this.#getNewestKnownVersion();
    const serverVersion = await requestNewestVersion(this.#spec, this.#tools);
    if (this.#isRestored(knownVersion, serverVersion)) this.#mustList = true;
  }

  /** Decides by the server's newest version whether its etcd was restored since `knownVersion`, and notifies the handler if so. */
  #isRestored(knownVersion: string, serverVersion: string): boolean {
    this.#mustCheckForRestore = false;
    if (!wasEtcdRestored(knownVersion, serverVersion)) return false;
    this.#version = serverVersion;
    this.#handler.onEtcdRestored();
    return true;
  }

  /**
   * Compares the known objects with a list of their metadata at the version of the watch. If they differ, events were lost, and the loop
   * lists everything again. A list that fails, such as for a version that has expired, shows nothing; the next one is due later.
   */
  async #compareWithServer(): Promise<void> {
    const resourceVersion = this.#version;
    if (this.#mustList || resourceVersion === "") return;
    this.#scheduleCompare();
    let listedCount = 0;
    let equalCount = 0;
    const options = { ...this.#tools, unpaged: false, resourceVersion };
    try {
      await listObjects({ ...this.#spec, metadataOnly: true }, options, (object) => {
        listedCount += 1;
        if (this.#handler.hasVersion(object)) equalCount += 1;
      });
    } catch {
      return;
    }
    if (equalCount === listedCount && equalCount === this.#handler.countKnown())
      return this.#handler.onCompared(resourceVersion);
    this.#handler.onEventsLost();
    this.#mustList = true;
  }

  #scheduleCompare(): void {
    const { clock, random } = this.#tools;
    const waitMs = this.#compareMs * (1 + random() / 2);
    this.#compareAt = this.#compareMs === 0 ? Infinity : clock.monotonic() + waitMs;
  }

  /** The newest version of the watch and of its consumers: answers to requests may be far ahead of a watch that fails. */
  #getNewestKnownVersion(): string {
    return findNewestVersion([this.#version, this.#handler.getNewestVersion()]);
  }

  /** Delivers a complete list and returns its version. If that shows that the etcd was restored, lists once more, as versions of the lost state hide objects. */
  async #listAll(isRepeated = false): Promise<string> {
    const knownVersion = this.#getNewestKnownVersion();
    // A busy server may expire a list before the last page is read: after the second time, one page has to do.
    const options = { ...this.#tools, unpaged: this.#expiredLists > 1 };
    this.#handler.onListStart();
    try {
      const version = await listObjects(this.#spec, options, (object) => this.#handler.onListed(object));
      if (this.#isRestored(knownVersion, version) && !isRepeated) return await this.#listAll(true);
      await this.#handler.onListComplete(version);
      this.#expiredLists = 0;
      this.#scheduleCompare();
      this.#clearError();
      return version;
    } catch (error) {
      if (classifyError(error).kind === "expired") this.#expiredLists += 1;
      throw error;
    }
  }

  /** Watches from the last version on until the server ends the watch. Throws for every other end. */
  async #watch(): Promise<void> {
    const { clock } = this.#tools;
    const startedAt = clock.monotonic();
    const lines = new FrameSplitter();
    const timeSlice = new TimeSlice(clock);
    const query = {
      ...toSelectorQuery(this.#spec),
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: this.#version,
      timeoutSeconds: this.#chooseWatchSeconds(),
    };
    const path = pathOf(this.#spec.resource, this.#spec);
    const request = { path, query, accept: formatAcceptHeader(this.#spec, "") };
    // A watch that is open may be silent because nothing changes.
    const timers = new Timers<"working">(clock);
    const onOpen = (): void => timers.set("working", WORKING_WATCH_MS, () => this.#markWorking());
    const options = { ...this.#tools, silenceMs: WATCH_SILENCE_MS, onOpen };
    try {
      await readStream(request, options, async (chunk) => {
        for (const line of lines.push(chunk)) {
          await this.#handleFrame(line);
          await timeSlice.yieldWhenUsedUp();
        }
      });
    } finally {
      timers.close();
    }
    if (lines.hasIncompleteLine)
      throw new ConnectionError("ECUT", "the watch ended in the middle of an event");
    // Do not reopen watches in a tight loop when the server closes each of them at once.
    if (clock.monotonic() - startedAt < MIN_WATCH_MS)
      throw new ConnectionError("ECLOSED", "the server closed the watch at once");
  }

  /** When the server is to end the watch: not long after the next comparison is due, which follows a watch. */
  #chooseWatchSeconds(): number {
    const seconds = SHORTEST_WATCH_S + Math.floor(this.#tools.random() * WATCH_SPREAD_S);
    if (this.#compareMs === 0) return seconds;
    return Math.min(seconds, Math.max(Math.ceil(this.#compareMs / 1000), SHORTEST_WATCH_BEFORE_COMPARE_S));
  }

  /** Handles one line of the stream: an object, a bookmark with only a version, or an error of the server. */
  async #handleFrame(line: Buffer): Promise<void> {
    const frame = parseFrame(line);
    const type = frame["type"];
    if (type === "ERROR") throw statusToApiError(isJsonObject(frame["object"]) ? frame["object"] : {});
    this.#markWorking();
    if (type === "BOOKMARK") return this.#advanceVersion(frame["object"]);
    const object = completeObject(frame["object"], this.#spec);
    if (type === "DELETED") await this.#handler.onDeleted(object);
    else await this.#handler.onApplied(object);
    this.#advanceVersion(object);
  }

  /** Records the version of a delivered object or bookmark: a reopened watch continues after it. */
  #advanceVersion(object: unknown): void {
    const meta = isJsonObject(object) ? object["metadata"] : undefined;
    const version = isJsonObject(meta) ? meta["resourceVersion"] : undefined;
    if (typeof version === "string" && version !== "") this.#version = version;
  }

  /** The watch works: the next failure counts as the first one, so its retry delay is short, and the end of an error is reported. */
  #markWorking(): void {
    this.#consecutiveFailures = 0;
    this.#clearError();
  }

  /** Reports that the watch works again, if an error was reported. */
  #clearError(): void {
    if (!this.#hasReportedError) return;
    this.#hasReportedError = false;
    this.#handler.onError(undefined);
  }

  /** Decides after a failure whether to list again and whether to report it, and waits before the next try. */
  async #recover(error: unknown): Promise<void> {
    const remedy = classifyError(error);
    this.#handler.onFailure(error);
    this.#consecutiveFailures += 1;
    if (remedy.kind === "expired") this.#mustList = true;
    else this.#mustCheckForRestore = this.#getNewestKnownVersion() !== "";
    // A single lost connection is normal. So is an expired version, also after one: a watch of a kind without bookmarks, such as Events, is cut.
    const isAnswer = error instanceof ApiError || error instanceof OversizeError;
    const isNormal = this.#consecutiveFailures <= (remedy.kind === "expired" ? 2 : 1);
    const isRefused = isAnswer && remedy.kind !== "expired";
    if (isRefused || !isNormal) {
      this.#hasReportedError = true;
      this.#handler.onError(toError(error));
    }
    const delay = computeRetryDelay(remedy, this.#consecutiveFailures, this.#tools.random());
    if (delay > 0) await sleep(this.#tools.clock, delay, this.#abortController.signal);
  }
}

/** Parses a line of a watch stream. Throws ConnectionError for text that is not JSON: a proxy may answer in place of the server. */
function parseFrame(line: Buffer): JsonObject {
  let frame: unknown;
  try {
    frame = readJson(line.toString("utf8"));
  } catch (cause) {
    throw new ConnectionError("EFRAME", "the server sent something that is no watch event", { cause });
  }
  return isJsonObject(frame) ? frame : {};
}

/** How to go on after a failed list or watch. */
type Remedy =
  | { readonly kind: "expired" }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "soon" }
  /** A user has to act (missing permissions, a missing kind, a wrong selector): try seldom. */
  | { readonly kind: "seldom" };

/** Statuses that do not change before a user acts. */
const USER_ERRORS = [400, 403, 404, 405, 406, 415, 422];

/**
 * Decides by the HTTP status how to go on after an error: list again (`expired`), wait as the server said, try `seldom` because a user has to act,
 * or try `soon`. Connection errors and unknown errors are transient.
 */
export function classifyError(error: unknown): Remedy {
  if (error instanceof OversizeError) return { kind: "seldom" };
  if (!(error instanceof ApiError)) return { kind: "soon" };
  if (error.status === 410 || error.reason === "Expired" || error.reason === "Gone")
    return { kind: "expired" };
  if (error.retryAfterMs !== undefined && error.retryAfterMs > 0)
    return { kind: "wait", ms: error.retryAfterMs };
  if (USER_ERRORS.includes(error.status)) return { kind: "seldom" };
  return { kind: "soon" };
}

/** Classes of failures of a watch, as the Go operator's metric names them. */
export type WatchErrorType = "expired" | "eof" | "unexpected-eof" | "fail";

/**
 * Classifies an error for the metric. `eof`: the server ended the watch at once; `unexpected-eof`: the connection broke; `fail`: the server
 * answered an error.
 */
export function toWatchErrorType(error: unknown): WatchErrorType {
  if (classifyError(error).kind === "expired") return "expired";
  if (!(error instanceof ConnectionError)) return "fail";
  return error.code === "ECLOSED" ? "eof" : "unexpected-eof";
}

const SOON = { firstMs: 200, maxMs: 10_000 };
const SELDOM = { firstMs: 1000, maxMs: 30_000 };
const LONGEST_WAIT_MS = 60_000;
/** Spreads the requests of watches that got the same `Retry-After`. */
const WAIT_JITTER_MS = 200;

/**
 * Computes the delay before the next try after `failures` failures in a row (1 = the first), with jitter down to half of it:
 * 0.2 to 10 s, 1 to 30 s if a user has to act, at least `Retry-After`, none for a first 410.
 */
export function computeRetryDelay(remedy: Remedy, failures: number, random: number): number {
  if (remedy.kind === "expired" && failures <= 1) return 0;
  if (remedy.kind === "wait") return Math.min(remedy.ms, LONGEST_WAIT_MS) + random * WAIT_JITTER_MS;
  return exponentialDelay(failures, remedy.kind === "seldom" ? SELDOM : SOON) * (1 - random / 2);
}
