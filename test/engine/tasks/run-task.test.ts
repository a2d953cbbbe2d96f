import { expect, test } from "vitest";

import type { Task } from "../../../src/base/model/index.ts";
import { newCause } from "../../../src/base/trace/index.ts";
import { taskQueues, type Ports } from "../../../src/engine/tasks/index.ts";
import { ManualClock, settle } from "../../support/clock.ts";

test("requests and the lease get a turn between two tasks, although neither waits for anything", async () => {
  const log: string[] = [];
  const turn = (): void => {
    log.push("turn");
    setImmediate(turn).unref();
  };
  const ports = {
    report: { taskBegan: () => {} },
    tracer: {
      task: async () => {
        log.push("task");
        return { kind: "done" };
      },
    },
  } as unknown as Ports;
  const clock = new ManualClock();
  const queues = taskQueues(() => ports, { clock, bounds: { minMs: 1, maxMs: 1 }, random: () => 0 });
  setImmediate(turn).unref();
  for (const module of ["a", "b", "c"])
    queues.offer("main", { kind: "run-module", module, cause: newCause("start") } as unknown as Task);
  await settle();
  expect(log.filter((each, at) => each === "task" && log[at - 1] === "turn")).toHaveLength(3);
});
