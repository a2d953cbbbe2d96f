import { expect, it } from "vitest";

import { PASSWORD, USER, type ScriptedAnswer, type Switches } from "../support/registry.ts";
import { keyPair, moduleDir } from "./registry/artifact/lab.ts";
import { chartOf, chartServer } from "./registry/charts/lab.ts";
import { filesOf, sourcesLab, SOURCES, type SourcesLab } from "./lab.ts";

// docs/guides/module-sources.md, "Check the status": what a user sees when a request of a check fails, and the locked version runs.

const MINUTE = 60_000;
/** Longer than each answer of the servers here, and short enough to wait for. */
const TIMEOUT_MS = 250;
const PAGE = { headers: { "content-type": "text/html" }, body: "<html>Log in</html>" };
/** The answers, in the order of the checks. */
const FAULTS: readonly (readonly [name: string, answer: ScriptedAnswer])[] = [
  ["401", { status: 401 }],
  ["403", { status: 403 }],
  ["405", { status: 405 }],
  ["409", { status: 409 }],
  ["410", { status: 410 }],
  ["422", { status: 422 }],
  ["429", { status: 429 }],
  ["429 with a pause", { status: 429, headers: { "retry-after": "3600" } }],
  ["500", { status: 500 }],
  ["503", { status: 503 }],
  ["HTML", { status: 200, ...PAGE }],
  ["503 as HTML", { status: 503, ...PAGE }],
  ["nothing", { status: 200 }],
  ["other JSON", { status: 200, body: '{"login":true}' }],
  ["cut", "cut"],
  ["cut within", "half"],
  ["never", "never"],
  ["never ends", "stalls"],
  ["404", { status: 404 }],
  ["503 after that", { status: 503 }],
  ["slow", "slow"],
];

interface Asked {
  /** A part of the line of the request. */
  readonly part: RegExp;
  readonly request: { version?: string; tag?: string };
  /** It goes to a chart repository. */
  readonly isChart?: true;
}

/** The requests of a check, and the versions that the source names. */
const REQUESTS: Readonly<Record<string, Asked>> = {
  token: { part: /token/, request: { version: "^1" } },
  "tag list": { part: /tags/, request: { version: "^1" } },
  tag: { part: /(?:HEAD|GET) .*manifests\/(?:stable|1\.)/, request: { tag: "stable" } },
  manifest: { part: /manifests\/sha256:/, request: { version: "^1" } },
  blob: { part: /blobs/, request: { version: "^1" } },
  signatures: { part: /referrers|manifests\/sha256-/, request: { version: "^1" } },
  "index.yaml": { part: /index\.yaml/, request: { version: "^1" }, isChart: true },
  archive: { part: /\.tgz/, request: { version: "^1" }, isChart: true },
};

const conditionsOf = (lab: SourcesLab) =>
  Object.fromEntries((lab.status().conditions ?? []).map(({ type, ...each }) => [type, each]));

/** Whether the status, the lock and the disk all have this version. */
function isInUse(lab: SourcesLab, version: string): boolean {
  const all = [lab.status().modules?.[0]?.version, lab.locked("web")?.["version"], lab.content("web")];
  return all.every((each) => each === version);
}

/** What a user sees: the version in use, the conditions, and the reason of the module's check. */
function seen(lab: SourcesLab): string {
  const { Ready, Reachable, CheckFailed, Stalled } = conditionsOf(lab);
  const [module] = lab.status().modules ?? [];
  const words = [
    ["1.0.0", "1.1.0", "1.5.0"].find((version) => isInUse(lab, version)) ?? "SEVERAL",
    `Ready=${Ready?.status}`,
    `Reachable=${Reachable?.reason}`,
    CheckFailed && "CheckFailed",
    Stalled && "Stalled",
    module?.check?.reason,
  ];
  return words.filter((word) => word !== undefined).join(" ");
}

let token = 0;
/** Requests a check as `source sync` does, and waits for it. */
async function sync(lab: SourcesLab): Promise<void> {
  const requestedAt = `token-${(token += 1)}`;
  const { metadata, spec } = lab.api.get(`${SOURCES}/platform`) as { metadata: object; spec: object };
  const annotations = { "reconcile.addon-operator.io/requestedAt": requestedAt };
  lab.api.put(`${SOURCES}/platform`, {
    metadata: { ...metadata, annotations },
    spec,
    status: lab.status(),
  } as never);
  await lab.pass(MINUTE, () => lab.status().lastHandledReconcileAt === requestedAt);
}

async function running(request: object, switches: Switches = {}): Promise<SourcesLab> {
  const lab = await sourcesLab(undefined, switches);
  const { host } = lab.lab.registry;
  const auths = { [host]: { username: USER, password: PASSWORD } };
  lab.api.put("/api/v1/namespaces/ops/secrets/login", {
    type: "kubernetes.io/dockerconfigjson",
    data: { ".dockerconfigjson": Buffer.from(JSON.stringify({ auths })).toString("base64") },
  });
  await lab.push("1.0.0");
  await lab.lab.tag("web:1.0.0", "stable");
  lab.charts({
    registry: `oci://${host}/modules`,
    plainHttp: true,
    secret: "login",
    modules: { web: request },
  });
  await lab.start();
  await lab.pass(MINUTE, () => lab.content("web") === "1.0.0" && lab.status().summary === "1/1");
  return lab;
}

interface Place {
  readonly lab: SourcesLab;
  /** Answers all requests with such a line. */
  readonly answer: (part: RegExp, answer: ScriptedAnswer) => void;
}

/** A registry with a newer version than the one that runs. */
async function registryPlace(request: object): Promise<Place> {
  const lab = await running(request, { auth: "bearer", hasReferrers: true });
  await lab.push("1.1.0");
  await lab.lab.tag("web:1.1.0", "stable");
  const { registry } = lab.lab;
  const answer: Place["answer"] = (part, scripted) =>
    void (registry.instead = (line) => (part.test(line) ? scripted : undefined));
  return { lab, answer };
}

/** A chart repository with a newer version than the one that runs. */
async function chartPlace(request: object): Promise<Place> {
  const lab = await sourcesLab();
  const server = await chartServer();
  lab.unsignedCharts = [server.url];
  server.publish(chartOf("web", "1.0.0"));
  lab.charts({ charts: server.url, unsigned: true, plainHttp: true, modules: { web: request } });
  await lab.start();
  await lab.pass(MINUTE, () => lab.content("web") === "1.0.0" && lab.status().summary === "1/1");
  server.publish(chartOf("web", "1.1.0"));
  const answer: Place["answer"] = (part, scripted) =>
    void (server.instead = (path) => (part.test(path) ? scripted : undefined));
  return { lab, answer };
}

/** A restart with this limit for requests: the default is too long to wait for, and a short one too short for a busy machine. */
async function limitTime(lab: SourcesLab, registryTimeoutMs: number | undefined): Promise<void> {
  if (lab.registryTimeoutMs === registryTimeoutMs) return;
  lab.registryTimeoutMs = registryTimeoutMs;
  await lab.start();
}

/** What a user sees after each fault of one request. */
async function seenAfterFaults(name: string): Promise<Record<string, string>> {
  const { part, request, isChart } = REQUESTS[name] as Asked;
  const { lab, answer } = await (isChart === true ? chartPlace(request) : registryPlace(request));
  const table: Record<string, string> = {};
  for (const [fault, scripted] of FAULTS) {
    await limitTime(lab, scripted === "never" || scripted === "stalls" ? TIMEOUT_MS : undefined);
    answer(part, scripted);
    await sync(lab);
    table[fault] = seen(lab);
  }
  return table;
}

const REFUSED = "1.0.0 Ready=True Reachable=Refused CheckFailed CheckFailed";
const FAILED = "1.0.0 Ready=True Reachable=Answered CheckFailed CheckFailed";
const BROKEN = "1.0.0 Ready=True Reachable=NoAnswer CheckFailed CheckFailed";
const DONE = "1.1.0 Ready=True Reachable=Answered";
const WITHDRAWN = "1.0.0 Ready=True Reachable=Answered Withdrawn";
/** As long as checks fail, what the registry has confirmed stays: here, the answer 404 before. */
const WITHDRAWN_BEFORE = "1.0.0 Ready=True Reachable=NoAnswer CheckFailed Withdrawn";
const NOT_VERIFIED = "1.0.0 Ready=False Reachable=Answered Stalled NotVerified";
const unverified = (reachable: string): string =>
  `1.0.0 Ready=False Reachable=${reachable} CheckFailed Stalled NotVerified`;

/** By fault: what a user sees, whichever request it is. */
const PLAIN: Readonly<Record<string, string>> = {
  ...Object.fromEntries(FAULTS.map(([fault]) => [fault, FAILED])),
  ...Object.fromEntries(["401", "403", "429", "429 with a pause"].map((fault) => [fault, REFUSED])),
  ...Object.fromEntries(
    ["500", "503", "503 as HTML", "cut", "never", "503 after that"].map((fault) => [fault, BROKEN]),
  ),
  slow: DONE,
};
const GONE = { 404: WITHDRAWN, "503 after that": WITHDRAWN_BEFORE };

/** By request: what is different. */
const SEEN: Readonly<Record<string, object>> = {
  // Without a token, the registry itself gives no answer.
  token: Object.fromEntries(
    ["HTML", "nothing", "other JSON", "cut within", "never ends"].map((fault) => [fault, BROKEN]),
  ),
  "tag list": GONE,
  // The head of an answer has no body that could be cut.
  tag: { ...GONE, "cut within": BROKEN, "never ends": BROKEN },
  manifest: {},
  blob: {},
  // Where no list of signatures exists (404), nobody has signed. That stays so while checks fail.
  signatures: { 404: NOT_VERIFIED, "503 after that": unverified("NoAnswer") },
  "index.yaml": {},
  archive: {},
};

it.each(Object.keys(REQUESTS))("a fault of the request for the %s is visible", async (name) => {
  expect(await seenAfterFaults(name)).toEqual({ ...PLAIN, ...SEEN[name] });
});

it("what the registry has refused stays refused while it is away, also after a restart, until it answers", async () => {
  const lab = await running({ tag: "stable" });
  await lab.push("1.5.0", { key: keyPair() });
  await lab.lab.tag("web:1.5.0", "stable");
  await sync(lab);
  expect(seen(lab)).toBe(NOT_VERIFIED);
  const { error } = lab.status().modules?.[0] ?? {};
  lab.lab.registry.instead = () => ({ status: 503 });
  await sync(lab);
  await lab.start();
  await lab.pass(10 * MINUTE, () => lab.state.view.sourceProblems.length > 0);
  expect(seen(lab)).toBe(unverified("NoAnswer"));
  expect(lab.status().modules?.[0]?.error).toBe(error);
  expect(lab.state.view.sourceProblems).toEqual([expect.stringContaining("platform: NotVerified: web: ")]);
  lab.lab.registry.instead = () => undefined;
  await lab.lab.tag("web:1.0.0", "stable");
  await lab.pass(20 * MINUTE, () => conditionsOf(lab)["Ready"]?.status === "True");
  expect(seen(lab)).toBe("1.0.0 Ready=True Reachable=Answered");
  expect(lab.state.view.sourceProblems).toEqual([]);
});

it("what the registry has refused stays refused while the source is suspended, also after a restart", async () => {
  const lab = await running({ tag: "stable" });
  await lab.push("1.5.0", { key: keyPair() });
  await lab.lab.tag("web:1.5.0", "stable");
  await sync(lab);
  expect(seen(lab)).toBe(NOT_VERIFIED);
  const { metadata, spec } = lab.api.get(`${SOURCES}/platform`) as { metadata: object; spec: object };
  const suspended = { metadata, spec: { ...spec, suspend: true } };
  lab.api.put(`${SOURCES}/platform`, { ...suspended, status: lab.status() } as never);
  await lab.pass(5 * MINUTE, () => lab.status().observedGeneration === 2);
  expect(lab.status().observedGeneration).toBe(2);
  expect(seen(lab)).toBe(NOT_VERIFIED);
  await lab.start();
  await lab.pass(5 * MINUTE);
  // The new process has sent no request.
  expect(seen(lab)).toBe(NOT_VERIFIED.replace("Answered", "NotAsked"));
});

it("failing checks are reported once as an Event and in the log, with a series while they fail", async () => {
  const lab = await running({ version: "^1" });
  const series = async (): Promise<boolean> =>
    (await lab.metrics.renderText()).includes('test_source_check_failed{source="platform"} 1');
  lab.lab.registry.instead = (line) => (line.includes("tags") ? { status: 401 } : undefined);
  await sync(lab);
  await sync(lab);
  const failed = lab.events.filter(({ reason }) => reason === "SourceCheckFailed");
  expect(failed).toEqual([
    {
      module: undefined,
      reason: "SourceCheckFailed",
      note: expect.stringMatching(/^ModuleSource platform .*401/),
    },
  ]);
  expect(lab.warnings.filter((line) => line.includes("cannot be checked"))).toHaveLength(1);
  expect(conditionsOf(lab)["Ready"]?.message).toMatch(
    /in place; newer versions cannot be looked up: web: .*401/,
  );
  expect(await series()).toBe(true);
  lab.lab.registry.instead = () => undefined;
  await sync(lab);
  expect(await series()).toBe(false);
});

it("a pause that the registry asks for is kept by the checks, and the status says so", async () => {
  const lab = await running({ version: "^1" });
  lab.lab.registry.instead = () => ({ status: 429, headers: { "retry-after": "3600" } });
  const calls = lab.lab.registry.calls.length;
  await sync(lab);
  const { nextCheck = "", lastCheck = "" } = lab.status();
  expect(Date.parse(nextCheck) - Date.parse(lastCheck)).toBeGreaterThanOrEqual(3_590_000);
  expect(conditionsOf(lab)["CheckFailed"]?.message).toContain("the registry asks for a pause until 20");
  await lab.pass(50 * MINUTE);
  expect(lab.lab.registry.calls.length - calls).toBe(1);
  await sync(lab);
  expect(lab.lab.registry.calls.length - calls).toBe(2);
});

it.each(["the next checks", "a request of a user"])(
  "content that is signed later is used by %s",
  async (by) => {
    const lab = await running({ tag: "stable" });
    const digest = await lab.lab.push("1.5.0", { key: "none", dir: moduleDir(filesOf("1.5.0")) });
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.status().modules?.[0]?.check?.reason === "NotVerified");
    await lab.push("1.5.0");
    if (by === "a request of a user") await sync(lab);
    else await lab.pass(11 * MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.locked("web")).toMatchObject({ digest });
    expect(lab.events.filter(({ reason }) => reason === "NotVerified")).toHaveLength(1);
  },
);

it("content of another version than the spec named is used once the spec is corrected", async () => {
  const lab = await running({ tag: "stable" });
  const digest = await lab.push("1.5.0");
  lab.source({ web: { version: "1.6.0", digest } });
  await lab.pass(MINUTE, () => lab.status().modules?.[0]?.check?.reason === "NotVerified");
  lab.source({ web: { version: "1.5.0", digest } });
  await lab.pass(MINUTE, () => lab.status().modules?.[0]?.check === undefined);
  expect([lab.content("web"), seen(lab)]).toEqual(["1.5.0", "1.5.0 Ready=True Reachable=Answered"]);
});
