import { describe, expect, it, onTestFinished, vi } from "vitest";

import { KnownSecrets, silentLogger } from "../../src/base/index.ts";
import { ApiError, type ApiRequest, type KubeClient } from "../../src/kube/index.ts";
import { EventWriter } from "../../src/report/index.ts";
import { ManualClock } from "../support/clock.ts";
import { refused } from "./fake-api.ts";
import { T0 } from "./views.ts";

function world(
  answer: (request: ApiRequest) => Promise<unknown> = () => Promise.resolve({}),
  uidOf: () => string | undefined = () => "uid-1",
) {
  const calls: ApiRequest[] = [];
  const client = {
    json: (request: ApiRequest) => {
      calls.push(request);
      return answer(request);
    },
  } as unknown as KubeClient;
  const clock = new ManualClock(T0);
  const options = { client, clock, logger: silentLogger, namespace: "ops", operatorName: "addon-operator" };
  const events = new EventWriter({ ...options, instance: "pod-1", uidOf, secrets: new KnownSecrets() });
  onTestFinished(() => events.close());
  return { calls, clock, events };
}

const failed = { module: "a", reason: "RunFailed", note: "hook failed:\n  https://bob:hunter2@db" } as const;

describe("EventWriter", () => {
  it("writes an Event about the module in one redacted line", async () => {
    const { calls, events } = world();
    events.record(failed);
    await events.flush();
    expect(calls[0]).toMatchObject({ method: "POST", path: "/apis/events.k8s.io/v1/namespaces/ops/events" });
    expect(calls[0]?.body).toMatchObject({
      type: "Warning",
      reason: "RunFailed",
      action: "Run",
      eventTime: "2026-01-01T00:00:00.000000Z",
      reportingInstance: "pod-1",
      regarding: { kind: "AddonModule", name: "a", namespace: "ops", uid: "uid-1" },
    });
    expect(JSON.stringify(calls[0]?.body)).not.toContain("hunter2");
  });

  it("counts what is not written yet, repetitions included", async () => {
    const { events } = world();
    expect(events.unwrittenCount).toBe(0);
    events.record(failed);
    expect(events.unwrittenCount).toBe(1);
    await events.flush();
    events.record(failed);
    expect(events.unwrittenCount).toBe(1);
    await events.flush();
    expect(events.unwrittenCount).toBe(0);
  });

  it("waits a moment for an object that is being made, so that kubectl describe shows the Event", async () => {
    let uid: string | undefined;
    const { calls, clock, events } = world(undefined, () => uid);
    events.record(failed);
    await clock.advance(1000);
    expect(calls).toEqual([]);
    uid = "uid-2";
    await clock.advance(1000);
    expect(calls[0]?.body).toMatchObject({ regarding: { uid } });
  });

  it("is written without the uid of an object that does not come, and later ones at once", async () => {
    const { calls, clock, events } = world(undefined, () => undefined);
    events.record(failed);
    await clock.advance(5100);
    expect(calls).toHaveLength(1);
    events.record({ ...failed, module: "b" });
    await clock.advance(0);
    expect(calls.map(({ body }) => JSON.stringify(body).includes("uid"))).toEqual([false, false]);
  });

  it("counts repetitions in a series instead of writing new Events", async () => {
    const { calls, clock, events } = world();
    for (let i = 0; i < 5; i++) events.record(failed);
    await clock.advance(10_000);
    await events.flush();
    expect(calls.map(({ method }) => method)).toEqual(["POST", "PATCH"]);
    expect(calls[1]?.body).toEqual({ series: { count: 5, lastObservedTime: "2026-01-01T00:00:00.000000Z" } });
    events.record({ ...failed, note: "something else" });
    await clock.advance(6 * 60_000);
    events.record(failed);
    await events.flush();
    expect(calls.map(({ method }) => method)).toEqual(["POST", "PATCH", "POST", "POST"]);
  });

  it("keeps up with the Events of a converge although each answer takes 50 ms", async () => {
    const { calls, clock, events } = world(() => new Promise((done) => clock.setTimer(50, () => done({}))));
    for (let second = 0; second < 10; second++) {
      for (let i = 0; i < 20; i++) events.record({ ...failed, module: `m${second}-${i}` });
      await clock.advance(1000);
    }
    expect(calls).toHaveLength(200);
  });

  it("writes several at once during a stop, and repetitions after their Event", async () => {
    const answers: (() => void)[] = [];
    const { calls, events } = world(() => new Promise((resolve) => answers.push(() => resolve({}))));
    for (const module of ["a", "b", "c"]) events.record({ ...failed, module });
    events.record(failed);
    const flushed = events.flush();
    await vi.waitUntil(() => calls.length === 3);
    expect(calls.map(({ method }) => method)).toEqual(["POST", "POST", "POST"]);
    for (const answer of answers.splice(0)) answer();
    await vi.waitUntil(() => calls.length === 4);
    expect(calls[3]).toMatchObject({ method: "PATCH", body: { series: { count: 2 } } });
    for (const answer of answers) answer();
    await flushed;
  });

  it("begins a new Event when the server has forgotten the old one", async () => {
    const missing = new ApiError({
      status: 404,
      reason: "NotFound",
      message: "gone",
      details: { name: "x" },
    });
    const { calls, clock, events } = world(({ method }) =>
      method === "PATCH" ? Promise.reject(missing) : Promise.resolve({}),
    );
    events.record(failed);
    events.record(failed);
    await clock.advance(10_000);
    await events.flush();
    events.record(failed);
    await events.flush();
    expect(calls.map(({ method }) => method)).toEqual(["POST", "PATCH", "POST"]);
  });

  it("drops what cannot be written, and keeps a bounded backlog", async () => {
    const { calls, events } = world(() => Promise.reject(refused()));
    for (let i = 0; i < 150; i++) events.record({ ...failed, note: `failure ${i}` });
    await events.flush();
    expect(calls.length).toBe(100);
  });
});
