import { expect, test } from "vitest";

import { systemClock } from "../../../src/lib/index.ts";
import type { AdmissionBinding } from "../../../src/model/index.ts";
import { ReviewRuns } from "../../../src/tasks/reviews/answer-review.ts";
import type { AdmissionRequest } from "../../../src/webhooks/index.ts";
import { hookWith } from "../../hooks/build.ts";

const RULES = '[{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]';
const hook = hookWith(
  `configVersion: v1\nkubernetesValidating: [{name: pods.example.com, rules: ${RULES}}]`,
  "a.sh",
  "global",
);
const [binding] = hook.config.bindings.validating as [AdmissionBinding];

/** `begun` has the runs that were begun, as functions that end them. */
function lab({ runsTask }: { runsTask: boolean }) {
  const world = { runsTask, now: 10_000, begun: [] as (() => void)[] };
  const clock = { ...systemClock, monotonic: () => world.now };
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
    isOwn: ({ userInfo }) => Promise.resolve(userInfo["username"] === "operator"),
  });
  const send = (username: string) =>
    runs.admit(
      { hook, binding },
      { uid: "1", userInfo: { username } } as unknown as AdmissionRequest,
      new AbortController().signal,
    );
  /** Sends requests, and resolves when those that may begin have begun. */
  const sendAll = async (username: string, count: number) => {
    const answers = Array.from({ length: count }, () => send(username));
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
  world.now += 999;
  await end(world.begun, 0);
  expect(world.begun).toHaveLength(2);
  world.now += 1;
  await end(world.begun, 1);
  expect(world.begun).toHaveLength(5);
});
