import { expect, test } from "vitest";

import { confineQueues } from "../../../src/hooks/config/confine-queues.ts";
import { hookWith } from "../build.ts";

/** The queues of a hook of the module `a` with schedules in these queues, or the errors. */
function confined(queues: readonly (string | undefined)[], ownQueue = "main"): readonly string[] {
  const schedule = queues.map((queue) => ({ crontab: "* * * * *", queue }));
  const { config } = hookWith(JSON.stringify({ configVersion: "v1", schedule }));
  const answer = confineQueues({ hooks: [{ config }], warnings: [] }, { module: "a", ownQueue });
  if ("errors" in answer) return answer.errors;
  return answer.hooks.flatMap((hook) => hook.config.bindings.schedule.map(({ queue }) => queue));
}

test("a queue of a module with an account is the module's alone", () => {
  expect(confined([undefined, "main", "backup", "module/a", "module/a/backup", "readiness/a"])).toEqual([
    "main",
    "main",
    "module/a/backup",
    "module/a",
    "module/a/backup",
    "readiness/a",
  ]);
  expect(confined(["main", "module/a"], "module/a")).toEqual(["module/a", "module/a"]);
});

test("the queue of another module is refused", () => {
  for (const queue of ["module/b", "readiness/b", "module/", "module/ab", "module/b/backup"])
    expect(confined(["own", queue])).toEqual([
      `schedule[1].queue is not allowed: "${queue}" is a queue of another module`,
    ]);
});
