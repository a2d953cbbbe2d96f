import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { describe, expect, it } from "vitest";

import type { QueueTask } from "../../../src/base/model/index.ts";
import { Queues } from "../../../src/engine/queue/index.ts";
import type { Outcome, QueueAction, RunContext } from "../../../src/engine/queue/index.ts";
import { newCause } from "../../../src/base/trace/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";

interface Job extends QueueTask {
  readonly name: string;
}

const job = (name: string, extra: Partial<QueueTask> = {}): Job => ({ name, ...extra });

/** Queues whose runs end when the test says so. */
function lab(bounds = { minMs: 5000, maxMs: 30_000 }, slots?: number) {
  const clock = new ManualClock();
  const started: string[] = [];
  const endings: ((outcome: Outcome<Job>) => void)[] = [];
  const contexts: RunContext[] = [];
  const queues = new Queues<Job>({
    clock,
    bounds,
    random: () => 0,
    ...(slots === undefined ? {} : { slots }),
    run: (batch, context) => {
      started.push(batch.map((each) => each.name).join("+"));
      contexts.push(context);
      return new Promise((resolve) => {
        endings.push(resolve);
      });
    },
  });
  const end = async (outcome: Outcome<Job> = { kind: "done" }): Promise<void> => {
    endings.shift()?.(outcome);
    await settle();
  };
  return { clock, started, contexts, queues, end };
}

describe("named FIFO queues", () => {
  it("runs one task at a time in the order offered", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("a"));
    queues.offer("main", job("b"));
    await settle();
    expect(started).toEqual(["a"]);
    await end();
    expect(started).toEqual(["a", "b"]);
  });

  it("replaces waiting tasks by one at the front before any other starts, and keeps one that is next", async () => {
    const { queues, started, clock, end } = lab();
    for (const name of ["a", "b", "c"]) queues.offer("main", job(name, { key: name }));
    await settle();
    queues.replace(({ name }) => name === "b", "main", job("x", { key: "x" }));
    expect([queues.isNext("main", "x"), queues.isNext("main", "c")]).toEqual([true, false]);
    await clock.advance(100);
    await end({ kind: "retry", message: "no" });
    expect(started).toEqual(["a", "x"]);
    queues.replace(() => false, "main", job("x", { key: "x" }));
    await end();
    expect(queues.views()[0]?.tasks.map(({ task }) => task.name)).toEqual(["a", "c"]);
  });

  it("drops a task that folds while one with its key waits, and says how many", async () => {
    const { queues, started, end } = lab();
    const tick = () => queues.offer("main", job("tick", { key: "tick", foldsInto: "waiting" }));
    expect([tick(), tick(), tick(), tick()]).toEqual([true, true, false, false]);
    await settle();
    expect(queues.views()[0]?.tasks.map(({ dropped }) => dropped)).toEqual([0, 2]);
    await end();
    await end();
    expect(started).toEqual(["tick", "tick"]);
  });

  it("runs no more tasks that need a slot than there are, in the order in which they came", async () => {
    const { queues, started, end } = lab({ minMs: 5000, maxMs: 30_000 }, 2);
    for (const name of ["a", "b", "c", "d"]) queues.offer(name, job(name, { slot: "usual" }));
    queues.offer("main", job("free"));
    await settle();
    expect(started).toEqual(["a", "b", "free"]);
    await end();
    expect(started).toEqual(["a", "b", "free", "c"]);
    await end({ kind: "retry", message: "no" });
    expect(started).toEqual(["a", "b", "free", "c", "d"]);
    expect(queues.running).toBe(3);
  });

  it("keeps one slot more for what is urgent, which goes first", async () => {
    const { queues, started, end } = lab({ minMs: 5000, maxMs: 30_000 }, 1);
    for (const name of ["a", "b"]) queues.offer(name, job(name, { slot: "usual" }));
    for (const name of ["x", "y"]) queues.offer(name, job(name, { slot: "urgent" }));
    await settle();
    expect(started).toEqual(["a", "x"]);
    await end();
    expect(started).toEqual(["a", "x", "y"]);
    await end();
    expect(started).toEqual(["a", "x", "y"]);
    await end();
    expect(started).toEqual(["a", "x", "y", "b"]);
  });

  it("tries a task again only when a slot is free", async () => {
    const { queues, started, end, clock } = lab({ minMs: 5000, maxMs: 30_000 }, 1);
    queues.offer("a", job("a", { slot: "usual" }));
    await settle();
    await end({ kind: "retry", message: "no" });
    queues.offer("b", job("b", { slot: "usual" }));
    await clock.advance(10_000);
    expect(started).toEqual(["a", "b"]);
    expect(queues.views().find(({ name }) => name === "a")?.tasks[0]?.nextAt).toBeUndefined();
    await end();
    expect(started).toEqual(["a", "b", "a"]);
  });

  it("waits for runs that it interrupts, even where an earlier interruption is not wanted any more", async () => {
    const { queues, contexts, end, clock } = lab();
    queues.offer("main", job("a"));
    await settle();
    let [wanted, over] = [true, false];
    queues.interrupt(() => wanted, "why");
    wanted = false;
    void queues.interruptAndWait(() => true, "why").then(() => (over = true));
    await clock.advance(3000);
    expect([contexts[0]?.signal.aborted, over]).toEqual([true, false]);
    await end({ kind: "cancelled" });
    expect(over).toBe(true);
    await queues.interruptAndWait(() => true, "why");
  });

  it("runs queues side by side", async () => {
    const { queues, started } = lab();
    queues.offer("main", job("a"));
    queues.offer("slow", job("b"));
    await settle();
    expect(started).toEqual(["a", "b"]);
  });

  it("retries the head after 5, 6, 7, 9, 13, 21, 30, 30 s and blocks its own queue only", async () => {
    const { queues, started, end, clock } = lab();
    queues.offer("main", job("bad"));
    queues.offer("main", job("next"));
    await settle();
    for (const seconds of [5, 6, 7, 9, 13, 21, 30, 30]) {
      const before = started.length;
      await end({ kind: "retry", message: "no" });
      await clock.advance(seconds * 1000 - 1);
      expect(started.length).toBe(before);
      await clock.advance(1);
      expect(started.length).toBe(before + 1);
    }
    queues.offer("other", job("free"));
    await settle();
    expect(started.at(-1)).toBe("free");
  });

  it("puts a front task before a head that backs off, and keeps the back-off", async () => {
    const { queues, started, end, clock } = lab();
    queues.offer("main", job("bad"));
    await settle();
    await end({ kind: "retry", message: "no" });
    queues.offer("main", job("config"), "front");
    await settle();
    expect(started).toEqual(["bad", "config"]);
    await end();
    await clock.advance(4999);
    expect(started).toEqual(["bad", "config"]);
    await clock.advance(1);
    expect(started).toEqual(["bad", "config", "bad"]);
  });

  it("puts a front task behind a running head", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("running"));
    queues.offer("main", job("later"));
    await settle();
    queues.offer("main", job("config"), "front");
    await end();
    await end();
    expect(started).toEqual(["running", "config", "later"]);
  });

  it.each([[["running"]], [[]]])(
    "keeps the order of tasks that come to the front together, behind %j",
    async (before) => {
      const { queues, started, end } = lab();
      for (const name of before) queues.offer("main", job(name));
      await settle();
      for (const name of ["first", "second"]) queues.offer("main", job(name), "front");
      await settle();
      for (const _ of [...before, "first"]) await end();
      expect(started).toEqual([...before, "first", "second"]);
    },
  );

  it("runs front tasks in the order offered, before all others and behind what is first", async () => {
    const { queues, started, end, clock } = lab();
    for (const name of ["running", "later", "moved"]) queues.offer("main", job(name, { key: name }));
    await settle();
    queues.offer("main", job("one", { key: "one" }), "front");
    queues.offer("main", job("two"), "front");
    queues.replace(({ name }) => name === "moved", "main", job("moved", { key: "moved" }), "front");
    queues.offer("main", job("converge"), "first");
    queues.offer("main", job("three"), "front");
    await end({ kind: "retry", message: "no" });
    await end();
    // One that failed is in front no more.
    await end({ kind: "retry", message: "no" });
    for (let count = 0; count < 4; count++) await end();
    await clock.advance(5000);
    expect(started).toEqual(["running", "converge", "one", "two", "moved", "three", "one"]);
  });

  it("runs expanded tasks first and the expanding one again after them", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("reload"));
    queues.offer("main", job("event"));
    await settle();
    await end({ kind: "expand", tasks: [job("x"), job("y")] });
    await end();
    await end();
    await end();
    expect(started).toEqual(["reload", "x", "y", "reload", "event"]);
  });

  it("folds a key that waits or runs", async () => {
    const { queues, started, end } = lab();
    expect(queues.offer("main", job("m", { key: "run/m" }))).toBe(true);
    await settle();
    expect(queues.offer("main", job("m", { key: "run/m" }))).toBe(false);
    await end();
    expect(queues.offer("main", job("m", { key: "run/m" }))).toBe(true);
    await settle();
    expect(started).toEqual(["m", "m"]);
  });

  it("takes expanded tasks for what waits under their keys already", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("parent"));
    await settle();
    queues.offer("main", job("early", { key: "k" }));
    await end({ kind: "expand", tasks: [job("child", { key: "k" })] });
    await end();
    await end();
    expect(started).toEqual(["parent", "child", "parent"]);
    expect(queues.views()[0]?.length).toBe(0);
  });

  it("hands neighbours of one batch over together, also those that came during a back-off", async () => {
    const { queues, started, end, clock } = lab();
    for (const name of ["z", "a", "b"]) queues.offer("main", job(name, name === "z" ? {} : { batch: "h1" }));
    queues.offer("main", job("other", { batch: "h2" }));
    queues.offer("main", job("c", { batch: "h1" }));
    await settle();
    await end();
    expect(started.at(-1)).toBe("a+b");
    await end({ kind: "retry", message: "no" });
    queues.remove((task) => task.batch === "h2");
    await clock.advance(5000);
    expect(started.at(-1)).toBe("a+b+c");
  });

  it("folds thousands of tasks of one batch among others into few runs", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("first"));
    for (let n = 0; n < 2000; n++) queues.offer("main", job("e", { batch: n % 2 === 0 ? "h1" : "h2" }));
    let runs = 0;
    await settle();
    while (queues.views()[0]?.length !== 0) {
      await end();
      runs++;
    }
    expect(runs).toBeLessThan(60);
    expect(started.join("+").split("+").length).toBe(2001);
  });

  it("ends a back-off on request", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("bad"));
    await settle();
    await end({ kind: "retry", message: "no" });
    queues.retryNow((task) => task.name === "bad");
    await settle();
    expect(started).toEqual(["bad", "bad"]);
  });

  it("reports failures, message and next try", async () => {
    const { queues, end, clock } = lab();
    queues.offer("main", job("bad"));
    await settle();
    await end({ kind: "retry", message: "exit code 1" });
    expect(queues.views()[0]?.tasks[0]).toMatchObject({
      failures: 1,
      message: "exit code 1",
      nextAt: clock.now() + 5000,
      running: false,
    });
  });

  it("takes a throwing runner as a failure", async () => {
    const clock = new ManualClock();
    const queues = new Queues<Job>({
      clock,
      bounds: { minMs: 1, maxMs: 1 },
      random: () => 0,
      run: () => Promise.reject(new Error("boom")),
    });
    queues.offer("main", job("a"));
    await settle();
    expect(queues.views()[0]?.tasks[0]?.message).toBe("boom");
  });

  it("puts a head that fails behind what was put to the front while it ran", async () => {
    const { queues, started, end, clock } = lab();
    queues.offer("main", job("bad"));
    queues.offer("main", job("later"));
    await settle();
    queues.offer("main", job("edit"), "front");
    await end({ kind: "retry", message: "no" });
    expect(started).toEqual(["bad", "edit"]);
    await end();
    expect(started).toEqual(["bad", "edit"]);
    await clock.advance(5000);
    expect(started).toEqual(["bad", "edit", "bad"]);
  });

  it("stops: starts nothing more, waits for what runs, aborts it after the grace", async () => {
    const { queues, started, end, clock, contexts } = lab();
    queues.offer("main", job("a"));
    queues.offer("main", job("b"));
    await settle();
    const stopped = queues.stop(30_000);
    await clock.advance(29_999);
    expect(contexts[0]?.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(contexts[0]?.signal.aborted).toBe(true);
    await end();
    await stopped;
    expect(started).toEqual(["a"]);
  });

  it("waits for a rate limit before folding", async () => {
    const clock = new ManualClock();
    const started: string[] = [];
    let allowedAt = clock.now() + 3000;
    const queues = new Queues<Job>({
      clock,
      bounds: { minMs: 1, maxMs: 1 },
      random: () => 0,
      limits: { waitMs: () => allowedAt - clock.now(), consume: () => {} },
      run: (batch) => {
        allowedAt = clock.now() + 3000;
        started.push(batch.map((each) => each.name).join("+"));
        return Promise.resolve({ kind: "done" });
      },
    });
    queues.offer("main", job("a", { batch: "h" }));
    const due = clock.now() + 3000;
    await clock.advance(1000);
    queues.offer("main", job("b", { batch: "h" }));
    expect(queues.views()[0]?.tasks[0]).toMatchObject({ failures: 0, nextAt: due });
    await clock.advance(2000);
    expect(started).toEqual(["a+b"]);
  });

  it("reports how long work on a queue itself took", async () => {
    /** Each look at it is a millisecond. */
    class TickingClock extends ManualClock {
      #ticks = 0;
      override monotonic(): number {
        return (this.#ticks += 1);
      }
    }
    const acted: string[] = [];
    const queueChanged = (queue: string, action: QueueAction, ms: number): void =>
      void acted.push(`${queue} ${action} ${ms}`);
    const outcomes: Outcome<Job>[] = [{ kind: "expand", tasks: [job("first")] }];
    const queues = new Queues<Job>({
      clock: new TickingClock(),
      bounds: { minMs: 1, maxMs: 1 },
      random: () => 0,
      run: () => Promise.resolve(outcomes.shift() ?? { kind: "done" }),
      report: { queueChanged, taskDropped: () => {} },
    });
    queues.offer("main", job("a", { key: "a" }));
    expect(queues.offer("main", job("a", { key: "a" }))).toBe(false);
    queues.offer("side", job("b"), "front");
    queues.remove(() => false);
    expect(acted).toEqual(["main AddLast 1", "side AddFirst 1", "main Filter 1", "side Filter 1"]);
    await settle();
    const inMain = acted.slice(4).filter((each) => each.startsWith("main"));
    expect(inMain).toEqual([
      "main GetFirst 1",
      "main AddFirst 1",
      "main GetFirst 1",
      "main RemoveFirst 1",
      "main GetFirst 1",
      "main RemoveFirst 1",
    ]);
    // Nothing is looked through where nothing waits.
    const before = acted.length;
    queues.remove(() => true);
    expect(acted.length).toBe(before);
  });

  it("puts a head that fails behind all that was put to the front while it ran", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("bad"));
    await settle();
    queues.offer("main", job("edit"), "front");
    await end({ kind: "retry", message: "no" });
    expect(started).toEqual(["bad", "edit"]);
  });

  it("drops a cancelled task and goes on with the next", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("a"));
    queues.offer("main", job("b"));
    await settle();
    await end({ kind: "cancelled" });
    await end();
    expect(started).toEqual(["a", "b"]);
    expect(queues.views()[0]?.length).toBe(0);
  });

  it("knows a key that was folded into a batch", async () => {
    const { queues, end } = lab();
    for (const key of ["k1", "k2"]) queues.offer("main", job(key, { key, batch: "h" }));
    await settle();
    expect(queues.offer("main", job("again", { key: "k1" }))).toBe(false);
    await end({ kind: "retry", message: "no" });
    const failed = async (key: string) => (await queues.whenSettled(key, "tried"))?.message;
    expect([await failed("k1"), await failed("k2"), await failed("k3")]).toEqual(["no", "no", undefined]);
  });

  it("ends a back-off and a run for any task of a batch", async () => {
    const { queues, started, contexts, end } = lab();
    for (const name of ["a", "b"]) queues.offer("main", job(name, { batch: "h" }));
    await settle();
    await end({ kind: "retry", message: "no" });
    queues.retryNow((task) => task.name === "b");
    await settle();
    expect(started).toEqual(["a+b", "a+b"]);
    queues.interrupt((task) => task.name === "b", "why", 0);
    expect(contexts[1]?.signal.aborted).toBe(true);
  });

  it("ends a run only when it has taken as long as it may, and never the next one", async () => {
    const { queues, contexts, end, clock } = lab();
    const all = (): boolean => true;
    queues.offer("main", job("short"));
    queues.offer("main", job("long"));
    await clock.advance(1000);
    queues.interrupt(all, "why", 3000);
    await end();
    await clock.advance(2999);
    queues.interrupt(all, "why", 3000);
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([false, false]);
    await clock.advance(1);
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([false, true]);
  });

  it("lets a run go on that does not match any more when its time is over", async () => {
    const { queues, contexts, clock } = lab();
    let matches = true;
    queues.offer("main", job("a"));
    await clock.advance(1000);
    queues.interrupt(() => matches, "why", 3000);
    matches = false;
    await clock.advance(5000);
    expect(contexts[0]?.signal.aborted).toBe(false);
  });

  it("ends a run that has taken exactly as long as it may at once", async () => {
    const { queues, contexts, clock } = lab();
    queues.offer("main", job("a"));
    await clock.advance(3000);
    queues.interrupt(() => true, "why", 3000);
    expect(contexts[0]?.signal.aborted).toBe(true);
  });

  it("does not let go what runs while a flood of its batch comes, nor folds what belongs to no batch", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("runs", { batch: "h" }));
    await settle();
    queues.offer("main", job("between"));
    for (let n = 0; n < 150; n++) queues.offer("main", job("e", { batch: "h" }));
    for (let n = 0; n < 150; n++) queues.offer("main", job("lone"));
    while (queues.views()[0]?.length !== 0) await end();
    expect(started.slice(0, 2)).toEqual(["runs", "between"]);
    expect(started[2]?.split("+").length).toBe(150);
    expect(started.slice(3)).toEqual(Array.from({ length: 150 }, () => "lone"));
  });

  it("compacts a flood of a batch, but not across one of its tasks that runs alone", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("runs"));
    await settle();
    queues.offer("main", job("before", { batch: "h" }));
    queues.offer("main", job("between"));
    queues.offer("main", job("alone", { batch: "h", alone: true }));
    for (let n = 0; n < 150; n++) {
      queues.offer("main", job("after", { batch: "h" }));
      queues.offer("main", job("lone"));
    }
    while (queues.views()[0]?.length !== 0) await end();
    expect(started.slice(0, 4)).toEqual(["runs", "before", "between", "alone"]);
    expect(started.filter((names) => names.startsWith("after")).length).toBeLessThan(100);
  });

  it("asks the rate limit also when a back-off is over", async () => {
    const clock = new ManualClock();
    let runs = 0;
    let requested = 0;
    let taken = 0;
    const queues = new Queues<Job>({
      clock,
      bounds: { minMs: 5000, maxMs: 5000 },
      random: () => 0,
      limits: { waitMs: () => ((requested += 1), 0), consume: () => void (taken += 1) },
      run: () => Promise.resolve((runs += 1) < 3 ? { kind: "retry", message: "no" } : { kind: "done" }),
    });
    queues.offer("main", job("a"));
    await clock.advance(10_000);
    expect([runs, requested, taken]).toEqual([3, 3, 3]);
  });

  it("reports how long the oldest of a batch waited and how often it failed", async () => {
    const { queues, contexts, end, clock } = lab();
    queues.offer("main", job("first"));
    await clock.advance(1000);
    queues.offer("main", job("a", { batch: "h" }));
    queues.offer("main", job("b", { batch: "h" }));
    await clock.advance(2000);
    await end();
    await end({ kind: "retry", message: "no" });
    await clock.advance(5000);
    const reported = contexts.map(({ queue, waitedMs, failures }) => ({ queue, waitedMs, failures }));
    expect(reported).toEqual([
      { queue: "main", waitedMs: 0, failures: 0 },
      { queue: "main", waitedMs: 2000, failures: 0 },
      { queue: "main", waitedMs: 7000, failures: 1 },
    ]);
  });

  it("reports what a task followed from, also those that it is followed by, and since when it waits", async () => {
    const { queues, contexts, end, clock } = lab();
    queues.offer("main", job("a", { origin: newCause("edit") }));
    await settle();
    await clock.advance(1000);
    await end({ kind: "expand", tasks: [job("step")] });
    await end();
    await end({ kind: "retry", message: "no" });
    await clock.advance(5000);
    expect(contexts.map(({ from }) => from?.name)).toEqual(["edit", "edit", "edit", "edit"]);
    const begin = contexts[0]?.waitingSince ?? 0;
    expect(contexts.map(({ waitingSince }) => waitingSince - begin)).toEqual([0, 1000, 1000, 1000]);
  });

  it("takes nothing for a follower of a task that is offered when another ends", async () => {
    const clock = new ManualClock();
    const from: string[] = [];
    const queues: Queues<Job> = new Queues<Job>({
      clock,
      bounds: { minMs: 5000, maxMs: 30_000 },
      random: () => 0,
      run: async (_, context) => (from.push(context.from.name), { kind: "done" }),
      onEnd: ([task]) => task?.name === "a" && queues.offer("main", job("b")),
    });
    queues.offer("main", job("a", { origin: newCause("edit") }));
    await settle();
    expect(from).toEqual(["edit", "due"]);
  });

  it("lets a flood of one batch pause for 10 ms before the next run, but not for more than 20 ms", async () => {
    const { queues, started, end, clock } = lab();
    const offer = (name: string, batch = "h"): boolean => queues.offer("main", job(name, { batch }));
    offer("0");
    await settle();
    expect(started).toEqual(["0"]);
    offer("1");
    await clock.advance(1);
    await end();
    await clock.advance(8);
    offer("2");
    await clock.advance(9);
    expect(started).toEqual(["0"]);
    await clock.advance(1);
    expect(started).toEqual(["0", "1+2"]);

    offer("3");
    await clock.advance(1);
    await end();
    for (let ms = 0; ms < 15; ms += 5) {
      await clock.advance(5);
      offer("f");
    }
    expect(started).toHaveLength(2);
    await clock.advance(5);
    expect(started).toHaveLength(3);
  });

  it.each([
    ["the last task came long enough ago", [["a", 10]], undefined],
    [
      "another batch waits behind it",
      [
        ["a", 0],
        ["b", 0],
      ],
      undefined,
    ],
    ["it is tried again", [["a", 0]], { kind: "retry", message: "no", delayMs: 1 }],
  ] as const)("starts at once after a run when %s", async (_, offers, failure) => {
    const { queues, started, end, clock } = lab();
    queues.offer("main", job("first", { batch: "a" }));
    await settle();
    for (const [batch, ms] of offers) {
      queues.offer("main", job("next", { batch }));
      await clock.advance(ms);
    }
    await end(failure);
    await clock.advance(1);
    expect(started).toHaveLength(2);
  });

  it("shows main first and the others by name", () => {
    const { queues } = lab();
    for (const name of ["b", "c", "main", "a"]) queues.offer(name, job("x"));
    expect(queues.views().map(({ name }) => name)).toEqual(["main", "a", "b", "c"]);
  });

  it("reports each change once it can be seen, and what a run was", async () => {
    const clock = new ManualClock();
    const seen: string[] = [];
    const outcomes: Outcome<Job>[] = [{ kind: "retry", message: "no" }];
    const queues: Queues<Job> = new Queues<Job>({
      clock,
      bounds: { minMs: 5000, maxMs: 5000 },
      random: () => 0,
      run: () => Promise.resolve(outcomes.shift() ?? { kind: "done" }),
      onChange: (queue) => {
        const view = queues.views().find(({ name }) => name === queue);
        const states = view?.tasks.map((each) => {
          const state = each.running ? "runs" : each.nextAt === undefined ? "waits" : "backs off";
          return `${each.task.name}×${each.count} ${state}`;
        });
        seen.push(`${queue}: ${states?.join(", ")}`);
      },
      onEnd: (batch, outcome) => void seen.push(`${batch.map(({ name }) => name).join("+")} ${outcome.kind}`),
    });
    queues.offer("main", job("a", { batch: "h" }));
    queues.offer("main", job("b", { batch: "h" }));
    await settle();
    queues.offer("main", job("c"));
    queues.remove(({ name }) => name === "none");
    queues.remove(({ name }) => name === "c");
    queues.retryNow(({ name }) => name === "none");
    queues.retryNow(({ name }) => name === "a");
    await settle();
    expect(seen).toEqual([
      "main: a×1 waits",
      "main: a×1 runs",
      "main: a×1 runs, b×1 waits",
      "main: a×2 runs",
      "a+b retry",
      "main: a×2 backs off",
      "main: a×2 backs off, c×1 waits",
      "main: a×2 backs off",
      "main: a×2 waits",
      "main: a×2 runs",
      "main: a×2 runs",
      "a+b done",
      "main: ",
    ]);
  });

  it("starts what a removed head kept waiting", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("bad"));
    queues.offer("main", job("next"));
    await settle();
    await end({ kind: "retry", message: "no" });
    queues.remove(({ name }) => name === "bad");
    await settle();
    expect(started).toEqual(["bad", "next"]);
  });

  it("stops at once when nothing runs, and leaves no timer behind", async () => {
    const { queues, end, clock } = lab();
    queues.offer("main", job("a"));
    await settle();
    await end({ kind: "retry", message: "no" });
    await queues.stop(30_000);
    expect(clock.nextTimerAt).toBeUndefined();
  });

  it("stops when the last run has ended, before the grace is over too", async () => {
    const { queues, contexts, end, clock } = lab();
    queues.offer("main", job("a"));
    queues.offer("side", job("b"));
    await settle();
    let stopped = false;
    const stopping = queues.stop(30_000).then(() => {
      stopped = true;
    });
    await end();
    expect(stopped).toBe(false);
    await end();
    await stopping;
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([false, false]);
    expect(clock.nextTimerAt).toBeUndefined();
  });
});

describe("a wall clock that is set while a task is backed off", () => {
  const HOUR = 3_600_000;

  it.each([
    ["back", -48 * HOUR],
    ["ahead", 48 * HOUR],
  ])("%s: the next try comes when it would, and is shown in the new time", async (_, ms) => {
    const { queues, clock, started, end } = lab();
    queues.offer("main", job("a"));
    await settle();
    await end({ kind: "retry", message: "no" });
    clock.setWall(ms);
    expect(queues.views()[0]?.tasks[0]?.nextAt).toBe(clock.now() + 5000);
    queues.offer("main", job("b"));
    await clock.advance(4999);
    expect(started).toEqual(["a"]);
    await clock.advance(1);
    expect(started).toEqual(["a", "a"]);
  });
});

it("keeps no task of a run that has ended", async () => {
  const { queues, contexts, end } = lab();
  const offer = (): WeakRef<Job> => {
    const task = job("a");
    queues.offer("main", task);
    return new WeakRef(task);
  };
  const task = offer();
  await settle();
  await end();
  contexts.length = 0;
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  // A WeakRef keeps its target until the end of the current turn of the event loop.
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(task.deref()).toBeUndefined();
  // The queues themselves are still in use.
  expect(queues.running).toBe(0);
});
