import { describe, expect, it } from "vitest";

import {
  Tracer,
  currentSpan,
  newCause,
  recordFinishedSpan,
  getTaskOrigin,
  withoutActiveSpan,
  span,
} from "../../../src/base/trace/index.ts";
import type { Span } from "../../../src/base/model/index.ts";
import { ManualClock } from "../../support/clock.ts";

function traced() {
  const clock = new ManualClock(1000);
  const ended: Span[] = [];
  const tracer = new Tracer({ clock });
  tracer.addListener({ onSpanEnded: (each) => ended.push(each) });
  const start = {
    name: "run-module web",
    attributes: { module: "web" },
    module: "web",
    from: getTaskOrigin(),
  };
  return { clock, ended, tracer, start };
}

/** Names below names, as they were reported. */
function tree(spans: readonly Span[], parent?: string): unknown[] {
  const roots = spans.filter(({ parentId }) => parentId === parent);
  return roots.map(({ name, spanId }) => [name, ...tree(spans, spanId)]);
}

describe("a trace", () => {
  it("goes from what happened over the task and its waiting to hooks, helm and requests", async () => {
    const { clock, ended, tracer, start } = traced();
    const from = newCause("edit", { configMap: "ops" });
    const waitingSince = clock.now();
    await clock.advance(500);
    await tracer.task({ ...start, from, waitingSince }, async () => {
      await span({ kind: "hook", name: "web:hooks/discover" }, async (open) => {
        recordFinishedSpan({ kind: "api", name: "GET /pods" }, { ms: 0 });
        await clock.advance(200);
        open.set({ exitCode: 0 });
      });
      await span({ kind: "helm", name: "reconcile" }, () => clock.advance(1000));
    });
    await tracer.traceStatusWrite("web", "status of AddonModule web", () => clock.advance(10));
    const names = ["run-module web", ["wait in queue"], ["web:hooks/discover", ["GET /pods"]], ["reconcile"]];
    expect(tree(ended)).toEqual([["edit", [...names, ["status of AddonModule web"]]]]);
    expect(new Set(ended.map(({ traceId }) => traceId)).size).toBe(1);
    expect(ended.find(({ kind }) => kind === "hook")).toMatchObject({
      endMs: 1700,
      attributes: { exitCode: 0 },
    });
    expect(ended.find(({ kind }) => kind === "task")).toMatchObject({ startMs: 1000, endMs: 2700 });
    expect(ended.find(({ kind }) => kind === "wait")).toMatchObject({ startMs: 1000, endMs: 1500 });
  });

  it("reports what has failed", async () => {
    const { clock, ended, tracer, start } = traced();
    const failing = tracer.task({ ...start, waitingSince: clock.now() }, async () => {
      await span({ kind: "hook", name: "hook" }, async (open) => open.fail("exit code 1"));
      throw new Error("not\nhere");
    });
    await expect(failing).rejects.toThrow("not\nhere");
    expect(ended.map(({ error }) => error)).toEqual([undefined, undefined, "exit code 1", "not here"]);
  });

  it("has no part in what outlives its spans, or is done outside of them", async () => {
    const { clock, tracer, start } = traced();
    const seen: (string | undefined)[] = [];
    const { promise, resolve } = Promise.withResolvers<void>();
    let later: Promise<void> | undefined;
    await tracer.task({ ...start, waitingSince: clock.now() }, async () => {
      seen.push(
        currentSpan()?.name,
        withoutActiveSpan(() => currentSpan()?.name),
      );
      await span({ kind: "hook", name: "hook" }, async () => {
        later = promise.then(() => void seen.push(currentSpan()?.name));
        seen.push(currentSpan()?.name);
      });
      // A timer of the hook that fires when only the hook is over is the task's.
      seen.push(currentSpan()?.name);
    });
    resolve();
    await later;
    expect(seen).toEqual(["run-module web", undefined, "hook", "run-module web", undefined]);
  });

  it("takes no status that is written long after it, or belongs to another module", async () => {
    const { clock, ended, tracer, start } = traced();
    await tracer.task({ ...start, waitingSince: clock.now() }, () => clock.advance(1));
    await tracer.traceStatusWrite("db", "status of db", () => Promise.resolve());
    await clock.advance(60_000);
    await tracer.traceStatusWrite("web", "status of web", () => Promise.resolve());
    expect(ended.map(({ kind }) => kind)).toEqual(["cause", "wait", "task"]);
  });

  it("joins what happens within it, and reports a cause of several tasks once", async () => {
    const { clock, ended, tracer, start } = traced();
    const from = newCause("edit");
    for (const _ of [1, 2])
      await tracer.task({ ...start, from, waitingSince: clock.now() }, async () =>
        expect(getTaskOrigin().name).toBe("run-module web"),
      );
    expect(getTaskOrigin().name).toBe("due");
    expect(ended.filter(({ kind }) => kind === "cause").map(({ name }) => name)).toEqual(["edit"]);
    expect(new Set(ended.map(({ traceId }) => traceId)).size).toBe(1);
  });

  it("is not needed: without a task, work is simply done", async () => {
    recordFinishedSpan({ kind: "api", name: "GET" }, { ms: 1 });
    expect(await span({ kind: "hook", name: "hook" }, async (open) => (open.fail("x"), 7))).toBe(7);
    expect(currentSpan()).toBeUndefined();
  });
});
