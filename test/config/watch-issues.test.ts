import { expect, test } from "vitest";

import { WatchIssues } from "../../src/config/index.ts";
import { ManualClock } from "../support/clock.ts";

function lab() {
  const clock = new ManualClock();
  const recorded: unknown[] = [];
  const record = (_: string, watchIssues: readonly string[]): void => void recorded.push(watchIssues);
  const issues = new WatchIssues({ clock, state: { record } as never });
  return { clock, recorded, issues };
}

test("a watch that fails for a moment is no issue, and one that fails for long is one until it works", async () => {
  const { clock, recorded, issues } = lab();
  issues.report("ConfigMap cm", new Error("cut"));
  await clock.advance(9999);
  issues.report("ConfigMap cm", undefined);
  await clock.advance(60_000);
  expect(recorded).toEqual([]);
  issues.report("ConfigMap cm", new Error("cut"));
  issues.report("ConfigMap cm", new Error("forbidden"));
  issues.report("Helm releases in ops", new Error("cut"));
  await clock.advance(10_000);
  expect(recorded.at(-1)).toEqual([
    "ConfigMap cm cannot be watched: forbidden",
    "Helm releases in ops cannot be watched: cut",
  ]);
  issues.report("ConfigMap cm", new Error("a login page"));
  expect(recorded.at(-1)).toContain("ConfigMap cm cannot be watched: a login page");
  issues.report("ConfigMap cm", undefined);
  issues.report("Helm releases in ops", undefined);
  expect(recorded.at(-1)).toEqual([]);
});
