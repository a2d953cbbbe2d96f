import { beforeEach, describe, expect, it } from "vitest";

import { Board, type Scene } from "../../src/ui/board.ts";
import { BEAT_MS, MOST_STREAMS, STUCK_MS, type Outlet } from "../../src/ui/streams.ts";
import type { ModuleRow, News } from "../../src/ui/wire.ts";
import { ManualClock } from "../support/clock.ts";

/** A page at the other end of a stream. */
class Viewer implements Outlet {
  readonly heard: string[] = [];
  reads = true;
  destroyed = false;
  readonly #listeners = new Map<string, () => void>();

  write(text: string): boolean {
    this.heard.push(text);
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

  get news(): News[] {
    const messages = this.heard.filter((text) => text.startsWith("data: "));
    return messages.map((text) => JSON.parse(text.slice("data: ".length)) as News);
  }
}

const row = (name: string, change: Partial<ModuleRow> = {}): ModuleRow => ({
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
let scene: Scene;
let looks: number;
/** How long a look takes. */
let costMs: number;
let board: Board;

const join = (): Viewer => {
  const viewer = new Viewer();
  board.show(viewer);
  return viewer;
};

const set = (modules: readonly ModuleRow[]): void => {
  scene = { ...scene, modules };
  board.changed();
};

beforeEach(() => {
  clock = new ManualClock();
  looks = 0;
  costMs = 0;
  let spentMs = 0;
  scene = {
    operator: [{ version: "1", name: "o", namespace: "n", state: "Ready", ready: "True", message: "fine" }],
    modules: [row("a"), row("b")],
    queues: [],
  };
  board = new Board({
    clock: {
      now: () => clock.now(),
      monotonic: () => clock.monotonic() + spentMs,
      setTimer: (ms, fn) => clock.setTimer(ms, () => void fn()),
    },
    look() {
      looks += 1;
      spentMs += costMs;
      return scene;
    },
    redact: (value) => JSON.parse(JSON.stringify(value).replaceAll("hunter2", "hidden")) as typeof value,
  });
});

describe("the board", () => {
  it("does nothing, keeps nothing and waits for nothing while nobody looks", () => {
    for (let change = 0; change < 100; change++) set([row("a", { message: String(change) })]);
    expect({ looks, timers: clock.timers }).toEqual({ looks: 0, timers: 0 });
    join().close();
    const before = looks;
    set([row("c")]);
    expect({ looks, timers: clock.timers }).toEqual({ looks: before, timers: 0 });
    expect(board.viewers).toBe(0);
  });

  it("tells a new page all, and then what has changed", async () => {
    const viewer = join();
    expect(viewer.news).toEqual([
      expect.objectContaining({ whole: true, modules: { set: [row("a"), row("b")], gone: [] } }),
    ]);
    set([row("a", { state: "Running" }), row("c")]);
    await clock.advance(100);
    expect(viewer.news.slice(1)).toEqual([
      {
        now: expect.any(Number) as number,
        modules: { set: [row("a", { state: "Running" }), row("c")], gone: ["b"] },
      },
    ]);
  });

  it("tells of many changes at once, soon after the first of them", async () => {
    const viewer = join();
    for (let change = 0; change < 1000; change++) set([row("a", { message: String(change) }), row("b")]);
    await clock.advance(60);
    expect(viewer.news.length).toBe(2);
    expect(viewer.news[1]?.modules?.set).toEqual([row("a", { message: "999" })]);
  });

  it("looks soon a few times after a rest, seldom while all changes all the time, and each second at least", async () => {
    costMs = 20;
    join();
    await clock.advance(10_000);
    const looksWithin = async (ms: number): Promise<number> => {
      const before = looks;
      for (let passed = 0; passed < ms; passed += 10) {
        board.changed();
        await clock.advance(10);
      }
      return looks - before;
    };
    expect(await looksWithin(200)).toBeGreaterThanOrEqual(3);
    await looksWithin(5000);
    const often = await looksWithin(10_000);
    expect(often * costMs).toBeLessThanOrEqual(0.06 * 10_000);
    costMs = 1000;
    await looksWithin(10_000);
    expect(await looksWithin(10_000)).toBeGreaterThanOrEqual(5);
  });

  it("says nothing where nothing is to be said", async () => {
    const viewer = join();
    set([...scene.modules]);
    await clock.advance(2000);
    expect(viewer.news.length).toBe(1);
  });

  it("looks once more when a run is old enough to be announced, and then no more", async () => {
    const viewer = join();
    board.changed();
    await clock.advance(60);
    scene = { ...scene, modules: [row("a", { state: "Running" }), row("b")] };
    await clock.advance(1200);
    expect(viewer.news.at(-1)?.modules?.set).toEqual([row("a", { state: "Running" })]);
    const before = looks;
    await clock.advance(600_000);
    expect(looks).toBe(before);
  });

  it("looks once for all pages", async () => {
    for (let page = 0; page < 20; page++) join();
    expect(looks).toBe(1);
    set([row("a", { state: "Pending" })]);
    await clock.advance(60);
    expect(looks).toBe(2);
  });

  it("tells no secret", async () => {
    const viewer = join();
    set([row("a", { message: "failed: password hunter2" })]);
    await clock.advance(60);
    expect(viewer.heard.join("")).toContain("hidden");
    expect(viewer.heard.join("")).not.toContain("hunter2");
  });
});

describe("a page that is slow, gone or one too many", () => {
  it("is told all again once it reads, and costs no memory until then", async () => {
    const viewer = join();
    viewer.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(60);
    const before = viewer.heard.length;
    for (let change = 0; change < 50; change++) {
      set([row("a", { message: String(change) })]);
      await clock.advance(100);
    }
    expect(viewer.heard.length).toBe(before);
    viewer.drain();
    expect(viewer.news.at(-1)).toMatchObject({
      whole: true,
      modules: { set: [{ name: "a", message: "49" }] },
    });
  });

  it("is let go when it has not read for long, and the others are told meanwhile", async () => {
    const [dead, alive] = [join(), join()];
    dead.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(60);
    await clock.advance(STUCK_MS);
    set([row("a", { message: "second" })]);
    await clock.advance(60);
    expect([dead.destroyed, alive.destroyed, board.viewers]).toEqual([true, false, 1]);
    expect(alive.news.at(-1)?.modules?.set).toEqual([row("a", { message: "second" })]);
  });

  it("is let go by the next beat where nothing changes", async () => {
    const viewer = join();
    viewer.reads = false;
    set([row("a", { message: "first" })]);
    await clock.advance(2 * BEAT_MS);
    expect([viewer.destroyed, board.viewers, clock.timers]).toEqual([true, 0, 0]);
  });

  it("hears from the operator although nothing happens", async () => {
    const viewer = join();
    await clock.advance(3 * BEAT_MS);
    expect(viewer.heard.filter((text) => text === ":\n\n").length).toBe(3);
  });

  it("finds no room", () => {
    for (let page = 0; page < MOST_STREAMS; page++) join();
    expect(board.hasRoom).toBe(false);
    board.close();
    expect([board.viewers, board.hasRoom, clock.timers]).toEqual([0, true, 0]);
  });
});
