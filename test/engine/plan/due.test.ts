import { describe, expect, it } from "vitest";

import { describeCause, describeTask, ModuleQueues } from "../../../src/base/model/index.ts";
import { planTasks } from "../../../src/engine/plan/index.ts";
import type { BootPhase, ModuleView, View } from "../../../src/engine/state/index.ts";
import { basis, moduleView, viewOf } from "../../report/views.ts";

interface StateSnapshot {
  readonly operator?: Partial<View>;
  readonly web?: Partial<ModuleView>;
  readonly db?: Partial<ModuleView>;
}

const START = { globalConfig: "c1", globals: "g1" };

function viewAt({ operator = {}, web = {}, db = {} }: StateSnapshot): View {
  const rest = viewOf([moduleView("db", db), moduleView("web", web)], {
    secondCheck: false,
    convergeDigests: START,
  });
  return { ...rest, converge: { ...rest.converge, handled: START }, ...operator };
}

/** What the plan says, a line each: where a task goes and why; what restarts; whose back-off ends. */
function reported(view: View): string[] {
  const { dueTasks, restartCause, outdatedModules } = planTasks(view);
  return [
    ...dueTasks.map(({ task, position }) => `${position} ${describeTask(task)}`),
    ...(restartCause === undefined ? [] : [`restart: ${describeCause(restartCause)}`]),
    ...outdatedModules.map((name) => `outdated ${name}`),
  ];
}

const reloading = (handled: Partial<typeof START> = {}): Partial<View> => ({
  converge: { ...viewOf([]).converge, phase: "modules", handled: { ...START, ...handled } },
});
const OWN = new ModuleQueues("own");
const running = { activity: "running" } as const;
const edited = { sectionDigest: "s2" };
const began = (section: string) => ({ attempted: basis({ section }) });
const FAILED = { reason: "HelmFailed", message: "no", failures: 1, since: 0 } as const;
const hookCause = { kind: "hook", by: "kubernetes" } as const;

describe("the plan: tasks and reasons from a view", () => {
  it.each<readonly [string, StateSnapshot, readonly string[]]>([
    ["00:00 start-up: modules are read", { operator: { boot: "loading" }, web: { phase: "new" } }, []],
    ["00:01 all is read", { operator: { boot: "waiting" }, web: { phase: "new" } }, ["back start-up"]],
    ["00:01 global hooks run", { operator: { boot: "onStartup" }, web: { phase: "new" } }, []],
    [
      "00:02 the first converge is due, which does the first runs",
      {
        operator: { boot: "converging", converge: viewOf([]).converge },
        web: { phase: "new" },
        db: { phase: "new" },
      },
      ["first converge of all modules: start-up"],
    ],
    [
      "00:03 it runs",
      { operator: { boot: "converging", ...reloading() }, web: { phase: "new" }, db: { phase: "onStartup" } },
      [],
    ],
    ["00:10 all is done", {}, []],
    ["08:00 a user edits a section", { web: edited }, ["front run-module web: ConfigMap section changed"]],
    [
      "08:01 its run began with the new section",
      { web: { ...edited, ...began("s2") } },
      ["front run-module web: ConfigMap section changed"],
    ],
    [
      "08:02 it fails, and the section is edited again",
      { web: { ...edited, sectionDigest: "s3", ...began("s2"), retry: FAILED } },
      ["front run-module web: ConfigMap section changed", "outdated web"],
    ],
    [
      "08:02 it is edited while it runs",
      { web: { ...edited, sectionDigest: "s3", ...began("s2"), activity: "running" } },
      ["front run-module web: ConfigMap section changed", "outdated web"],
    ],
    [
      "08:02 its run was ended: the next one is ahead",
      { web: { ...edited, sectionDigest: "s3", ...began("s2") } },
      ["front run-module web: ConfigMap section changed"],
    ],
    [
      "08:02 it is edited while it waits behind another: nothing is to be cut short",
      { web: { ...edited, attempted: undefined } },
      ["front run-module web: ConfigMap section changed"],
    ],
    [
      "08:03 it is done",
      { web: { sectionDigest: "s3", ...began("s3"), handled: basis({ section: "s3" }) } },
      [],
    ],
    [
      "09:00 an event hook of one module changes values, an object of another is deleted",
      { db: { valuesDigest: "v2", cause: hookCause }, web: { missingObjects: ["ns/Secret/x"] } },
      ["back run-module db: kubernetes hook changed values", "back run-module web: absent ns/Secret/x"],
    ],
    [
      "10:00 a global hook changes globals and a section is edited: the section does not wait",
      { operator: { convergeDigests: { ...START, globals: "g2" } }, web: edited },
      [
        "front run-module web: ConfigMap section changed",
        "back converge of all modules: global values changed",
      ],
    ],
    [
      "10:01 what can wait is left to the converge",
      { operator: { convergeDigests: { ...START, globals: "g2" } }, web: { valuesDigest: "v2" } },
      ["back converge of all modules: global values changed"],
    ],
    [
      "11:00 one edit of flag and section: the converge does both, as the flag may switch the module off",
      { operator: { convergeDigests: { ...START, globalConfig: "c2" } }, web: edited },
      ["first converge of all modules: ConfigMap changed"],
    ],
    [
      "11:00 the same while a module runs in main and another one is retried: the converge waits for neither",
      {
        operator: { convergeDigests: { ...START, globalConfig: "c2" } },
        db: { ...running, ...began("v1-s1") },
        web: { ...began("v1-s1"), retry: FAILED },
      },
      ["first converge of all modules: ConfigMap changed", "outdated db", "outdated web"],
    ],
    [
      "11:00 the same while modules run in queues of their own: an edit of a flag outdates none of them",
      {
        operator: { convergeDigests: { ...START, globalConfig: "c2" }, moduleQueues: OWN },
        db: { ...running, ...began("v1-s1") },
        web: { ...began("v1-s1"), retry: FAILED },
      },
      ["first converge of all modules: ConfigMap changed"],
    ],
    [
      "11:01 a flag is edited while that converge runs: it starts again, and nothing else is planned",
      { operator: { ...reloading(), convergeDigests: { ...START, globalConfig: "c2" } }, web: edited },
      ["restart: ConfigMap changed"],
    ],
    [
      "11:02 a hook changes globals while a converge runs: nothing now, as the next plan after it says so",
      { operator: { ...reloading(), convergeDigests: { ...START, globals: "g2" } } },
      [],
    ],
    [
      "11:03 a section is edited while a converge runs",
      { operator: reloading(), web: edited },
      ["front run-module web: ConfigMap section changed"],
    ],
    [
      "12:00 a module is off, another requires action: they are left alone",
      {
        db: { ...edited, handled: basis({ section: "v1-s0" }), enabled: false },
        web: { missingObjects: ["ns/Secret/x"], problem: { file: "f", message: "m" } },
      },
      [],
    ],
    ["23:59 quiet", {}, []],
  ])("%s", (_time, moment, expected) => {
    const view = viewAt(moment);
    expect(reported(view)).toEqual(expected);
    expect(reported(view)).toEqual(expected);
  });

  it("offers a first run once the converge that should have done it has ended", () => {
    const during = viewAt({ operator: reloading(), web: { phase: "onStartup" } });
    expect(reported(during)).toEqual([]);
    const after = { ...during, converge: { ...during.converge, phase: "idle" as const } };
    expect(reported(after)).toEqual(["back run-module web: first run"]);
    expect(reported(during)).toEqual([]);
  });

  it("begins nothing while the ConfigMap was missing from the start", () => {
    const config = { ...viewOf([]).config, condition: "missing" as const, isInForce: false };
    expect(reported(viewAt({ operator: { boot: "waiting", config }, web: edited }))).toEqual([]);
  });

  it.each<"missing" | "invalid">(["missing", "invalid"])(
    "begins with the content in force when the ConfigMap is %s since it was read",
    (condition) => {
      const config = { ...viewOf([]).config, condition };
      expect(reported(viewAt({ operator: { boot: "waiting", config }, web: edited }))).toEqual([
        "back start-up",
      ]);
    },
  );

  it.each<BootPhase>(["loading", "onStartup", "synchronization"])(
    "plans nothing while start-up is at %s",
    (boot) => {
      expect(
        reported(
          viewAt({ operator: { boot, convergeDigests: { globalConfig: "c2", globals: "g2" } }, web: edited }),
        ),
      ).toEqual([]);
    },
  );
});
