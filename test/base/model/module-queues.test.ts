import { expect, it } from "vitest";

import { ModuleQueues, ownQueueOf } from "../../../src/base/model/index.ts";

it("main is a single slot for all modules", () => {
  const queues = new ModuleQueues("main", 10);
  expect([queues.queueOf("web"), queues.queueOf(undefined)]).toEqual(["main", "main"]);
  expect([queues.hasOwnQueue("web"), queues.slots]).toEqual([false, 1]);
  expect(new ModuleQueues()).toEqual(new ModuleQueues("main"));
});

it("queues of their own share as many slots as modules may run at once, and global hooks stay in main", () => {
  const queues = new ModuleQueues("own", 10);
  expect([queues.queueOf("web"), queues.queueOf(undefined)]).toEqual(["module/web", "main"]);
  expect([queues.hasOwnQueue("web"), queues.slots]).toEqual([true, 10]);
  expect(ownQueueOf("web")).toBe("module/web");
});
