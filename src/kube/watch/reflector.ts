/** The watch loop: lists, watches, and recovers from every failure. */

import { exponentialDelay, sleep, type Clock } from "../../lib/index.ts";
import { isJsonObject, type JsonObject } from "../../model/index.ts";
import { ApiError, ConnectionError, statusError } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { acceptOf } from "../client/request.ts";
import { pathOf } from "../resources.ts";
import { FrameSplitter } from "./splitters.ts";
import { TimeSlice, listObjects, newestVersion, readStream } from "./stream.ts";
import {
  isPutBack,
  newestOf,
  selectorsOf,
  wholeObject,
  type WatchedObject,
  type WatchSpec,
} from "./watch-spec.ts";

/** What a watch loop reports, in order. The loop waits for a returned promise. */
interface ReflectorHandler {
  /** A list begins; drop the objects of an unfinished list. */
  listing(): void;
  listed(object: WatchedObject): Promise<void> | void;
  /** The list is complete, as of that resource version. */
  completed(resourceVersion: string): Promise<void> | void;
  applied(object: WatchedObject): Promise<void> | void;
  deleted(object: WatchedObject): Promise<void> | void;
  /** The newest version that consumers know, also from answers; "" = none. */
  newest(): string;
  /** The server's etcd was restored to an earlier state: versions seen so far cannot be compared with the next list. */
  putBack(): void;
  /** Called for every failure of a list or watch. */
  failed(error: unknown): void;
  /** A list or watch fails and is tried again; undefined = it works again. Not called for routine failures. */
  issue(error: Error | undefined): void;
}

/** What a watch loop needs. */
interface ReflectorTools {
  readonly client: Pick<KubeClient, "stream">;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
}

// The server sends a bookmark about every minute: silence for this long means that the connection is dead.
const WATCH_SILENCE_MS = 150_000;
const SHORTEST_WATCH_S = 240;
const SPREAD_S = 60;
/** A watch that lived this long, or delivered something, counts as working. */
const GOOD_WATCH_MS = 10_000;

/**
 * Lists and then watches until `close`: reopens a closed watch from the last version seen, and lists again when that
 * version has expired. After a failure the server may come back with an earlier state of its etcd, and a watch from a
 * future version would stay silent: so its newest version is compared with the newest one known.
 */
export class Reflector {
  readonly #spec: WatchSpec;
  readonly #tools: ReflectorTools;
  readonly #handler: ReflectorHandler;
  readonly #stop = new AbortController();
  /** Undefined = a list is needed. */
  #version: string | undefined;
  /** The newest version that the watch has seen, also while a list is needed. */
  #newest = "";
  #isDoubtful = false;
  #failures = 0;
  #expiredLists = 0;
  #issueFound = false;

  constructor(spec: WatchSpec, tools: ReflectorTools, handler: ReflectorHandler) {
    this.#spec = spec;
    this.#tools = tools;
    this.#handler = handler;
  }

  /** Runs until `close`; never rejects. */
  async run(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (this.#isDoubtful) await this.#compareHistory();
        this.#version ??= await this.#list();
        this.#newest = this.#version;
        await this.#follow();
      } catch (error) {
        if (!signal.aborted) await this.#recover(error);
      }
    }
  }

  /** Ends the loop; calls the handler no more. */
  close(): void {
    this.#stop.abort(new ConnectionError("ECLOSED", "the watch is closed"));
  }

  async #compareHistory(): Promise<void> {
    const now = await newestVersion(this.#spec, this.#reading);
    this.#isDoubtful = false;
    if (!isPutBack(this.#newestKnown(), now)) return;
    this.#version = undefined;
    this.#newest = now;
    this.#handler.putBack();
  }

  // Answers may be far ahead of a watch that fails.
  #newestKnown(): string {
    return newestOf([this.#newest, this.#handler.newest()]);
  }

  get #reading(): Pick<ReflectorTools, "client" | "clock"> & { readonly signal: AbortSignal } {
    const { client, clock } = this.#tools;
    return { client, clock, signal: this.#stop.signal };
  }

  async #list(): Promise<string> {
    const options = { ...this.#reading, unpaged: this.#expiredLists > 1 };
    this.#handler.listing();
    try {
      const version = await listObjects(this.#spec, options, (object) => this.#handler.listed(object));
      await this.#handler.completed(version);
      this.#expiredLists = 0;
      this.#clear();
      return version;
    } catch (error) {
      if (remedyFor(error).kind === "expired") this.#expiredLists += 1;
      throw error;
    }
  }

  async #follow(): Promise<void> {
    const { clock, random } = this.#tools;
    const begun = clock.monotonic();
    const lines = new FrameSplitter();
    const slice = new TimeSlice(clock);
    const query = {
      ...selectorsOf(this.#spec),
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion: this.#version,
      timeoutSeconds: SHORTEST_WATCH_S + Math.floor(random() * SPREAD_S),
    };
    const request = {
      path: pathOf(this.#spec.resource, this.#spec),
      query,
      accept: acceptOf(this.#spec, ""),
    };
    const options = { ...this.#reading, silenceMs: WATCH_SILENCE_MS };
    const good = clock.setTimer(GOOD_WATCH_MS, () => this.#works());
    try {
      await readStream(request, options, async (chunk) => {
        for (const line of lines.push(chunk)) {
          await this.#frame(line);
          await slice.pause();
        }
      });
    } finally {
      good.cancel();
    }
    // Do not reopen watches in a tight loop when the server closes each of them at once.
    if (clock.monotonic() - begun < 1000)
      throw new ConnectionError("ECLOSED", "the server closed the watch at once");
  }

  async #frame(line: Buffer): Promise<void> {
    const frame = parseFrame(line);
    const type = frame["type"];
    if (type === "ERROR") throw statusError(isJsonObject(frame["object"]) ? frame["object"] : {});
    this.#works();
    if (type === "BOOKMARK") return this.#advance(frame["object"]);
    const object = wholeObject(frame["object"], this.#spec);
    if (type === "DELETED") await this.#handler.deleted(object);
    else await this.#handler.applied(object);
    this.#advance(object);
  }

  #advance(object: unknown): void {
    const meta = isJsonObject(object) ? object["metadata"] : undefined;
    const version = isJsonObject(meta) ? meta["resourceVersion"] : undefined;
    if (typeof version === "string" && version !== "") this.#version = this.#newest = version;
  }

  #works(): void {
    this.#failures = 0;
    this.#clear();
  }

  #clear(): void {
    if (!this.#issueFound) return;
    this.#issueFound = false;
    this.#handler.issue(undefined);
  }

  async #recover(error: unknown): Promise<void> {
    const remedy = remedyFor(error);
    this.#handler.failed(error);
    this.#failures += 1;
    if (remedy.kind === "expired") this.#version = undefined;
    else this.#isDoubtful = this.#newestKnown() !== "";
    // A single lost connection or expired version is normal.
    if (this.#failures > 1 || (error instanceof ApiError && remedy.kind !== "expired")) this.#report(error);
    const delay = retryDelayFor(remedy, this.#failures, this.#tools.random());
    if (delay > 0) await sleep(this.#tools.clock, delay, this.#stop.signal);
  }

  #report(error: unknown): void {
    this.#issueFound = true;
    this.#handler.issue(error instanceof Error ? error : new Error(String(error)));
  }
}

function parseFrame(line: Buffer): JsonObject {
  let frame: unknown;
  try {
    frame = JSON.parse(line.toString("utf8"));
  } catch (cause) {
    throw new ConnectionError("EFRAME", "the server sent something that is no watch event", { cause });
  }
  return isJsonObject(frame) ? frame : {};
}

/** What to do after a failed list or watch. */
type Remedy =
  /** Too old a version: list again. */
  | { readonly kind: "expired" }
  /** The server sent `Retry-After`. */
  | { readonly kind: "wait"; readonly ms: number }
  /** A transient failure. */
  | { readonly kind: "soon" }
  /** A user has to act (missing rights, a missing kind, a wrong selector): try seldom. */
  | { readonly kind: "seldom" };

/** Classifies an error by its status; connection errors and unknown errors are transient. */
export function remedyFor(error: unknown): Remedy {
  if (!(error instanceof ApiError)) return { kind: "soon" };
  if (error.status === 410 || error.reason === "Expired" || error.reason === "Gone")
    return { kind: "expired" };
  if (error.retryAfterMs !== undefined && error.retryAfterMs > 0)
    return { kind: "wait", ms: error.retryAfterMs };
  if ([400, 403, 404, 405, 406, 415, 422].includes(error.status)) return { kind: "seldom" };
  return { kind: "soon" };
}

/** Classes of failures of a watch, as the Go operator's metric names them. */
export type WatchErrorType = "expired" | "eof" | "unexpected-eof" | "fail";

/** `eof`: the server ended the watch at once; `unexpected-eof`: the connection broke; `fail`: an error was answered. */
export function watchErrorType(error: unknown): WatchErrorType {
  if (remedyFor(error).kind === "expired") return "expired";
  if (!(error instanceof ConnectionError)) return "fail";
  return error.code === "ECLOSED" ? "eof" : "unexpected-eof";
}

const SOON = { firstMs: 200, maxMs: 10_000 };
const SELDOM = { firstMs: 1000, maxMs: 30_000 };
const LONGEST_WAIT_MS = 60_000;

/**
 * Delay before the next try after `failures` failures in a row (1 = the first), with jitter down to half of it:
 * 0.2 to 10 s, 1 to 30 s if a user has to act, at least `Retry-After`, none for a first 410.
 */
export function retryDelayFor(remedy: Remedy, failures: number, random: number): number {
  if (remedy.kind === "expired" && failures <= 1) return 0;
  const backoff = exponentialDelay(failures, remedy.kind === "seldom" ? SELDOM : SOON) * (1 - random / 2);
  return remedy.kind === "wait" ? Math.min(remedy.ms, LONGEST_WAIT_MS) + random * 200 : backoff;
}
