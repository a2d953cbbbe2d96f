import { describe, expect, it } from "vitest";

import { ModuleQueues, type Hook, type Task } from "../../../src/base/model/index.ts";
import type { TaskView } from "../../../src/engine/queue/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { T0, blockerOf, moduleView, underWay, viewOf, whyOf } from "../views.ts";
import { lifecycle } from "../../hooks/build.ts";
import { explain } from "../../../src/report/index.ts";

const NEXT = Date.UTC(2026, 0, 1, 12, 3, 21);

const discover = (module?: string): Task => ({
  kind: "hook",
  hook: { name: "010-discover", module } as Hook,
  trigger: lifecycle("beforeAll"),
});
const run = (module: string): Task => ({ kind: "run-module", module, cause: { kind: "section" } });
const RELOAD: Task = { kind: "converge", cause: { kind: "start-up" } };

function entry(task: Task, change: Partial<TaskView<Task>> = {}): TaskView<Task> {
  return { task, count: 1, failures: 0, message: undefined, nextAt: undefined, running: true, ...change };
}

const failed = (failures: number, message: string): Partial<TaskView<Task>> => ({
  failures,
  message,
  nextAt: NEXT,
  running: false,
});

interface Case {
  readonly main?: readonly TaskView<Task>[];
  /** A queue of hooks beside it. */
  readonly side?: readonly TaskView<Task>[];
  readonly web?: Partial<ModuleView>;
  readonly view?: Partial<View>;
}

const queueOf = (name: string, tasks: readonly TaskView<Task>[]) => ({ name, length: tasks.length, tasks });

function explainWeb({ main, side = [], web = {}, view = {} }: Case): {
  hold: string | undefined;
  why: string[];
  next: number | undefined;
} {
  const module = moduleView("web", web);
  const evidence = {
    view: viewOf([module], view),
    queues: [queueOf("side", side), ...(main === undefined ? [] : [queueOf("main", main)])],
  };
  return {
    hold: blockerOf(evidence, "web"),
    why: whyOf(evidence, "web"),
    next: explain(evidence, T0).module("web")?.nextRetryAt,
  };
}

const reloading: Partial<View> = { converge: { ...viewOf([]).converge, phase: "modules" } };

it("says what the next try of a failed run waits for, if a converge at work has dropped it from the module's own queue", () => {
  const retry = { failures: 2, since: T0, reason: "HelmFailed", message: "timed out" } as const;
  const web: Partial<ModuleView> = { phase: "new", enabled: true, retry };
  const removal = entry({ kind: "delete-module", module: "old" });
  const view = { ...reloading, moduleQueues: new ModuleQueues("own") };
  const { why, next } = explainWeb({ main: [removal, entry(RELOAD, { running: false })], web, view });
  expect(next).toBeUndefined();
  expect(why.find((sentence) => sentence.startsWith("failed"))).toMatch(
    /^failed 2 times since .* \(HelmFailed\): timed out; the next try waits for .*old/,
  );
});

describe("a module of a ModuleSource", () => {
  const module = {
    name: "web",
    valuesKey: "web",
    order: 10,
    origin: {
      source: "platform",
      version: "1.4.2",
      digest: "sha256:a",
      verifiedBy: "ci.pub",
      removed: false,
    },
  } as unknown as ModuleView["module"];
  const update = {
    source: "platform",
    waitsFor: "window",
    version: "1.5.0",
    digest: "sha256:b",
    since: Date.UTC(2026, 0, 1, 9),
    until: Date.UTC(2026, 0, 2, 2),
    message: "1.5.0 waits for the next window; to use it now: kubectl …",
  } as const;

  it("says what is in force, and which newer content waits for what", () => {
    expect(explainWeb({ web: { module, update } }).why.slice(1)).toEqual([
      "nothing is due: the last run used the current state",
      "from ModuleSource platform: version 1.4.2 (sha256:a), signed by ci.pub",
      "update: 1.5.0 waits for the next window; to use it now: kubectl … (since 2026-01-01T09:00:00Z, until 2026-01-02T02:00:00Z)",
    ]);
  });

  it("needs nobody while its content is fetched again", () => {
    const problem = { file: "ModuleSource platform", message: "no answer" };
    const why = (retriedAs?: "SourceUnavailable") =>
      explainWeb({ web: { module, problem: { ...problem, ...(retriedAs && { retriedAs }) } } }).why.join(
        "\n",
      );
    expect(why("SourceUnavailable")).toContain("is tried again: ModuleSource platform: no answer");
    expect(why()).toContain("requires action: ModuleSource platform: no answer");
  });

  it("waits for nothing once no source names it", () => {
    const removed = { ...module, origin: { ...module.origin, removed: true } } as typeof module;
    expect(explainWeb({ web: { module: removed, update } }).why.join()).not.toContain("update:");
  });
});

describe("an enabled script that fails", () => {
  const retry = {
    reason: "ScriptFailed",
    message: "exit code 1",
    failures: 3,
    since: Date.UTC(2025, 11, 31, 23, 58),
  } as const;
  it.each([
    [false, /^Its enabled script fails, .*; nothing was decided before$/],
    [true, /^Its enabled script fails, .*; until it answers: Enabled by /],
  ])("is said before what was decided earlier: %s", (decided, first) => {
    const { why } = explainWeb({ web: { isDiscovered: decided, retry } });
    expect(why[0]).toMatch(first);
    expect(why).toContain("failed 3 times since 2025-12-31T23:58:00Z (ScriptFailed): exit code 1");
  });

  it("is said once", () => {
    const problem = {
      file: "enabled",
      message: "the enabled script failed: exit code 1",
      retriedAs: "ScriptFailed",
    } as const;
    expect(explainWeb({ web: { problem, retry } }).why.slice(1)).toEqual([
      "failed 3 times since 2025-12-31T23:58:00Z (ScriptFailed): exit code 1",
    ]);
  });
});

it("a module that nothing was decided of is not said to be off", () => {
  expect(explainWeb({ web: { isDiscovered: false, enabled: false, enabledBy: "none" } }).why[0]).toBe(
    "Nothing has decided yet whether it is enabled",
  );
});

it("says why a module is not healthy also where its Ready does not take health", () => {
  const message = "Pod web-0: CrashLoopBackOff";
  const health = { status: "False", reason: "Unhealthy", message, counts: {}, ailments: [] };
  const { why } = explainWeb({ web: { health: health as unknown as ModuleView["health"] } });
  expect(why).toContain("not healthy: Pod web-0: CrashLoopBackOff");
  expect(why.join()).not.toContain("nothing is due");
});

describe("why a module does not run now", () => {
  it.each<readonly [Case, string | undefined]>([
    [{}, undefined],
    [
      {
        main: [entry(discover(), failed(4, "exit code 1: no such host")), entry(RELOAD)],
        web: { phase: "new" },
      },
      "waits for beforeAll hook 010-discover (failed 4 times)",
    ],
    [
      { main: [entry(discover("db"), failed(1, "exit code 2")), entry(run("web"))] },
      "waits for beforeAll hook 010-discover of db (failed 1 time)",
    ],
    [{ main: [entry(run("db")), entry(run("web"))] }, "waits for db"],
    [{ main: [entry(RELOAD), entry(run("web"))] }, "waits for the converge (start-up)"],
    // It is being tried again right now.
    [
      { main: [entry(run("db"), { failures: 2, message: "no" }), entry(run("web"))] },
      "waits for db (failed 2 times)",
    ],
    [{ main: [entry(run("web"))] }, undefined],
    [{ main: [entry(run("web"), failed(2, "helm: no"))] }, "will be retried (failed 2 times)"],
    // A reload that waits will run it; one that has run it already will not.
    [{ main: [entry(run("db")), entry(RELOAD)] }, "waits for db"],
    [{ main: [entry(run("db")), entry(RELOAD)], view: reloading }, undefined],
    [{ main: [entry(run("db")), entry(RELOAD)], view: reloading, web: { phase: "new" } }, "waits for db"],
    // Its own hooks do not hold it up.
    [{ main: [entry(run("db")), entry(discover("web"))] }, undefined],
    // What other queues do delays nobody.
    [{ side: [entry(discover("db"), failed(1, "no"))], main: [] }, undefined],
    // The first reload has ended without it, or it is there already.
    [{ web: { phase: "new" } }, undefined],
    [{ view: { boot: "converging" } }, undefined],
    // Start-up.
    [
      {
        main: [entry(discover(), failed(2, "no")), entry({ kind: "boot" })],
        view: { boot: "onStartup" },
        web: { phase: "new" },
      },
      "waits for beforeAll hook 010-discover (failed 2 times)",
    ],
    [
      { view: { boot: "waiting" }, web: { phase: "new" } },
      "waits for the ConfigMap: it is missing while releases of ours exist",
    ],
    [{ view: { boot: "loading" }, web: { phase: "new" } }, "waits for the first converge"],
    [
      { view: { config: { ...viewOf([]).config, condition: "missing" } } },
      "nothing is deleted or purged while the ConfigMap is missing",
    ],
    [
      {
        view: {
          config: {
            ...viewOf([]).config,
            condition: "invalid",
            problems: [{ file: "ConfigMap cm", message: "web/size: must be integer", remedy: "mend it" }],
          },
        },
      },
      "ConfigMap cm: web/size: must be integer (mend it)",
    ],
    // Something else is said of these.
    [
      { main: [entry(run("db")), entry(run("web"))], web: { problem: { file: "f", message: "m" } } },
      undefined,
    ],
    [{ main: [entry(run("db")), entry(RELOAD)], web: { activity: "running" } }, undefined],
  ])("%j", (world, expected) => {
    expect(explainWeb(world).hold).toBe(expected);
  });

  describe("with a queue of its own", () => {
    const own = (name: string, slot?: Task["slot"]): Task => ({ ...run(name), ...(slot && { slot }) });
    const turn = { cause: { kind: "start-up" }, hasBegun: false } as const;
    const turns: Partial<View> = { converge: { ...viewOf([]).converge, phase: "scheduledRuns" } };
    const db = moduleView("db", {
      phase: "new",
      scheduledRun: turn,
      module: { ...moduleView("db").module, order: 1 },
    });
    const at = (web: Partial<ModuleView>, view: Partial<View>, tasks: readonly TaskView<Task>[]) => {
      const module = moduleView("web", web);
      const main = view.converge === undefined ? [entry(RELOAD)] : [];
      const queues = [queueOf("main", main), queueOf("module/web", tasks)];
      return blockerOf(
        { view: viewOf([db, module], { moduleQueues: new ModuleQueues("own"), ...view }), queues },
        "web",
      );
    };

    it("waits for its hooks, for a free place, for its next try, or for smaller numbers", () => {
      const waits = entry(own("web", "usual"), { running: false });
      expect([
        at({}, {}, [entry(discover("web")), waits]),
        at({}, {}, [entry(own("web", "usual"))]),
        at({}, {}, [waits]),
        at({}, {}, [{ ...waits, failures: 2, nextAt: NEXT }]),
        at({ phase: "new" }, {}, []),
        at({ phase: "new", scheduledRun: turn }, { ...turns }, []),
      ]).toEqual([
        "waits for beforeAll hook 010-discover of web",
        undefined,
        "waits until fewer modules run",
        "will be retried (failed 2 times)",
        "waits for the converge (start-up)",
        "waits for the first run of db",
      ]);
    });
  });
});

describe("a failing hook that delays the run of a module", () => {
  const since = "2025-12-31T23:58:00Z";
  const hook = (module: string): TaskView<Task> =>
    entry(discover(module), { ...failed(2, "no answer"), failingSince: Date.parse(since) });
  const fails = (module: string): string =>
    `beforeAll hook 010-discover of ${module} fails in queue main since ${since}: no answer; behind it wait web`;

  it("is described once, with its next try", () => {
    expect(explainWeb({ main: [hook("db"), entry(run("web"), { running: false })] }).why.slice(1)).toEqual([
      "waits for beforeAll hook 010-discover of db (failed 2 times)",
      `${fails("db")}; next try 12:03:21`,
    ]);
  });

  it("is described once if it is the module's own", () => {
    expect(explainWeb({ main: [hook("web"), entry(run("web"), { running: false })] }).why.slice(1)).toEqual([
      fails("web"),
      "next try of the hook 12:03:21",
    ]);
  });
});

describe("when a failure is tried again", () => {
  const retry = { reason: "HelmFailed", message: "no", failures: 2, since: 0 } as const;
  it.each<readonly [string, Case, number | undefined]>([
    ["its run waits", { main: [entry(RELOAD), entry(run("web"), failed(2, "no"))], web: { retry } }, NEXT],
    ["its run is under way", { main: [entry(run("web"), { failures: 2 })], web: { retry } }, undefined],
    ["another one's waits", { main: [entry(run("db"), failed(2, "no"))], web: { retry } }, undefined],
    ["its hook waits", { main: [entry(discover("web"), failed(2, "no"))], web: { retry } }, undefined],
    ["nothing failed", { main: [entry(run("web"), failed(2, "no"))] }, undefined],
  ])("%s", (_, world, expected) => {
    expect(explainWeb(world).next).toBe(expected);
  });
});

describe("module why: everything that can be said", () => {
  const retry = {
    reason: "HookFailed",
    message: "hook discover: exit code 1",
    failures: 3,
    since: Date.UTC(2025, 11, 31, 23, 58),
  } as const;
  it.each<readonly [Case, readonly string[]]>([
    [{}, ["Enabled by the ConfigMap", "nothing is due: the last run used the current state"]],
    [
      {
        web: {
          blockedSince: NEXT,
          module: { ...moduleView("web").module, requires: { modules: { db: "*" } } },
        },
      },
      ["Enabled by the ConfigMap", "waits for db, which does not exist (since 2026-01-01T12:03:21Z)"],
    ],
    [
      { web: { enabled: false, enabledBy: "script", enabledReason: "no GPU here" } },
      ["Disabled by the module's enabled script: no GPU here"],
    ],
    [
      { web: { problem: { file: "values.yaml", message: "line 3: no map" }, enabledBy: "values" } },
      ["Enabled by values.yaml of the modules directory", "requires action: values.yaml: line 3: no map"],
    ],
    [
      { web: { activity: "running", lastRun: underWay(NEXT, { step: "beforeHelm" }), enabledBy: "hook" } },
      ["Enabled by a global hook", "running: step beforeHelm"],
    ],
    [
      {
        web: {
          activity: "running",
          lastRun: underWay(NEXT, { hook: "Job/migrate (pre-upgrade)", hookSince: NEXT }),
        },
      },
      [
        "Enabled by the ConfigMap",
        "running: step helm",
        "Helm has been waiting for the chart hook Job/migrate (pre-upgrade) since 2026-01-01T12:03:21Z",
      ],
    ],
    [
      { main: [entry(run("web"), failed(3, retry.message))], web: { retry, enabledBy: "module-values" } },
      [
        "Enabled by the module's own values.yaml",
        "failed 3 times since 2025-12-31T23:58:00Z (HookFailed): hook discover: exit code 1; next try 2026-01-01T12:03:21Z",
      ],
    ],
    [
      { main: [entry(run("cert-manager"), failed(5, "x".repeat(600))), entry(run("web"))] },
      [
        "Enabled by the ConfigMap",
        "waits for cert-manager (failed 5 times)",
        `cert-manager failed: ${"x".repeat(600)}; next try 12:03:21`,
      ],
    ],
    [
      {
        web: {
          suspended: true,
          missingObjects: ["ns/Service/x", "ns/Secret/y"],
          issues: ["Pods: forbidden"],
        },
      },
      [
        "Enabled by the ConfigMap",
        "suspended: Helm does not run, hooks continue to run",
        "missing objects: ns/Service/x, ns/Secret/y",
        "Pods: forbidden",
      ],
    ],
    [
      { web: { enabled: false, enabledBy: "none", flag: false } },
      ["Disabled because nothing enables it (webEnabled: true in the ConfigMap does, or in a values.yaml)"],
    ],
  ])("%j", (world, expected) => {
    expect(explainWeb(world).why).toEqual(expected);
  });
});
