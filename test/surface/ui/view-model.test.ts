import { beforeEach, describe, expect, it } from "vitest";

import { ViewModel, type PageState } from "../../../src/surface/ui/view-model.ts";
import {
  HEARTBEAT_MS,
  MAX_STREAMS,
  STALL_TIMEOUT_MS,
  type StreamSink,
} from "../../../src/surface/ui/streams.ts";
import type { PageModuleRow, StreamMessage } from "../../../src/surface/ui/wire.ts";
import { ManualClock } from "../../support/clock.ts";

/** A page that reads a stream. */
class Viewer implements StreamSink {
  readonly received: string[] = [];
  reads = true;
  destroyed = false;
  readonly #listeners = new Map<string, () => void>();

  write(text: string): boolean {
    this.received.push(text);
    return this.reads;
  }

  on(event: "drain" | "close", listener: () => void): void {
    this.#listeners.set(event, listener);
  }

  destroy(): void {
    this.destroyed = true;
    this.close();
  }

  close(): void {
    this.#listeners.get("close")?.();
  }

  drain(): void {
    this.reads = true;
    this.#listeners.get("drain")?.();
  }

  get messages(): StreamMessage[] {
    const events = this.received.filter((text) => text.startsWith("data: "));
    return events.map((text) => JSON.parse(text.slice("data: ".length)) as StreamMessage);
  }
}

const row = (name: string, change: Partial<PageModuleRow> = {}): PageModuleRow => ({
  name,
  order: 1,
  enabled: true,
  state: "Ready",
  message: "in place",
  ready: "True",
  healthy: "True",
  drifted: 0,
  ...change,
});

let clock: ManualClock;
let pageState: PageState;
let refreshes: number;
/** The duration of a refresh. */
let costMs: number;
let viewModel: ViewModel;

const join = (): Viewer => {
  const viewer = new Viewer();
  viewModel.addViewer(viewer);
  return viewer;
};

const set = (modules: readonly PageModuleRow[]): void => {
  pageState = { ...pageState, modules };
  viewModel.notifyChange();
};

beforeEach(() => {
  clock = new ManualClock();
  refreshes = 0;
  costMs = 0;
  let spentMs = 0;
  pageState = {
    operator: [{ version: "1", name: "o", namespace: "n", state: "Ready", ready: "True", message: "fine" }],
    modules: [row("a"), row("b")],
    queues: [],
  };
  viewModel = new ViewModel({
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic() + spentMs,
      setTimer: (ms, fn) => clock.setTimer(ms, () => void fn()),
    },
    read() {
      refreshes += 1;
      spentMs += costMs;
      return pageState;
    },
    redact: (value) => JSON.parse(JSON.stringify(value).replaceAll("hunter2", "hidden")) as typeof value,
  });
});

describe("the view model", () => {
  it("does nothing, keeps nothing and sets no timer while no page is open", () => {
    for (let change = 0; change < 100; change++) set([row("a", { message: String(change) })]);
    expect({ refreshes, timers: clock.timers }).toEqual({ refreshes: 0, timers: 0 });
    join().close();
    const before = refreshes;
    set([row("c")]);
    expect({ refreshes, timers: clock.timers }).toEqual({ refreshes: before, timers: 0 });
    expect(viewModel.viewers).toBe(0);
  });

  it("sends a new page a snapshot, then changes", async () => {
    const viewer = join();
    expect(viewer.messages).toEqual([
      expect.objectContaining({ snapshot: true, modules: { set: [row("a"), row("b")], missing: [] } }),
    ]);
    set([row("a", { state: "Running" }), row("c")]);
    await clock.advance(100);
    expect(viewer.messages.slice(1)).toEqual([
      {
        now: expect.any(Number) as number,
        modules: { set: [row("a", { state: "Running" }), row("c")], missing: ["b"] },
      },
    ]);
  });

  it("debounces changes", async () => {
    const viewer = join();
    for (let change = 0; change < 1000; change++) set([row("a", { message: String(change) }), row("b")]);
    await clock.advance(60);
    expect(viewer.messages.length).toBe(2);
    expect(viewer.messages[1]?.modules?.set).toEqual([row("a", { message: "999" })]);
  });

  it("refreshes at once after a pause, rarely under constant change, and at least once a second", async () => {
    costMs = 20;
    join();
    await clock.advance(10_000);
    const looksWithin = async (ms: number): Promise<number> => {
      const before = refreshes;
      for (let passed = 0; passed < ms; passed += 10) {
        viewModel.notifyChange();
        await clock.advance(10);
      }
      return refreshes - before;
    };
    expect(await looksWithin(200)).toBeGreaterThanOrEqual(3);
    await looksWithin(5000);
    const often = await looksWithin(10_000);
    expect(often * costMs).toBeLessThanOrEqual(0.06 * 10_000);
    costMs = 1000;
    await looksWithin(10_000);
    expect(await looksWithin(10_000)).toBeGreaterThanOrEqual(5);
  });

  it("sends nothing if no row changed", async () => {
    const viewer = join();
    set([...pageState.modules]);
    await clock.advance(2000);
    expect(viewer.messages.length).toBe(1);
  });

  it("refreshes once more when the message mentions a run, then stops", async () => {
    const viewer = join();
    viewModel.notifyChange();
    await clock.advance(60);
    pageState = { ...pageState, modules: [row("a", { state: "Running" }), row("b")] };
    await clock.advance(1200);
    expect(viewer.messages.at(-1)?.modules?.set).toEqual([row("a", { state: "Running" })]);
    const before = refreshes;
    await clock.advance(600_000);
    expect(refreshes).toBe(before);
  });

  it("refreshes once for all pages", async () => {
    for (let page = 0; page < 20; page++) join();
    expect(refreshes).toBe(1);
    set([row("a", { state: "Pending" })]);
    await clock.advance(60);
    expect(refreshes).toBe(2);
  });

  it("redacts secrets", async () => {
    const viewer = join();
    set([row("a", { message: "failed: password hunter2" })]);
    await clock.advance(60);
    expect(viewer.received.join("")).toContain("hidden");
    expect(viewer.received.join("")).not.toContain("hunter2");
  });
});

describe("a page that is slow, disconnected or beyond the limit", () => {
  it("gets a snapshot when it reads again, and uses no memory until then", async () => {
    const viewer = join();
    viewer.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(60);
    const before = viewer.received.length;
    for (let change = 0; change < 50; change++) {
      set([row("a", { message: String(change) })]);
      await clock.advance(100);
    }
    expect(viewer.received.length).toBe(before);
    viewer.drain();
    expect(viewer.messages.at(-1)).toMatchObject({
      snapshot: true,
      modules: { set: [{ name: "a", message: "49" }] },
    });
  });

  it("is closed after a long stall, while the others get messages", async () => {
    const [dead, alive] = [join(), join()];
    dead.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(60);
    await clock.advance(STALL_TIMEOUT_MS);
    set([row("a", { message: "second" })]);
    await clock.advance(60);
    expect([dead.destroyed, alive.destroyed, viewModel.viewers]).toEqual([true, false, 1]);
    expect(alive.messages.at(-1)?.modules?.set).toEqual([row("a", { message: "second" })]);
  });

  it("is closed at the next heartbeat if nothing changes", async () => {
    const viewer = join();
    viewer.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(2 * HEARTBEAT_MS);
    expect([viewer.destroyed, viewModel.viewers, clock.timers]).toEqual([true, 0, 0]);
  });

  it("gets heartbeats while nothing changes", async () => {
    const viewer = join();
    await clock.advance(3 * HEARTBEAT_MS);
    expect(viewer.received.filter((text) => text === ":\n\n").length).toBe(3);
  });

  it("is refused", () => {
    for (let page = 0; page < MAX_STREAMS; page++) join();
    expect(viewModel.hasCapacity).toBe(false);
    viewModel.close();
    expect([viewModel.viewers, viewModel.hasCapacity, clock.timers]).toEqual([0, true, 0]);
  });
});
