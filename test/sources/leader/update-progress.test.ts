import { describe, expect, it } from "vitest";

import { systemClock } from "../../../src/base/index.ts";
import type { SourcesContext } from "../../../src/sources/context.ts";
import type { ModuleView } from "../../../src/engine/state/index.ts";
import { hasBecomeGood, UpdateObserver } from "../../../src/sources/leader/update-progress.ts";
import type { LockEntry } from "../../../src/sources/types.ts";
import { finished, moduleView, T0, viewOf } from "../../report/views.ts";
import { explain } from "../../../src/report/index.ts";

const DIGEST = `sha256:${"b".repeat(64)}`;
const ENTRY: LockEntry = {
  source: "s",
  version: "1.5.0",
  digest: DIGEST,
  verifiedBy: "k",
  at: T0,
  isNew: true,
};

/** A view of the module with this content. */
function view(change: Partial<ModuleView> = {}, digest = DIGEST): ModuleView {
  const base = moduleView("web");
  const origin = {
    source: "s",
    version: "1.5.0",
    digest,
    verifiedBy: "k",
    removed: false,
    problem: undefined,
  };
  return { ...base, module: { ...base.module, origin }, ...change };
}

const RUN = finished({ startedAt: T0 + 1000, finishedAt: T0 + 2000 });
const SECONDS_LATER = T0 + 5000;

describe("new content is good", () => {
  it.each<[string, ModuleView | undefined, number, boolean]>([
    ["when its run is over and the module Ready", view({ lastRun: RUN }), SECONDS_LATER, true],
    ["not before its run", view(), SECONDS_LATER, false],
    ["not while its run lasts", view({ lastRun: { ...RUN, finishedAt: undefined } }), SECONDS_LATER, false],
    [
      "not with the content before it",
      view({ lastRun: RUN }, `sha256:${"a".repeat(64)}`),
      SECONDS_LATER,
      false,
    ],
    [
      "not while the module is not healthy",
      view({ lastRun: RUN, unhealthy: { status: "False", reason: "x", message: "x" } }),
      SECONDS_LATER,
      false,
    ],
    [
      "not after it was rolled back",
      view({ lastRun: RUN, rollbackReason: "it was rolled back" }),
      SECONDS_LATER,
      false,
    ],
    [
      "when the module is off",
      view({ enabled: false, phase: "ready", release: undefined }),
      SECONDS_LATER,
      true,
    ],
    ["after a minute in which nothing had to run", view(), T0 + 61_000, true],
    ["not without the module", undefined, T0 + 61_000, false],
  ])("%s", (...[, module, now, expected]) => {
    const explanation = module && explain({ view: viewOf([module]), queues: [] }, now).module("web");
    expect(hasBecomeGood(ENTRY, explanation, now)).toBe(expected);
  });
});

it("an approval triggers one check, and another one after it was withdrawn", () => {
  let confirmedUpdate: string | undefined;
  const checked: string[] = [];
  const context = {
    sources: {
      requested: new Map([
        ["web", { source: "s" }],
        ["db", { source: "t" }],
      ]),
    },
    lock: { entries: new Map() },
    options: {
      clock: systemClock,
      state: { module: (name: string) => (name === "web" ? { confirmedUpdate } : undefined) },
    },
  } as unknown as SourcesContext;
  const observer = new UpdateObserver(context, {
    runInBackground: () => {},
    triggerCheck: (source) => checked.push(source),
  });
  const news = [undefined, "1@a", "1@a", "2@b", undefined, "2@b"].map((approval) => {
    confirmedUpdate = approval;
    observer.review();
    return checked.splice(0);
  });
  expect(news).toEqual([[], ["s"], [], ["s"], [], ["s"]]);
});
