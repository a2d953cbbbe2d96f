import { expect, test } from "vitest";

import type { AdmissionBinding } from "../../../../src/base/model/index.ts";
import { ReviewRuns } from "../../../../src/engine/tasks/reviews/answer-review.ts";
import type { AdmissionRequest } from "../../../../src/webhooks/index.ts";
import { hookWith } from "../../../hooks/build.ts";
import { ManualClock } from "../../../support/clock.ts";

const RULES = '[{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]';
const hook = hookWith(
  `configVersion: v1\nkubernetesValidating: [{name: pods.example.com, rules: ${RULES}}]`,
  "a.sh",
  "global",
);
const [binding] = hook.config.bindings.validating as [AdmissionBinding];

/** `begun` has the runs that were begun, as functions that end them. */
function lab({ runsTask }: { runsTask: boolean }) {
  const clock = new ManualClock();
  const world = { runsTask, clock, begun: [] as (() => void)[] };
  const tracer = {
    task: () => new Promise((resolve) => world.begun.push(() => resolve({ admission: { allowed: true } }))),
  };
  const runs = new ReviewRuns({
    ports: () => ({ tracer, clock }) as never,
    clock,
    limits: { waitMs: () => 0, consume: () => undefined } as never,
    concurrency: 3,
    concurrencyBesideTasks: 1,
    runsTask: () => world.runsTask,
    isFromOperator: ({ userInfo }) => Promise.resolve(userInfo["username"] === "operator"),
  });
  const send = (username: string, signal: AbortSignal) =>
    runs.admit(
      { hook, binding },
      { uid: "1", userInfo: { username } } as unknown as AdmissionRequest,
      signal,
    );
  /** Sends requests, and resolves when those that may begin have begun. */
  const sendAll = async (username: string, count: number, signal = new AbortController().signal) => {
    const answers = Array.from({ length: count }, () => send(username, signal));
    await settled();
    return answers;
  };
  return { world, sendAll };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

async function end(begun: (() => void)[], index: number): Promise<void> {
  begun[index]?.();
  await settled();
}

test("while a queue runs a task, runs for others begin one after another", async () => {
  const { world, sendAll } = lab({ runsTask: true });
  const answers = await sendAll("others", 3);
  expect(world.begun).toHaveLength(1);
  await end(world.begun, 0);
  await end(world.begun, 1);
  await end(world.begun, 2);
  expect(await Promise.all(answers)).toEqual(["", "", ""].map(() => ({ allowed: true })));
});

test.each([
  [30, 60],
  [5000, 200],
])("a run of %i ms is followed by a rest of %i ms while a queue runs a task", async (runMs, restMs) => {
  const { world, sendAll } = lab({ runsTask: true });
  const [first] = await sendAll("others", 2);
  await world.clock.advance(runMs);
  await end(world.begun, 0);
  expect(await first).toEqual({ allowed: true });
  await world.clock.advance(restMs - 1);
  expect(world.begun).toHaveLength(1);
  await world.clock.advance(1);
  expect(world.begun).toHaveLength(2);
});

test("a request whose time is over while it waits is not run", async () => {
  const { world, sendAll } = lab({ runsTask: true });
  const time = new AbortController();
  void (await sendAll("others", 1));
  const [late] = await sendAll("others", 1, time.signal);
  const outcome = late?.catch((error: unknown) => String(error));
  time.abort(new Error("no answer in time"));
  await end(world.begun, 0);
  expect(await outcome).toBe("Error: no answer in time");
  expect(world.begun).toHaveLength(1);
});

test("a request of the operator, for whose answer a task may wait, does not wait for others", async () => {
  const { world, sendAll } = lab({ runsTask: true });
  void (await sendAll("others", 2));
  const [own] = await sendAll("operator", 1);
  expect(world.begun).toHaveLength(2);
  await end(world.begun, 1);
  expect(await own).toEqual({ allowed: true });
});

test("when no queue has run a task for a second, as many begin as the setting allows", async () => {
  const { world, sendAll } = lab({ runsTask: true });
  void (await sendAll("others", 6));
  world.runsTask = false;
  await end(world.begun, 0);
  await world.clock.advance(999);
  expect(world.begun).toHaveLength(2);
  await world.clock.advance(1);
  await end(world.begun, 1);
  expect(world.begun).toHaveLength(5);
});
