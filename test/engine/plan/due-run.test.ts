import { describe, expect, it } from "vitest";

import { describeCause } from "../../../src/base/model/index.ts";
import type { Cause, Problem } from "../../../src/base/model/index.ts";
import { choosePosition, findRunCause } from "../../../src/engine/plan/index.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { basis, moduleView, release, viewOf } from "../../report/views.ts";

const PROBLEM: Problem = { file: "values.yaml", message: "no YAML" };
const ANSWERED = { handled: basis({ token: "t1" }) };
const ASKED = { requestedToken: "t2", ...ANSWERED };
const SECTION = { sectionDigest: "v1-s2" };
const VALUES = { valuesDigest: "v1-v2" };
const HOOK: Cause = { kind: "hook", by: "schedule" };
const AFTER_HELM: Cause = { kind: "hook", by: "afterHelm" };
const ABSENT = { missingObjects: ["ns/Service/x", "ns/Secret/y"] };
const MOVED = { isReleaseChangedByHand: true };

describe("whether a module run is due, and why", () => {
  it.each<readonly [string, Partial<ModuleView>, string | undefined]>([
    ["nothing happened", {}, undefined],
    ["a token asks", ASKED, "front: requested"],
    ["an answered token", { requestedToken: "t1", ...ANSWERED }, undefined],
    ["an answered token is taken away", ANSWERED, undefined],
    ["its section moved", SECTION, "front: ConfigMap section changed"],
    ["its values moved, nobody knows why", VALUES, "back: module values changed"],
    ["a hook moved its values", { ...VALUES, cause: HOOK }, "back: schedule hook changed values"],
    ["its afterHelm hook did", { ...VALUES, cause: AFTER_HELM }, "front: afterHelm hooks changed values"],
    ["a cause without moved values", { cause: HOOK }, undefined],
    ["objects are missing", ABSENT, "back: absent ns/Service/x"],
    ["its release is missing", { ...MOVED, release: undefined }, "back: release is missing"],
    [
      "its release failed by hand",
      { ...MOVED, release: release("m", { status: "failed" }) },
      "back: release is failed",
    ],
    ["its first run was cut short", { phase: "onStartup" }, "back: first run"],
    ["the same, waiting for Synchronization", { phase: "synchronization" }, "back: first run"],
    // Which reason is reported when several hold.
    ["token before section", { ...ASKED, ...SECTION }, "front: requested"],
    ["section before values", { ...SECTION, ...VALUES }, "front: ConfigMap section changed"],
    ["values before objects", { ...VALUES, ...ABSENT }, "back: module values changed"],
    ["objects before release", { ...ABSENT, ...MOVED }, "back: absent ns/Service/x"],
    // A first run does it all.
    ["a token before the first run", { ...ASKED, phase: "new" }, "back: first run"],
    [
      "everything moved before the first run",
      { ...SECTION, ...VALUES, ...ABSENT, phase: "new" },
      "back: first run",
    ],
    // What keeps it from running.
    ["off", { ...SECTION, enabled: false }, undefined],
    ["off with a release", { ...MOVED, enabled: false }, undefined],
    ["requires action", { ...SECTION, problem: PROBLEM }, undefined],
    [
      "files of it are missing",
      {
        ...SECTION,
        module: { ...moduleView("m").module, unconfirmedMissing: { since: 1, what: ["hooks"] } },
      },
      undefined,
    ],
    ["suspended, objects gone", { ...ABSENT, suspended: true }, undefined],
    ["suspended, release moved", { ...MOVED, suspended: true }, undefined],
    ["suspended, section moved", { ...SECTION, suspended: true }, "front: ConfigMap section changed"],
    // The queue's retry, not the plan, repeats a failed run.
    [
      "failed and backing off",
      { retry: { reason: "HelmFailed", message: "no", failures: 1, since: 0 } },
      undefined,
    ],
  ])("%s", (_what, change, expected) => {
    const module = moduleView("m", change);
    const cause = findRunCause(module, viewOf([module]));
    expect(cause === undefined ? undefined : `${choosePosition(cause)}: ${describeCause(cause)}`).toBe(
      expected,
    );
  });

  it.each(["beforeAll", "discovery", "modules", "afterAll"] as const)(
    "a first run is left to the converge that is in its %s phase",
    (phase) => {
      const module = moduleView("m", { phase: "new" });
      const rest = viewOf([module]);
      expect(findRunCause(module, { ...rest, converge: { ...rest.converge, phase } })).toBeUndefined();
    },
  );
});
