import { ApiError, ConnectionError } from "../../src/kube/index.ts";
import type { ApiRequest, KubeClient } from "../../src/kube/index.ts";
import type { JsonObject } from "../../src/base/model/index.ts";
import type { ManualClock } from "./clock.ts";
import { settle } from "./clock.ts";
import { ObjectServer, isList, isSelected, selectionOf } from "./object-server.ts";
import type { Change, Selection, Stored } from "./object-server.ts";

interface Watcher extends Selection {
  from: number;
  readonly push: (text: string | undefined) => void;
}

/** How likely the network misbehaves; all 0 = every request is answered, but still in any order. */
export interface Weather {
  /** A request is lost on its way, or its answer is. */
  lost: number;
  /** A watch is cut, gets an event twice, or finds its version compacted. */
  torn: number;
  /** A list comes in pages, or late. */
  paged: number;
  /** A watch misses an event, and goes on. */
  dropped: number;
  /** A watch hears of two changes in the other order. */
  swapped: number;
  /** A read is answered from an earlier state. */
  stale: number;
}

const CALM: Weather = { lost: 0, torn: 0, paged: 0, dropped: 0, swapped: 0, stale: 0 };
/** How many changes a stale answer is behind, at most. */
const BEHIND = 6;

/** The rest of a list that was answered in part. */
interface Page {
  readonly version: number;
  readonly items: readonly Stored[];
}

const TIMEOUT_MS = 30_000;
/** The version of an empty server. */
const FIRST_VERSION = 100;

/**
 * As much of an API server as watches, conditional writes and leases need, behind a network of which a seed decides
 * when each request arrives, when each answer does (or never), and when each watch hears of each change. Everything
 * that a real server may do in that order, it may do here: nothing happens but in `step`.
 */
export class RestlessApi {
  readonly weather: Weather = { ...CALM };
  readonly server = new ObjectServer();
  readonly #roll: () => number;
  readonly #clock: ManualClock;
  readonly #waiting = new Set<() => void>();
  readonly #watchers = new Set<Watcher>();
  readonly #pages: Page[] = [];
  #compacted = 0;
  #requests = 0;
  #open = 0;
  /** Whether somebody is at work, on another thread say, and has no request open: nothing else happens meanwhile. */
  isWorking: () => boolean = () => false;

  constructor(roll: () => number, clock: ManualClock) {
    this.#roll = roll;
    this.#clock = clock;
  }

  get client(): KubeClient {
    return {
      json: (request: ApiRequest) => this.#counted(request),
      stream: (request: ApiRequest) => this.#stream(request),
    } as unknown as KubeClient;
  }

  /** Requests so far, without watches and their lists. */
  get requests(): number {
    return this.#requests;
  }

  /** Requests that have no answer yet. */
  get open(): number {
    return this.#open;
  }

  /** The object as the server has it. */
  get(path: string): Stored | undefined {
    return this.server.get(path);
  }

  /** Somebody else's write, at once. */
  put(path: string, content: JsonObject): void {
    this.server.put(path, content);
  }

  /** The objects of a collection. */
  all(collection: string): Stored[] {
    return this.server.all(collection);
  }

  /** Somebody else's delete, at once. */
  remove(path: string): void {
    this.server.remove(path);
  }

  /** Nothing goes wrong any more. */
  calm(): void {
    Object.assign(this.weather, CALM);
  }

  /** One thing happens that may happen now; false when there is none. */
  async step(): Promise<boolean> {
    while (this.isWorking()) await settle(1);
    const reported = [...this.#watchers].filter((watcher) => this.#next(watcher) !== undefined);
    const acts = [...this.#waiting, ...reported.map((watcher) => () => this.#report(watcher))];
    if (this.#roll() < this.weather.torn) this.#tear();
    const act = acts[Math.floor(this.#roll() * acts.length)];
    act?.();
    await settle(2);
    return act !== undefined;
  }

  /** Everything under way comes to its end, and back-offs run out; in steps that no time limit of a request sees. */
  async rest(): Promise<void> {
    for (const ms of [0, 20, 500, 5000, 9000, 9000, 9000, 9000]) {
      await this.#clock.advance(ms);
      while (await this.step());
    }
  }

  #tear(): void {
    const watcher = [...this.#watchers][Math.floor(this.#roll() * this.#watchers.size)];
    if (this.#roll() < 0.3) this.#compacted = this.server.version;
    if (watcher === undefined) return;
    // Never forward: what the watch has not heard yet it hears, compacted or not.
    if (this.#roll() < 0.4)
      watcher.from = Math.min(watcher.from, Math.max(this.#compacted, watcher.from - 1));
    else watcher.push(undefined);
  }

  #next(watcher: Watcher): Change | undefined {
    return this.server.changes.find(
      ({ version, path, object }) => version > watcher.from && isSelected(watcher, path, object),
    );
  }

  #report(watcher: Watcher): void {
    const change = this.#next(watcher);
    if (change === undefined) return;
    watcher.from = change.version;
    if (this.#happens(this.weather.dropped)) return;
    const next = this.#happens(this.weather.swapped) ? this.#next(watcher) : undefined;
    for (const { version, type, object } of next === undefined ? [change] : [next, change]) {
      watcher.from = Math.max(watcher.from, version);
      watcher.push(`${JSON.stringify({ type, object })}\n`);
    }
  }

  async #counted(request: ApiRequest): Promise<unknown> {
    this.#requests += 1;
    this.#open += 1;
    try {
      return await this.#call(request);
    } finally {
      this.#open -= 1;
    }
  }

  /** The request arrives some time, and some time its answer; either may be lost. Late requests still arrive. */
  #call(request: ApiRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const timer = this.#clock.setTimer(request.timeoutMs ?? TIMEOUT_MS, () =>
        reject(new ConnectionError("ETIMEDOUT", "no answer in time")),
      );
      request.signal?.addEventListener("abort", () => reject(request.signal?.reason as Error));
      const lost = (): boolean => this.#roll() < this.weather.lost;
      const fail = (): void => reject(new ConnectionError("ECONNRESET", "cut"));
      this.#later(() => {
        if (lost()) return this.#later(fail);
        let answer: () => void;
        try {
          const value = structuredClone(this.#answer(request));
          answer = () => resolve(value);
        } catch (error) {
          answer = () => reject(error as Error);
        }
        const isLost = lost();
        this.#later(() => {
          timer.cancel();
          if (isLost) fail();
          else answer();
        });
      });
    });
  }

  #later(act: () => void): void {
    const once = (): void => {
      this.#waiting.delete(once);
      act();
    };
    this.#waiting.add(once);
  }

  async #stream(request: ApiRequest): Promise<AsyncIterable<Uint8Array>> {
    await new Promise<void>((resolve) => this.#later(resolve));
    const { query = {} } = request;
    const selection = selectionOf(request);
    if (query["watch"] !== true) return this.#listed(request);
    const from = Number(query["resourceVersion"]);
    if (from < this.#compacted) throw new ApiError({ status: 410, reason: "Expired", message: "too old" });
    const { chunks, push } = channel();
    const watcher: Watcher = {
      ...selection,
      from,
      push: (text) => {
        if (text === undefined) this.#watchers.delete(watcher);
        push(text);
      },
    };
    this.#watchers.add(watcher);
    const timer = this.#clock.setTimer(Number(query["timeoutSeconds"]) * 1000, () => watcher.push(undefined));
    request.signal?.addEventListener("abort", () => {
      timer.cancel();
      watcher.push(undefined);
    });
    return chunks;
  }

  /** A list may be on its way for long after it was made. */
  async #listed(request: ApiRequest): Promise<AsyncIterable<Uint8Array>> {
    const text = JSON.stringify(this.#list(request));
    if (this.#happens(this.weather.paged)) await new Promise<void>((resolve) => this.#later(resolve));
    return once(text);
  }

  #list(request: ApiRequest): JsonObject {
    const { continue: token, limit } = request.query ?? {};
    const all: Page = token === undefined ? this.#select(request) : this.#remainder(Number(token));
    const isWhole = limit === undefined || all.items.length < 2 || !this.#happens(this.weather.paged);
    const items = isWhole ? [...all.items] : all.items.slice(0, 1);
    const next = isWhole ? {} : { continue: this.#keep({ ...all, items: all.items.slice(1) }) };
    const metadata = { resourceVersion: String(all.version), ...next };
    return { kind: "List", apiVersion: "v1", metadata, items };
  }

  /** Everything that a list has: as it is, or as it was a while ago. */
  #select(request: ApiRequest): Page {
    const version = this.#versionOfRead();
    return { version, items: this.server.select(selectionOf(request), this.#objectsAt(version)) };
  }

  #versionOfRead(): number {
    const { version } = this.server;
    return this.#happens(this.weather.stale)
      ? Math.max(version - Math.floor(this.#roll() * BEHIND), FIRST_VERSION)
      : version;
  }

  #objectsAt(version: number): ReadonlyMap<string, Stored> | undefined {
    return version === this.server.version ? undefined : this.server.at(version);
  }

  #remainder(token: number): Page {
    const page = this.#pages[token];
    if (page === undefined || page.version < this.#compacted)
      throw new ApiError({ status: 410, reason: "Expired", message: "the list is too old" });
    return page;
  }

  #keep(page: Page): string {
    return String(this.#pages.push(page) - 1);
  }

  // Without a roll where it never happens: a seed stays the same story.
  #happens(part: number): boolean {
    return part > 0 && this.#roll() < part;
  }

  #answer(request: ApiRequest): JsonObject {
    if (isList(request)) return this.#list(request);
    const { method = "GET" } = request;
    const old = method === "GET" ? this.#objectsAt(this.#versionOfRead()) : undefined;
    return old === undefined ? this.server.answer(request) : this.server.read(request, old);
  }
}

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** Chunks that are pushed one by one; undefined ends them. */
function channel(): { chunks: AsyncIterable<Uint8Array>; push: (text: string | undefined) => void } {
  const waiting: (string | undefined)[] = [];
  let wake = (): void => {};
  async function* read(): AsyncGenerator<Uint8Array> {
    for (;;) {
      while (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      const text = waiting.shift();
      if (text === undefined) return;
      yield Buffer.from(text);
    }
  }
  const push = (text: string | undefined): void => {
    waiting.push(text);
    wake();
  };
  return { chunks: read(), push };
}
