/** The watch loop: lists, watches, and recovers from every failure. */

import type { Clock } from "../../lib/index.ts";
import { sleep } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { isJsonObject } from "../../model/index.ts";
import type { KubeClient } from "../client/client.ts";
import { ApiError, ConnectionError } from "../api-errors.ts";
import { pathOf } from "../discovery/resources.ts";
import { remedyFor, retryDelayFor } from "./watch-failure.ts";
import { statusError } from "../client/answers.ts";
import { acceptOf } from "../client/request.ts";
import { listObjects } from "./list.ts";
import type { WatchedObject, WatchSpec } from "./watch-spec.ts";
import { selectorsOf, wholeObject } from "./watch-spec.ts";
import { Breather, FrameSplitter, readStream } from "./stream.ts";

/** What a watch loop reports, in order. The loop waits for a returned promise. */
export interface ReflectorHandler {
  /** A list begins; the objects of an unfinished one before it do not count. */
  listing(): void;
  listed(object: WatchedObject): Promise<void> | void;
  /** The list is complete, for that resource version. */
  completed(resourceVersion: string): Promise<void> | void;
  applied(object: WatchedObject): Promise<void> | void;
  deleted(object: WatchedObject): Promise<void> | void;
  /** A list or watch failed: each time. */
  failed(error: unknown): void;
  /** A list or watch failed and will be tried again; undefined = it works again. Not for everyday failures. */
  trouble(error: Error | undefined): void;
}

/** What a watch loop needs. */
export interface ReflectorTools {
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
 * Lists and then watches for ever, whatever fails: a closed watch is opened again from the last version seen, an
 * expired version is listed anew.
 */
export class Reflector {
  readonly #spec: WatchSpec;
  readonly #tools: ReflectorTools;
  readonly #handler: ReflectorHandler;
  readonly #stop = new AbortController();
  #version: string | undefined;
  #failures = 0;
  #expiredLists = 0;
  #troubled = false;

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
        this.#version ??= await this.#list();
        await this.#follow();
      } catch (error) {
        if (!signal.aborted) await this.#recover(error);
      }
    }
  }

  /** Ends the loop; nothing is reported any more. */
  close(): void {
    this.#stop.abort(new ConnectionError("ECLOSED", "the watch is closed"));
  }

  async #list(): Promise<string> {
    const { client, clock } = this.#tools;
    const options = { client, clock, signal: this.#stop.signal, unpaged: this.#expiredLists > 1 };
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
    const { client, clock, random } = this.#tools;
    const begun = clock.monotonic();
    const lines = new FrameSplitter();
    const breather = new Breather(clock);
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
    const options = { client, clock, signal: this.#stop.signal, silenceMs: WATCH_SILENCE_MS };
    const good = clock.setTimer(GOOD_WATCH_MS, () => this.#works());
    try {
      await readStream(request, options, async (chunk) => {
        for (const line of lines.push(chunk)) {
          await this.#frame(line);
          await breather.pause();
        }
      });
    } finally {
      good.cancel();
    }
    // A server that keeps closing watches at once must not be asked in a tight loop.
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
    if (typeof version === "string" && version !== "") this.#version = version;
  }

  #works(): void {
    this.#failures = 0;
    this.#clear();
  }

  #clear(): void {
    if (!this.#troubled) return;
    this.#troubled = false;
    this.#handler.trouble(undefined);
  }

  async #recover(error: unknown): Promise<void> {
    const remedy = remedyFor(error);
    this.#handler.failed(error);
    this.#failures += 1;
    if (remedy.kind === "expired") this.#version = undefined;
    // A single lost connection or expired version is normal.
    if (this.#failures > 1 || (error instanceof ApiError && remedy.kind !== "expired")) this.#report(error);
    const delay = retryDelayFor(remedy, this.#failures, this.#tools.random());
    if (delay > 0) await sleep(this.#tools.clock, delay, this.#stop.signal);
  }

  #report(error: unknown): void {
    this.#troubled = true;
    this.#handler.trouble(error instanceof Error ? error : new Error(String(error)));
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
