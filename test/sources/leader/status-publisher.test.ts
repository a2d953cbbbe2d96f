import { describe, expect, it } from "vitest";

import { Metrics } from "../../../src/report/metrics/index.ts";
import type { Module, Tree } from "../../../src/base/model/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import type { LockEntry, ModuleError, WaitingVersion } from "../../../src/sources/types.ts";
import type { SourcesContext } from "../../../src/sources/context.ts";
import { WaitingUpdateRecorder, toWaitingUpdate } from "../../../src/sources/leader/status-publisher.ts";
import { ManualClock, settle } from "../../support/clock.ts";

const digest = (digit: string): string => `sha256:${digit.repeat(64)}`;
const LOCKED: LockEntry = { source: "s", version: "1.4.2", digest: digest("a"), verifiedBy: "ci.pub", at: 0 };
const HELD: WaitingVersion = {
  version: "1.5.0",
  digest: digest("b"),
  tag: undefined,
  since: 1000,
  until: undefined,
  waitsFor: "approval",
  reason: "1.5.0 waits for approval",
};
const failed = (reason: ModuleError["reason"]): ModuleError => ({ reason, message: "no answer" });

describe("what waits", () => {
  const about = {
    source: "s",
    module: "web",
    namespace: "ops",
    waitingVersion: undefined,
    error: undefined,
    now: 2000,
  };

  it("is the held content, with the command that approves it", () => {
    expect(toWaitingUpdate({ ...about, waitingVersion: HELD, locked: LOCKED })).toMatchObject({
      source: "s",
      waitsFor: "approval",
      version: "1.5.0",
      since: 1000,
      message: `1.5.0 waits for approval; to use it now: kubectl annotate --overwrite -n ops addonmodule/web addon-operator.io/approve=1.5.0@${digest("b")}`,
    });
  });

  it.each([
    ["CheckFailed", "registry", "newer versions cannot be looked up: no answer; 1.4.2 stays in force"],
    ["NotVerified", "refused", "newer content is not used: no answer; 1.4.2 stays in force"],
    ["Blocked", "blocked", "newer content is not used: no answer; 1.4.2 stays in force"],
    ["Withdrawn", "withdrawn", "newer content is not used: no answer; 1.4.2 stays in force"],
  ] as const)("is unknown content after %s", (reason, waitsFor, message) => {
    const found = toWaitingUpdate({ ...about, error: failed(reason), locked: LOCKED });
    expect(found).toMatchObject({ waitsFor, message, version: undefined, since: 2000 });
  });

  it("is nothing for a module without content, whose error is its problem, and for one that another provides", () => {
    expect(toWaitingUpdate({ ...about, error: failed("NotVerified"), locked: undefined })).toBeUndefined();
    expect(toWaitingUpdate({ ...about, error: failed("Overridden"), locked: LOCKED })).toBeUndefined();
  });
});

describe("the state and the series", () => {
  const none = { file: "values.yaml", section: undefined, enabled: undefined };
  const web = { name: "web", valuesKey: "web", common: none, own: none, schemas: {}, crdFiles: [] };
  const tree = {
    modules: [web as unknown as Module],
    globalSchemas: {},
    globalHookFiles: [],
    purgeBlockers: [],
  };

  function lab() {
    const clock = new ManualClock();
    const state = new State({ clock });
    const metrics = new Metrics("test_");
    const options = { state, metrics, clock, namespace: "ops" } as unknown as SourcesContext["options"];
    let problem: object | undefined;
    const content = () => ({ problem });
    const lock = { entries: new Map([["web", LOCKED]]) } as unknown as SourcesContext["lock"];
    const lockedModules = { getContent: content } as unknown as SourcesContext["lockedModules"];
    const breaks = (): void => void (problem = {});
    const series = async (): Promise<string[]> =>
      (await metrics.renderText())
        .split("\n")
        .filter((each) => each.startsWith("test_source_update_waiting"));
    return {
      clock,
      state,
      series,
      breaks,
      waiting: new WaitingUpdateRecorder({ options, lock, lockedModules }),
    };
  }

  const held = new Map([["web", HELD]]);
  const nothing = new Map<string, WaitingVersion>();

  it("have what waits, also of a module that is read later, until nothing waits", async () => {
    const { state, series, waiting } = lab();
    waiting.recordFindings("s", held, undefined);
    state.recordTree(tree as unknown as Tree);
    await settle();
    expect(state.view.modules.get("web")?.update).toMatchObject({ version: "1.5.0", waitsFor: "approval" });
    expect(await series()).toEqual(['test_source_update_waiting{module="web",reason="approval"} 1']);
    waiting.recordFindings("other", nothing, undefined);
    expect(state.view.modules.get("web")?.update).toBeDefined();
    waiting.recordFindings("s", nothing, new Map([["web", failed("CheckFailed")]]));
    expect(await series()).toEqual(['test_source_update_waiting{module="web",reason="registry"} 1']);
    waiting.recordFindings("s", nothing, undefined);
    expect(state.view.modules.get("web")?.update).toBeUndefined();
    expect(await series()).toEqual([]);
  });

  it("have nothing where no content is in force: that is a problem of the module", async () => {
    const { breaks, series, waiting } = lab();
    breaks();
    waiting.recordFindings("s", nothing, new Map([["web", failed("NotVerified")]]));
    expect(await series()).toEqual([]);
  });

  it("keep the object while it says the same, and the first time of what is unknown", async () => {
    const { clock, state, waiting } = lab();
    state.recordTree(tree as unknown as Tree);
    const errors = new Map([["web", failed("CheckFailed")]]);
    waiting.recordFindings("s", nothing, errors);
    const first = state.view.modules.get("web")?.update;
    await clock.advance(60_000);
    waiting.recordFindings("s", nothing, errors);
    expect(state.view.modules.get("web")?.update).toBe(first);
  });
});
