import { ApiError, ConnectionError } from "../../src/kube/index.ts";
import type { ApiRequest, KubeClient } from "../../src/kube/index.ts";
import type { JsonObject } from "../../src/model/index.ts";
import type { ManualClock } from "./clock.ts";
import { settle } from "./clock.ts";

interface Stored extends JsonObject {
  readonly metadata: JsonObject & {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
}

interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly path: string;
  readonly object: Stored;
}

/** What a list or watch is of. */
interface Selection {
  readonly collection: string;
  readonly name: string | undefined;
  readonly labels: ReadonlyMap<string, string>;
}

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
}

const TIMEOUT_MS = 30_000;

/**
 * As much of an API server as watches, conditional writes and leases need, behind a network of which a seed decides
 * when each request arrives, when each answer does (or never), and when each watch hears of each change. Everything
 * that a real server may do in that order, it may do here: nothing happens but in `step`.
 */
export class RestlessApi {
  readonly weather: Weather = { lost: 0, torn: 0 };
  readonly #roll: () => number;
  readonly #clock: ManualClock;
  readonly #objects = new Map<string, Stored>();
  readonly #changes: Change[] = [];
  readonly #waiting = new Set<() => void>();
  readonly #watchers = new Set<Watcher>();
  #version = 100;
  #compacted = 0;

  constructor(roll: () => number, clock: ManualClock) {
    this.#roll = roll;
    this.#clock = clock;
  }

  get client(): KubeClient {
    return {
      json: (request: ApiRequest) => this.#call(request),
      sized: async (request: ApiRequest) => ({ value: await this.#call(request), bytes: 0 }),
      stream: (request: ApiRequest) => this.#stream(request),
    } as unknown as KubeClient;
  }

  /** The object as the server has it. */
  get(path: string): Stored | undefined {
    return this.#objects.get(path);
  }

  /** Somebody else's write, at once. */
  put(path: string, content: JsonObject): void {
    const old = this.#objects.get(path);
    const name = path.slice(path.lastIndexOf("/") + 1);
    const metadata = { ...old?.metadata, ...(content["metadata"] as JsonObject | undefined), name };
    this.#store(path, { ...old, ...content, metadata });
  }

  /** The objects of a collection. */
  all(collection: string): Stored[] {
    return [...this.#objects]
      .filter(([path]) => path.startsWith(`${collection}/`))
      .map(([, object]) => object);
  }

  /** Somebody else's delete, at once. */
  remove(path: string): void {
    const old = this.#objects.get(path);
    if (old === undefined) return;
    this.#objects.delete(path);
    const version = ++this.#version;
    const metadata = { ...old.metadata, resourceVersion: String(version) };
    this.#changes.push({ version, type: "DELETED", path, object: { ...old, metadata } });
  }

  /** One thing happens that may happen now; false when there is none. */
  async step(): Promise<boolean> {
    const told = [...this.#watchers].filter((watcher) => this.#next(watcher) !== undefined);
    const acts = [...this.#waiting, ...told.map((watcher) => () => this.#tell(watcher))];
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
    if (this.#roll() < 0.3) this.#compacted = this.#version;
    if (watcher === undefined) return;
    // Never forward: what the watch has not heard yet it hears, compacted or not.
    if (this.#roll() < 0.4)
      watcher.from = Math.min(watcher.from, Math.max(this.#compacted, watcher.from - 1));
    else watcher.push(undefined);
  }

  #next(watcher: Watcher): Change | undefined {
    return this.#changes.find(
      ({ version, path, object }) => version > watcher.from && isSelected(watcher, path, object),
    );
  }

  #tell(watcher: Watcher): void {
    const change = this.#next(watcher);
    if (change === undefined) return;
    watcher.from = change.version;
    watcher.push(`${JSON.stringify({ type: change.type, object: change.object })}\n`);
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
    if (query["watch"] !== true) return once(JSON.stringify(this.#list(selection)));
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
    request.signal?.addEventListener("abort", () => watcher.push(undefined));
    return chunks;
  }

  #list(selection: Selection): JsonObject {
    const items = [...this.#objects].filter(([path, object]) => isSelected(selection, path, object));
    return {
      kind: "List",
      apiVersion: "v1",
      metadata: { resourceVersion: String(this.#version) },
      items: items.map(([, object]) => object),
    };
  }

  #answer(request: ApiRequest): JsonObject {
    const { method = "GET", path, body } = request;
    const content = structuredClone(body) as Stored;
    if (method === "GET" && request.query?.["limit"] !== undefined) return this.#list(selectionOf(request));
    if (method === "POST") {
      const at = `${path}/${content.metadata.name}`;
      if (this.#objects.has(at))
        throw new ApiError({ status: 409, reason: "AlreadyExists", message: "exists" });
      return this.#store(at, content);
    }
    const old = this.#objects.get(path);
    if (old === undefined) throw new ApiError({ status: 404, reason: "NotFound", message: "not found" });
    if (method === "GET") return old;
    if (method === "DELETE") {
      const { uid = old.metadata.uid } =
        (content as { preconditions?: { uid?: string } }).preconditions ?? {};
      if (uid === old.metadata.uid) this.remove(path);
      else throw new ApiError({ status: 409, reason: "Conflict", message: "another uid" });
      return old;
    }
    const wanted = content.metadata.resourceVersion as string | undefined;
    if (wanted !== undefined && wanted !== old.metadata.resourceVersion)
      throw new ApiError({ status: 409, reason: "Conflict", message: "the object has been modified" });
    return this.#store(path, method === "PUT" ? content : (merged(old, content) as JsonObject));
  }

  #store(path: string, content: JsonObject): Stored {
    const old = this.#objects.get(path);
    const version = ++this.#version;
    const metadata = {
      ...(content["metadata"] as Stored["metadata"]),
      uid: old?.metadata.uid ?? `u${version}`,
      resourceVersion: String(version),
    };
    const object = { ...content, metadata };
    this.#objects.set(path, object);
    this.#changes.push({ version, type: old === undefined ? "ADDED" : "MODIFIED", path, object });
    return object;
  }
}

function selectionOf({ path, query = {} }: ApiRequest): Selection {
  const name = /^metadata\.name=(.+)$/.exec(String(query["fieldSelector"] ?? ""))?.[1];
  const terms = String(query["labelSelector"] ?? "").split(",");
  const labels = new Map(
    terms.filter((term) => term !== "").map((term) => term.split("=") as [string, string]),
  );
  return { collection: path, name, labels };
}

function isSelected({ collection, name, labels }: Selection, path: string, { metadata }: Stored): boolean {
  const found = (metadata["labels"] ?? {}) as Record<string, string>;
  return (
    path.startsWith(`${collection}/`) &&
    (name === undefined || metadata.name === name) &&
    [...labels].every(([key, value]) => found[key] === value)
  );
}

function merged(old: unknown, change: unknown): unknown {
  if (typeof change !== "object" || change === null || typeof old !== "object" || old === null) return change;
  const result: Record<string, unknown> = { ...old };
  for (const [key, value] of Object.entries(change)) {
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
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
