import { describe, expect, it } from "vitest";

import { Queues } from "../../src/queue/index.ts";
import type { Outcome, QueueAction, QueueTask, RunContext } from "../../src/queue/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

interface Job extends QueueTask {
  readonly name: string;
}

const job = (name: string, extra: Partial<QueueTask> = {}): Job => ({ name, ...extra });

/** Queues whose runs end when the test says so. */
function lab(bounds = { minMs: 5000, maxMs: 30_000 }) {
  const clock = new ManualClock();
  const started: string[] = [];
  const endings: ((outcome: Outcome<Job>) => void)[] = [];
  const contexts: RunContext[] = [];
  const queues = new Queues<Job>({
    clock,
    bounds,
    random: () => 0,
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

describe("named FIFO queues (LIFECYCLE: Task queues)", () => {
  it("runs one task at a time in the order offered", async () => {
    const { queues, started, end } = lab();
    queues.offer("main", job("a"));
    queues.offer("main", job("b"));
    await settle();
    expect(started).toEqual(["a"]);
    await end();
    expect(started).toEqual(["a", "b"]);
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
    queues.hurry((task) => task.name === "bad");
    await settle();
    expect(started).toEqual(["bad", "bad"]);
  });

  it("tells failures, message and next try", async () => {
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
      delay: () => allowedAt - clock.now(),
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

  it("tells how long work on a queue itself took", async () => {
    /** Each look at it is a millisecond. */
    class TickingClock extends ManualClock {
      #ticks = 0;
      override monotonic(): number {
        return (this.#ticks += 1);
      }
    }
    const acted: string[] = [];
    const onAction = (queue: string, action: QueueAction, ms: number): void =>
      void acted.push(`${queue} ${action} ${ms}`);
    const outcomes: Outcome<Job>[] = [{ kind: "expand", tasks: [job("first")] }];
    const queues = new Queues<Job>({
      clock: new TickingClock(),
      bounds: { minMs: 1, maxMs: 1 },
      random: () => 0,
      run: () => Promise.resolve(outcomes.shift() ?? { kind: "done" }),
      onAction,
    });
    queues.offer("main", job("a", { key: "a" }));
    expect(queues.offer("main", job("a", { key: "a" }))).toBe(false);
    queues.offer("side", job("b"), "front");
    queues.remove(() => false, "side");
    queues.remove(() => false, "none");
    expect(acted).toEqual(["main AddLast 1", "side AddFirst 1", "side Filter 1"]);
    await settle();
    const inMain = acted.slice(3).filter((each) => each.startsWith("main"));
    expect(inMain).toEqual([
      "main GetFirst 1",
      "main AddFirst 1",
      "main GetFirst 1",
      "main RemoveFirst 1",
      "main GetFirst 1",
      "main RemoveFirst 1",
    ]);
  });
});
