import { expect, it } from "vitest";

import { printResponse } from "../../../../src/main/commands/operator/query.ts";
import { listModules, showStatus } from "../../../../src/main/commands/operator/overview.ts";
import type { Terminal } from "../../../../src/main/commands/table/row.ts";
import type { Overview } from "../../../../src/report/index.ts";
import { answeringSocket, type Answer } from "../../../support/answering-socket.ts";
import { ManualClock, settle } from "../../../support/clock.ts";
import { lineOf } from "../../../support/command-line.ts";
import { ailingOverview, calmOverview } from "../../../support/overviews.ts";
import { T0 } from "../../../report/views.ts";

interface PageRequest {
  readonly overview: Overview | { readonly status: number; readonly body: string };
  readonly terminal?: Partial<Terminal>;
}

/** Asks with this line, and returns what is printed, what is complained of, and the exit code. */
async function ask(text: string, { overview, terminal = {} }: PageRequest) {
  const served = "body" in overview ? overview : JSON.stringify(overview);
  const { setting } = await answeringSocket((path): Answer =>
    path === "/overview.json"
      ? served
      : path === "/module/list.yaml"
        ? "enabledModules: []\n"
        : { status: 404, body: "" },
  );
  const line = lineOf([...text.split(" "), setting]);
  const out = { printed: "", complained: "" };
  const around: Terminal = {
    env: {},
    print: (part) => void (out.printed += part),
    printError: (part) => void (out.complained += part),
    confirm: () => Promise.resolve(false),
    isTerminal: true,
    columns: 110,
    ...terminal,
  };
  const command = text.startsWith("status") ? showStatus : listModules;
  return { out, code: await command(line, around, new ManualClock(T0)) };
}

it("status ends with 0 where all enabled modules are Ready, and names nothing", async () => {
  const { code, out } = await ask("status", { overview: calmOverview() });
  expect([code, out.printed]).toEqual([0, "\u001b[32mReady\u001b[0m: All enabled modules are ready (2)\n"]);
});

it("status groups updates that wait by what they wait for, and still ends with 0", async () => {
  const { modules, ...rest } = calmOverview();
  const update = (waitsFor: "approval" | "registry", version?: string) => ({
    name: "platform",
    next: { waitsFor, since: "2026-01-01T00:00:00Z", message: "m", ...(version && { version }) },
  });
  const [db, shop] = modules;
  const named = [
    { ...db, name: "cert", source: update("registry") },
    { ...db, source: update("approval", "1.5.0") },
    { ...shop, source: update("approval", "2.0.0") },
  ] as typeof modules;
  const { code, out } = await ask("status", { overview: { ...rest, modules: named } });
  expect(code).toBe(0);
  expect(out.printed.split("\n").slice(1, -1)).toEqual([
    "",
    "Waiting updates (addon-operator source list):",
    "  for approval: db 1.5.0, shop 2.0.0",
    "  unknown, because the ModuleSource cannot be checked: cert",
  ]);
});

it("status lists ModuleSources that are wrong or cannot be checked, and still ends with 0", async () => {
  const sources = [
    "edge: CheckFailed: web: registry h: GET /v2/web/tags/list: 401; check the credentials",
    "platform: Invalid: ModuleSource platform: spec.update.windows[0].cron: is no crontab line",
  ];
  const { code, out } = await ask("status", { overview: { ...calmOverview(), sources } });
  expect(code).toBe(0);
  expect(out.printed.split("\n").slice(1, -1)).toEqual([
    "",
    "ModuleSources:",
    ...sources.map((text) => `  ${text}`),
  ]);
});

it("status exits with 1, and lists failures before modules that wait for them", async () => {
  const { code, out } = await ask("status", {
    overview: ailingOverview(),
    terminal: { env: { NO_COLOR: "1" } },
  });
  expect(code).toBe(1);
  expect(out.printed).not.toContain("\u001b");
  expect(out.printed).toMatch(/^Retrying: Module db failed and is retried\n/);
  expect(out.printed).toMatch(
    /db: Retrying: [^]*tried 3 times since 2025-12-31T23:58:00Z[^]*web: Pending: waits for db[^]*shop: Ready[^]*changed 2 objects/,
  );
  expect(out.printed).not.toContain("cache");
});

it("status shows the progress and remaining time of a converge", async () => {
  const { modules, ...operator } = calmOverview();
  const [db, shop] = modules;
  if (db === undefined || shop === undefined) throw new Error("there are no modules");
  const lastRun = {
    cause: "start-up",
    startedAt: "2026-01-01T00:00:00Z",
    seconds: 8.4,
    step: "helm",
    attempts: 1,
  };
  const running = { ...db, state: "Running", ready: "Unknown", usualSeconds: 10, lastRun } as const;
  const converge = {
    phase: "modules",
    cause: "start-up",
    progress: "12/20",
    remaining: 8,
    waitingSeconds: 40,
  } as const;
  const overview = {
    ...operator,
    state: "Running",
    ready: "Unknown",
    converge,
    modules: [running, shop],
  } as const;
  const { out } = await ask("status", { overview, terminal: { isTerminal: false } });
  expect(out.printed.split("\n")[1]).toBe(
    "Converge: at modules, 12 of 20 done, db has been running for 8s (usually 10s), 7 wait, about 42s left (start-up)",
  );
});

const [ailing] = ailingOverview().modules;
const run = { cause: "start-up", startedAt: "2026-01-01T00:00:00Z", seconds: 400, step: "helm", attempts: 1 };
const broken = { ...ailing, state: "Invalid" } as const;

it.each([
  ["a-removal-is-blocked", { state: "Invalid", reason: "RemovalHeld" }, broken],
  ["the-configmap-is-invalid", { state: "Invalid", reason: "ConfigMapInvalid" }, broken],
  ["the-operator-does-not-answer", { state: "Invalid", reason: "NotRunning" }, broken],
  ["discovery-fails", { reason: "ReloadHeldUp", converge: { phase: "discovery", progress: "8/8" } }, broken],
  ["a-hook-fails", { reason: "ReloadHeldUp", converge: { phase: "beforeAll", progress: "8/8" } }, broken],
  ["a-hook-fails", { reason: "ReloadHeldUp", converge: { phase: "crds" } }, broken],
  ["a-module-cannot-be-removed", { reason: "ReloadHeldUp" }, { enabled: false }],
  ["a-module-source-is-not-ready", {}, { enabled: false, reason: "SourceUnavailable" }],
  ["a-hook-fails", {}, { reason: "HookFailed" }],
  ["a-hook-fails", {}, { state: "Running", lastRun: { ...run, step: "afterHelm" } }],
  ["helm-hangs", {}, { state: "Running", lastRun: run }],
  ["a-module-is-unhealthy", {}, { state: "Progressing", healthy: "Unknown" }],
  ["a-hook-fails", {}, { state: "Progressing", healthy: "True" }],
  ["a-hook-fails", {}, { state: "Unhealthy", reason: "ReadinessProbeFailed" }],
  ["the-api-server-is-slow-or-away", { reason: "LeaseFailed" }, { state: "Ready", ready: "True" }],
  ["the-api-server-is-slow-or-away", { reason: "WatchFailed" }, { state: "Ready", ready: "True" }],
  ["discovery-fails", {}, { reason: "ScriptFailed" }],
  ["discovery-fails", {}, { enabled: false, reason: "ScriptFailed" }],
  [
    "discovery-fails",
    { reason: "ReloadHeldUp", converge: { phase: "discovery" } },
    { enabled: false, reason: "ScriptFailed" },
  ],
  ["a-module-cannot-be-removed", {}, { enabled: false, reason: "HelmFailed" }],
  ["one-module-fails-and-others-wait", {}, { reason: "HelmFailed" }],
  ["running.md#taking-over", {}, { reason: "ObjectsExist" }],
] as const)("status leads to %s for %j and a module that is %j", async (section, operator, module) => {
  const modules = [{ ...ailing, ...module }];
  const overview = { ...ailingOverview(), ...operator, modules } as Overview;
  const { out } = await ask("status", { overview, terminal: { isTerminal: false } });
  expect(out.printed).toMatch(new RegExp(`What to do: docs/guides/(on-call.md#)?${section}\n$`));
  expect(out.printed).not.toContain("8 of 8");
});

it("status lists ten modules and counts the rest", async () => {
  const overview = ailingOverview();
  const [db] = overview.modules;
  if (db === undefined) throw new Error("there is no module");
  const modules = Array.from({ length: 13 }, (_, at) => ({ ...db, name: `m${at}` }));
  const { out } = await ask("status", {
    overview: { ...overview, modules },
    terminal: { isTerminal: false },
  });
  expect(out.printed.match(/^m\d+: Retrying/gm)).toHaveLength(10);
  expect(out.printed).toMatch(
    /\nand 3 more: addon-operator module list\n\nWhat to do: docs\/guides\/on-call\.md#one-module-fails-and-others-wait\n$/,
  );
});

it.each(["Unhealthy", "Invalid"] as const)(
  "status groups %s modules of which the same is true",
  async (state) => {
    const overview = ailingOverview();
    const [db] = overview.modules;
    if (db === undefined) throw new Error("there is no module");
    const modules = ["one", "two"].map((name) => ({
      ...db,
      name,
      state,
      message: `Deployment/${name} has no Pod`,
    }));
    const other = { ...db, name: "three", state, message: "Service/three is gone" };
    const { out } = await ask("status", {
      overview: { ...overview, modules: [...modules, other] },
      terminal: { isTerminal: false },
    });
    expect(out.printed).toContain(`\n2 modules: ${state}: Deployment/one has no Pod\n  one, two\n`);
    expect(out.printed).toContain(`\nthree: ${state}: Service/three is gone\n`);
  },
);

it.each(["json", "yaml"])("status -o %s is the overview", async (format) => {
  const { code, out } = await ask(`status -o ${format}`, { overview: ailingOverview() });
  expect(code).toBe(1);
  expect(out.printed).toContain(format === "json" ? '"waitsFor":"db"' : "waitsFor: db");
});

it("module list is a table on a terminal, cut where it ends", async () => {
  const { code, out } = await ask("module list", {
    overview: ailingOverview(),
    terminal: { columns: 60, env: { NO_COLOR: "1" } },
  });
  const lines = out.printed.split("\n");
  expect(code).toBe(0);
  expect(lines[0]).toMatch(/^NAME +STATE +MESSAGE$/);
  expect(lines.map((line) => line.split(" ")[0])).toEqual(["NAME", "db", "web", "shop", "1", ""]);
  expect(lines.every((line) => line.length <= 60)).toBe(true);
  expect(lines.at(-2)).toBe("1 more module is disabled");
});

it.each([
  [110, "NAME STATE HEALTHY DRIFTED VERSION LAST RUN MESSAGE"],
  [80, "NAME STATE HEALTHY MESSAGE"],
  [60, "NAME STATE MESSAGE"],
])("module list leaves the message room on %d columns", async (columns, heads) => {
  const { out } = await ask("module list", {
    overview: ailingOverview(),
    terminal: { columns, env: { NO_COLOR: "1" } },
  });
  const [first = "", second = ""] = out.printed.split("\n");
  expect(first.replaceAll(/ {2,}/g, " ")).toBe(heads);
  expect(second).toContain("helm upgrade: timeout: StatefulSet db/");
});

it("status groups modules that wait for the same cause", async () => {
  const overview = ailingOverview();
  const [db, web] = overview.modules;
  if (db === undefined || web === undefined) throw new Error("there are no modules");
  const waiting = Array.from({ length: 12 }, (_, at) => ({ ...web, name: `m${at}` }));
  const other = { ...web, name: "other", message: "waits for shop" };
  const { out } = await ask("status", {
    overview: { ...overview, modules: [db, ...waiting, other] },
    terminal: { isTerminal: false },
  });
  expect(out.printed.slice(out.printed.indexOf("\n12 "))).toBe(
    `
12 modules: Pending: ${web.message}
  m0, m1, m2, m3, m4, m5, m6, m7, m8, m9 and 2 more

other: Pending: waits for shop
  waits for db

What to do: docs/guides/on-call.md#one-module-fails-and-others-wait
`,
  );
});

it.each([
  [{ seconds: 4 }, false],
  [{ seconds: 61 }, true],
  [{ seconds: 90, usualSeconds: 80 }, false],
  [{ seconds: 170, usualSeconds: 80 }, true],
])(
  "status links to a guide only if a run takes unusually long: %j",
  async ({ seconds, ...usual }, isLinked) => {
    const overview = ailingOverview();
    const [db, web] = overview.modules;
    if (db?.lastRun === undefined || web === undefined) throw new Error("there is no run");
    const { result: _, ...run } = { ...db.lastRun, step: "helm", seconds };
    const running = { ...db, ...usual, state: "Running", ready: "Unknown", lastRun: run } as const;
    const progress = {
      state: "Running",
      ready: "Unknown",
      reason: "Progressing",
      message: "Converging",
    } as const;
    const { out } = await ask("status", {
      overview: { ...overview, ...progress, modules: [running, web] },
      terminal: { isTerminal: false },
    });
    expect(out.printed.includes("What to do: docs/guides/on-call.md#helm-hangs")).toBe(isLinked);
    expect(out.printed.includes("What to do")).toBe(isLinked);
  },
);

it("status shows an unfinished run as running", async () => {
  const overview = ailingOverview();
  const [db] = overview.modules;
  if (db?.lastRun === undefined) throw new Error("there is no run");
  const { result: _, ...lastRun } = {
    ...db.lastRun,
    step: "helm",
    seconds: 4,
    cause: "start-up",
    attempts: 2,
  };
  const { out } = await ask("status", {
    overview: { ...overview, modules: [{ ...db, lastRun }] },
    terminal: { isTerminal: false },
  });
  expect(out.printed).toMatch(
    /\n {2}runs: at helm for 4s \(start-up\), tried 2 times since 2025-12-31T23:58:00Z\n\nWhat to do: /,
  );
});

it.each([
  ["module list", { isTerminal: false }],
  ["module list -o yaml", {}],
])("%s is what scripts read where nobody looks, or with -o", async (line, terminal) => {
  const { out } = await ask(line, { overview: ailingOverview(), terminal });
  expect(out.printed).toBe("enabledModules: []\n");
});

it.each([
  [
    { status: 404, body: "no such path: /overview; see /discovery\n" },
    /no such path.*\nThe running operator may be older than/,
  ],
  [
    { status: 503, body: "this operator is a follower. Query the leader: a-1.\n" },
    /^this operator is a follower. Query the leader: a-1.\n$/,
  ],
])("says plainly why there is no answer: %j", async (overview, message) => {
  const { code, out } = await ask("status", { overview });
  expect([code, out.printed]).toEqual([1, ""]);
  expect(out.complained).toMatch(message);
});

it.each([
  [
    "module diff web",
    404,
    "module: use values, config\n",
    /^module: use values.*\nThe running operator may be older/,
  ],
  ["raw /nowhere", 404, "no such path: /nowhere\n", /^no such path: \/nowhere\n$/],
  ["module why web", 500, "module not found: web\n", /^module not found: web\n$/],
])(
  "%s says what the operator says against it, and whether that is because it is older",
  async (...[line, status, body, reported]) => {
    const { setting } = await answeringSocket(() => ({ status, body }));
    let complained = "";
    const terminal = { env: {}, print: () => {}, printError: (part: string) => void (complained += part) };
    const around: Terminal = {
      ...terminal,
      confirm: () => Promise.resolve(false),
      isTerminal: false,
      columns: 80,
    };
    expect(await printResponse(lineOf([...line.split(" "), setting]), around)).toBe(1);
    expect(complained).toMatch(reported);
  },
);

/** Watches an operator that goes from one overview to another, and is then gone. */
async function watched(isTerminal: boolean): Promise<string> {
  const rest = [calmOverview(), ailingOverview(), ailingOverview()];
  const { setting } = await answeringSocket(() => {
    const next = rest.shift();
    return next === undefined ? { status: 503, body: "gone\n" } : JSON.stringify(next);
  });
  const clock = new ManualClock(T0);
  let printed = "";
  const terminal: Terminal = {
    env: { NO_COLOR: "1" },
    print: (part) => void (printed += part),
    printError: () => {},
    confirm: () => Promise.resolve(false),
    isTerminal,
    columns: 80,
  };
  const over = { is: false };
  const run = showStatus(lineOf(["status", "--watch", setting]), terminal, clock);
  const end = (): void => void (over.is = true);
  void run.then(end, end);
  while (!over.is) {
    await settle();
    if (clock.timers > 0) await clock.advance(1000);
  }
  expect(await run).toBe(1);
  return printed;
}

it("--watch redraws in place on a terminal", async () => {
  const printed = await watched(true);
  expect(printed.split("\u001b[H\u001b[J").map((each) => each.split(":")[0])).toEqual([
    "",
    "Ready",
    "Retrying",
    "Retrying",
  ]);
});

it("--watch is a line for each change elsewhere", async () => {
  const lines = (await watched(false)).trimEnd().split("\n");
  expect(lines.filter((line) => line.startsWith("db: "))).toEqual([
    "db: Ready: Release db.v3 is in place",
    expect.stringMatching(/^db: Retrying: /),
  ]);
  expect(lines.filter((line) => line.startsWith("shop: "))).toEqual([
    "shop: Ready: Release shop.v3 is in place",
    expect.stringContaining("; changed by others: kubectl changed spec.replicas"),
  ]);
});
