import { describe, expect, it } from "vitest";

import { describeCause } from "../../../src/base/model/index.ts";
import {
  hasGlobalConfigChanged,
  choosePosition,
  findConvergeCause,
  findRestartCause,
} from "../../../src/engine/plan/index.ts";
import type { ConvergePhase, ModuleView, View } from "../../../src/engine/state/index.ts";
import { basis, moduleView, viewOf } from "../../report/views.ts";

const NOW = { globalConfig: "c1", globals: "g1" };
const PROBLEM = { file: "values.yaml", message: "no YAML" };
const MODULE_ASKED = { requestedToken: "t2", handled: basis({ token: "t1" }) };
const ASKED = { requestedToken: "t2", handledToken: "t1" };

const HELD = {
  modules: ["m0"],
  covers: ["m0 u"],
  moves: [],
  isExceeded: true,
  removed: 0,
  installed: 1,
  token: "7",
  confirmed: false,
};

/** A world at rest that the last converge used. */
function world(change: Partial<View> = {}, modules: readonly Partial<ModuleView>[] = []): View {
  const rest = viewOf(
    modules.map((each, index) => moduleView(`m${index}`, each)),
    { secondCheck: false, globalCause: undefined, convergeDigests: NOW },
  );
  return { ...rest, converge: { ...rest.converge, handled: NOW }, ...change };
}

const moved = (what: Partial<typeof NOW>): Partial<View> => ({ convergeDigests: { ...NOW, ...what } });

describe("whether a converge is due, and why", () => {
  it.each<readonly [string, View, string | undefined]>([
    ["nothing happened", world(), undefined],
    ["no converge was yet", { ...world(), converge: viewOf([]).converge }, "front: start-up"],
    ["a token requests the operator", world(ASKED), "front: requested"],
    ["an answered token is taken away", world({ handledToken: "t1" }), undefined],
    ["a token requests a module that is on", world({}, [MODULE_ASKED]), undefined],
    [
      "a token requests a module that is off",
      world({}, [{ ...MODULE_ASKED, enabled: false }]),
      "front: requested",
    ],
    [
      "a token requests a module that requires action",
      world({}, [{ ...MODULE_ASKED, problem: PROBLEM }]),
      "front: requested",
    ],
    [
      "the section of a module that requires action was edited",
      world({}, [{ problem: PROBLEM, sectionDigest: "v1-s2" }]),
      "front: ConfigMap changed",
    ],
    [
      "the section of a module that is off was edited",
      world({}, [{ enabled: false, problem: PROBLEM, sectionDigest: "v1-s2" }]),
      undefined,
    ],
    [
      "a held removal is confirmed",
      world({ deletionLimit: HELD, confirmation: "7" }),
      "front: a removal was confirmed",
    ],
    ["another version is confirmed", world({ deletionLimit: HELD, confirmation: "6" }), undefined],
    [
      "what was confirmed goes on",
      world({ deletionLimit: { ...HELD, confirmed: true }, confirmation: "7" }),
      undefined,
    ],
    [
      "the ConfigMap's globals or flags moved",
      world(moved({ globalConfig: "c2" })),
      "front: ConfigMap changed",
    ],
    ["merged globals or flags moved", world(moved({ globals: "g2" })), "back: global values changed"],
    [
      "a hook moved them",
      world({
        ...moved({ globals: "g2" }),
        globalCause: { kind: "hook", by: "schedule" },
      }),
      "back: schedule hook changed values",
    ],
    [
      "discovery has not said yet what it took into account",
      { ...world(), converge: { ...world().converge, handled: { globalConfig: "c1", globals: undefined } } },
      undefined,
    ],
    ["a cause without a move", world({ globalCause: { kind: "globals" } }), undefined],
    ["something was missed", world({ secondCheck: true }), "back: second check of what was missing"],
    ["request before ConfigMap", world({ ...ASKED, ...moved({ globalConfig: "c2" }) }), "front: requested"],
    [
      "ConfigMap before globals",
      world(moved({ globalConfig: "c2", globals: "g2" })),
      "front: ConfigMap changed",
    ],
    [
      "globals before a second look",
      world({ secondCheck: true, ...moved({ globals: "g2" }) }),
      "back: global values changed",
    ],
  ])("%s", (_what, view, expected) => {
    const cause = findConvergeCause(view);
    expect(cause === undefined ? undefined : `${choosePosition(cause)}: ${describeCause(cause)}`).toBe(
      expected,
    );
  });

  it.each<readonly [ConvergePhase, Partial<View>, boolean]>([
    ["idle", moved({ globalConfig: "c2" }), false],
    ["beforeAll", moved({ globalConfig: "c2" }), true],
    ["discovery", moved({ globalConfig: "c2" }), true],
    ["modules", moved({ globalConfig: "c2" }), true],
    ["afterAll", moved({ globalConfig: "c2" }), true],
    // Values that hooks change are taken into account by a converge after this one.
    ["modules", moved({ globals: "g2" }), false],
    ["modules", ASKED, false],
    ["modules", {}, false],
  ])("a converge in its %s phase and %j: starts again: %s", (phase, change, restarts) => {
    const view = world(change);
    const during = { ...view, converge: { ...view.converge, phase } };
    expect(findRestartCause(during) !== undefined).toBe(restarts);
    expect(hasGlobalConfigChanged(during)).toBe(during.convergeDigests.globalConfig !== NOW.globalConfig);
  });
});
