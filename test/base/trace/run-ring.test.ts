import { describe, expect, it } from "vitest";

import { KnownSecrets, createLogger } from "../../../src/base/index.ts";
import type { LogEntry, LogFields, Logger } from "../../../src/base/index.ts";
import { RunRing, Tracer, getTaskOrigin, span } from "../../../src/base/trace/index.ts";
import { ManualClock } from "../../support/clock.ts";

const entry = (message: string, fields: LogFields = {}): LogEntry => ({
  level: "info",
  time: undefined,
  message,
  fields,
});

type Bounds = ConstructorParameters<typeof RunRing>[1];

class Runs {
  readonly clock = new ManualClock(1000);
  readonly ring: RunRing;
  readonly written: string[] = [];
  readonly secrets = new KnownSecrets();
  readonly logger: Logger;
  readonly #tracer: Tracer;

  constructor(bounds: Bounds = {}) {
    const { clock, secrets } = this;
    this.ring = new RunRing(clock, bounds);
    this.#tracer = new Tracer({ clock });
    this.#tracer.addListener(this.ring);
    const write = (line: string): void => void this.written.push(line);
    this.logger = createLogger({
      level: "info",
      type: "json",
      noTime: true,
      clock,
      secrets,
      context: this.ring,
      write,
    });
  }

  run(module: string, work: () => unknown = () => {}, kind = "run-module"): Promise<void> {
    const attributes = { module, kind };
    const start = {
      name: `${kind} ${module}`,
      attributes,
      module,
      from: getTaskOrigin(),
      waitingSince: this.clock.now(),
    };
    return this.#tracer.task(start, async () => void (await work()));
  }

  get modules(): unknown[] {
    return this.ring.listRuns().runs.map(({ task }) => task.attributes["module"]);
  }
}

describe("the ring of runs", () => {
  it("keeps runs with their spans and lines, and gives each line the ids of its task and trace", async () => {
    const runs = new Runs();
    await runs.run("web", async () => {
      runs.logger.info("first", { module: "web" });
      await span({ kind: "hook", name: "hook" }, async () => runs.logger.child({ hook: "x" }).warn("second"));
      runs.logger.debug("below the level");
    });
    runs.logger.info("of no run");
    const [run] = runs.ring.listRuns({ lines: true }).runs;
    const { id, task } = run ?? {};
    expect(runs.written.map((line) => JSON.parse(line) as unknown)).toEqual([
      { level: "info", msg: "first", module: "web", task: id, trace: task?.traceId },
      { level: "warn", msg: "second", hook: "x", task: id, trace: task?.traceId },
      { level: "info", msg: "of no run" },
    ]);
    expect(run).toMatchObject({
      isOver: true,
      spans: [{ kind: "wait" }, { kind: "hook" }],
      lines: [
        { level: "info", message: "first", fields: { module: "web" }, timeMs: 1000 },
        { level: "warn", message: "second", fields: { hook: "x" } },
      ],
      dropped: 0,
    });
    expect(runs.ring.getRun(id ?? "")).toEqual(run);
    expect(runs.ring.getRun("unknown")).toBeUndefined();
  });

  it("keeps no secrets that were logged", async () => {
    const runs = new Runs();
    runs.secrets.register({ password: "t0p-secret-1" });
    await runs.run("web", () => runs.logger.info("it is t0p-secret-1", { it: "t0p-secret-1" }));
    expect(JSON.stringify(runs.ring.listRuns({ lines: true }))).not.toContain("t0p-secret-1");
  });

  it("reports what has changed since a cursor, of one module or all; lines where they are asked for", async () => {
    const runs = new Runs();
    await runs.run("web");
    const { cursor } = runs.ring.listRuns();
    expect(runs.ring.listRuns({ after: cursor }).runs).toEqual([]);
    await runs.run("db", () => {
      const [now] = runs.ring.listRuns({ after: cursor }).runs;
      expect([now?.isOver, now?.task.endMs]).toEqual([false, undefined]);
    });
    expect(runs.ring.listRuns({ after: cursor }).runs.map(({ task }) => task.name)).toEqual([
      "run-module db",
    ]);
    expect(runs.ring.listRuns({ module: "web" }).runs.map(({ lines }) => lines)).toEqual([undefined]);
  });

  it("keeps the last of each kind of each module: what runs often does not push out what runs seldom", async () => {
    const runs = new Runs({ runsOfGroup: 3 });
    await runs.run("web");
    for (let each = 0; each < 10; each++) await runs.run("web", () => {}, "hook");
    expect(runs.ring.listRuns().runs.map(({ task }) => task.name)).toEqual([
      "run-module web",
      "hook web",
      "hook web",
      "hook web",
    ]);
    expect(runs.ring.listRuns({ newest: 1 }).runs.map(({ task }) => task.name)).toEqual(["hook web"]);
  });

  it("drops the oldest run, with more than it may keep", async () => {
    const runs = new Runs({ runs: 3 });
    for (const module of ["a", "b", "c", "d"]) await runs.run(module);
    expect(runs.modules).toEqual(["b", "c", "d"]);
  });

  it("drops the oldest lines of a run that says very much, then its spans, and counts them", async () => {
    const runs = new Runs({ runBytes: 3000 });
    await runs.run("web", () => {
      for (let n = 0; n < 1000; n++) runs.ring.onEntry(entry(`line ${n}`));
    });
    const [run] = runs.ring.listRuns({ lines: true }).runs;
    expect(run?.lines?.at(-1)?.message).toBe("line 999");
    expect(run?.lines?.length).toBeLessThan(30);
    expect((run?.dropped ?? 0) + (run?.lines?.length ?? 0) + (run?.spans.length ?? 0)).toBe(1001);
    expect(runs.ring.bytes).toBeLessThanOrEqual(3000);
    await runs.run("db", async () => {
      for (let n = 0; n < 1000; n++) await span({ kind: "hook", name: `hook ${n}` }, () => Promise.resolve());
    });
    expect(runs.ring.bytes).toBeLessThanOrEqual(6000);
  });

  it("never takes more than its bytes, whatever is logged, also of characters that take two", async () => {
    const runs = new Runs({ bytes: 50_000, runBytes: 20_000 });
    for (let module = 0; module < 40; module++)
      await runs.run(`m${module}`, () => {
        for (const text of ["a", "ж", "€"])
          runs.logger.info(text.repeat(100_000), { text: text.repeat(9000) });
        expect(runs.ring.bytes).toBeLessThanOrEqual(50_000);
      });
    const displayed = runs.ring.listRuns({ lines: true });
    expect(displayed.runs.at(-1)?.task.name).toBe("run-module m39");
    expect(JSON.stringify(displayed).length).toBeLessThan(50_000);
  });

  it("has 2 MiB for 1,000 modules that are run again and again", async () => {
    const runs = new Runs();
    for (let round = 0; round < 3; round++)
      for (let module = 0; module < 1000; module++)
        await runs.run(`m${module}`, () => runs.ring.onEntry(entry("x".repeat(3000))));
    expect(runs.ring.bytes).toBeLessThanOrEqual(2 * 1024 * 1024);
    expect(runs.modules.length).toBeGreaterThan(400);
  });
});
