import { describe, expect, it } from "vitest";

import { dumpQueues, renderQueues } from "../../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../../src/base/index.ts";
import type { Hook, Task } from "../../../src/base/model/index.ts";
import type { QueueView, TaskView } from "../../../src/engine/queue/index.ts";
import { lifecycle } from "../../hooks/build.ts";

const NOW = 1_000_000;
const AT = { now: NOW, secrets: new KnownSecrets() };

const run = (module: string): Task => ({ kind: "run-module", module, cause: { kind: "section" } });
const hook: Task = {
  kind: "hook",
  hook: { name: "discover", module: "web" } as Hook,
  trigger: lifecycle("beforeHelm"),
};

function view(task: Task, change: Partial<TaskView<Task>> = {}): TaskView<Task> {
  return { task, count: 1, failures: 0, message: undefined, nextAt: undefined, running: false, ...change };
}

const queue = (name: string, ...tasks: TaskView<Task>[]): QueueView<Task> => ({
  name,
  length: tasks.reduce((sum, each) => sum + each.count, 0),
  tasks,
});

describe("status of a queue and description of its head task", () => {
  it.each([
    [{ running: true }, "run first task", "run-module web: ConfigMap section changed"],
    [
      { running: true, failures: 2, message: "no" },
      "repeat head task",
      "run-module web: ConfigMap section changed; failed 2 times: no",
    ],
    [
      { failures: 1, message: "exit code 1", nextAt: NOW + 5000 },
      "sleep after fail, 5s left",
      "run-module web: ConfigMap section changed; failed 1 time: exit code 1; next try in 5s",
    ],
    [
      { nextAt: NOW + 3000 },
      "wait for the hook's rate limit, 3s left",
      "run-module web: ConfigMap section changed; next try in 3s",
    ],
    [{}, "waiting for task", "run-module web: ConfigMap section changed"],
    [
      { count: 3, running: true },
      "run first task",
      "run-module web: ConfigMap section changed; in 3 contexts",
    ],
    [
      { count: 2, dropped: 7 },
      "waiting for task",
      "run-module web: ConfigMap section changed; in 2 contexts; 7 later ticks dropped",
    ],
  ])("%j", (head, status, description) => {
    const { active } = dumpQueues([queue("main", view(run("web"), head))], AT);
    expect(active[0]).toMatchObject({ status, tasks: [{ index: 1, description }] });
  });

  it("says that the head task waits for a slot", () => {
    const head = view({ ...run("web"), slot: "usual" }, {});
    expect(dumpQueues([queue("module/web", head)], AT).active[0]?.status).toBe(
      "waits until fewer modules run",
    );
  });
});

describe("queue list", () => {
  const queues = [
    queue("main", view(run("web"), { running: true }), view(hook)),
    queue("side", view(hook, { count: 2 })),
    queue("spare"),
  ];

  it("counts the tasks of main and of other queues", () => {
    expect(dumpQueues(queues, AT).summary).toEqual({
      mainQueueTasks: 2,
      otherQueues: { active: 1, empty: 1, tasks: 1 },
      totalTasks: 3,
    });
  });

  it("renders text", () => {
    expect(renderQueues(dumpQueues(queues, AT, true))).toBe(`Queue 'main': length 2, status: 'run first task'

 1. run-module web: ConfigMap section changed
 2. hook web/discover: beforeHelm

Queue 'side': length 1, status: 'waiting for task'

 1. hook web/discover: beforeHelm; in 2 contexts

Empty queues (1):
- spare

Summary:
- 'main' queue: 2 tasks.
- 2 other queues (1 active, 1 empty): 1 task.
- total 3 tasks to handle.
`);
  });

  it("says that there are no tasks", () => {
    expect(renderQueues(dumpQueues([queue("main")], AT))).toBe(`Summary:
- 'main' queue: empty.
- 0 other queues (0 active, 0 empty): 0 tasks.
- no tasks to handle.
`);
  });
});
