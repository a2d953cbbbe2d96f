import { expect, test } from "vitest";

import { silentLogger } from "../../src/lib/index.ts";
import { createMetrics } from "../../src/metrics/index.ts";
import type { Happening } from "../../src/status/index.ts";
import { makeWitness } from "../../src/wiring/witness.ts";

test.each([
  ["ValuesInvalid", "ValuesInvalid"],
  ["ValuesIncomplete", "ValuesInvalid"],
  ["HookFailed", "RunFailed"],
  ["HelmFailed", "RunFailed"],
  ["ForeignRelease", "RunFailed"],
])("a failure for the reason %s is the Event %s", (reason, event) => {
  const events: Happening[] = [];
  const announce = (each: Happening): void => void events.push(each);
  const metrics = createMetrics({ prefix: "" });
  const state = { module: () => undefined } as never;
  makeWitness({ metrics, announce, logger: silentLogger, state }).failed("web", reason, "why");
  expect(events).toEqual([{ module: "web", reason: event, note: `${reason}: why` }]);
});
