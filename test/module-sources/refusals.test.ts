import { expect, it } from "vitest";

import { PASSWORD, USER, type Switches } from "../support/registry.ts";
import { keyPair, moduleDir } from "../registry/artifact/lab.ts";
import { filesOf, sourcesLab, SOURCES, type SourcesLab } from "./lab.ts";

// docs/guides/module-sources.md, "Check the status": what a user sees when a request of a check fails, and the locked version runs.

const MINUTE = 60_000;
const HTML = { status: 200, headers: { "content-type": "text/html" }, body: "<html>Log in</html>" };
const FAULTS: Readonly<Record<string, { status: number; headers?: Record<string, string>; body?: string }>> =
  {
    401: { status: 401 },
    403: { status: 403 },
    404: { status: 404 },
    405: { status: 405 },
    409: { status: 409 },
    410: { status: 410 },
    422: { status: 422 },
    429: { status: 429 },
    "429 with a pause": { status: 429, headers: { "retry-after": "3600" } },
    500: { status: 500 },
    503: { status: 503 },
    HTML,
  };

/** The requests of a check, each as a part of its line, and the versions that the source names. */
const REQUESTS: Readonly<Record<string, { part: RegExp; request: { version?: string; tag?: string } }>> = {
  token: { part: /token/, request: { version: "^1" } },
  "tag list": { part: /tags/, request: { version: "^1" } },
  tag: { part: /(?:HEAD|GET) .*manifests\/(?:stable|1\.)/, request: { tag: "stable" } },
  manifest: { part: /manifests\/sha256:/, request: { version: "^1" } },
  blob: { part: /blobs/, request: { version: "^1" } },
  signatures: { part: /referrers|manifests\/sha256-/, request: { version: "^1" } },
};

const conditionsOf = (lab: SourcesLab) =>
  Object.fromEntries((lab.status().conditions ?? []).map(({ type, ...each }) => [type, each]));

/** What a user sees: the version in use, the conditions, and the reason of the module's check. */
function seen(lab: SourcesLab): string {
  const { Ready, Reachable, CheckFailed, Stalled } = conditionsOf(lab);
  const [module] = lab.status().modules ?? [];
  const words = [
    module?.version === "1.0.0" ? "kept" : "updated",
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

/** What a user sees after each fault of one request. */
async function seenAfterFaults(name: string): Promise<Record<string, string>> {
  const { part, request } = REQUESTS[name] ?? { part: /$/, request: {} };
  const lab = await running(request, { auth: "bearer", hasReferrers: true });
  await lab.push("1.1.0");
  await lab.lab.tag("web:1.1.0", "stable");
  const table: Record<string, string> = {};
  for (const [fault, answer] of Object.entries(FAULTS)) {
    lab.lab.registry.instead = (line) => (part.test(line) ? answer : undefined);
    await sync(lab);
    table[fault] = seen(lab);
  }
  lab.lab.registry.instead = () => undefined;
  await sync(lab);
  table["none"] = seen(lab);
  return table;
}

const REFUSED = "kept Ready=True Reachable=Refused CheckFailed CheckFailed";
const FAILED = "kept Ready=True Reachable=Answered CheckFailed CheckFailed";
const BROKEN = "kept Ready=True Reachable=NoAnswer CheckFailed CheckFailed";
const NONE = "updated Ready=True Reachable=Answered";
const WITHDRAWN = "kept Ready=True Reachable=Answered Withdrawn";
/** As long as checks fail, what the registry has confirmed stays: here, the answer 404 before. */
const still = (seenBefore: string, reason: string): string =>
  `${seenBefore.replace(/ CheckFailed$/, "")} ${reason}`;
const AFTER_404 = {
  405: still(FAILED, "Withdrawn"),
  409: still(FAILED, "Withdrawn"),
  410: still(FAILED, "Withdrawn"),
  422: still(FAILED, "Withdrawn"),
  429: still(REFUSED, "Withdrawn"),
  "429 with a pause": still(REFUSED, "Withdrawn"),
  500: still(BROKEN, "Withdrawn"),
  503: still(BROKEN, "Withdrawn"),
  HTML: still(FAILED, "Withdrawn"),
};
const PLAIN = {
  401: REFUSED,
  403: REFUSED,
  404: FAILED,
  405: FAILED,
  409: FAILED,
  410: FAILED,
  422: FAILED,
  429: REFUSED,
  "429 with a pause": REFUSED,
  500: BROKEN,
  503: BROKEN,
  HTML: FAILED,
  none: NONE,
};
const NOT_VERIFIED = "kept Ready=False Reachable=Answered Stalled NotVerified";
const unverified = (reachable: string): string =>
  `kept Ready=False Reachable=${reachable} CheckFailed Stalled NotVerified`;

/** By request and fault: what a user sees. */
const SEEN: Readonly<Record<string, object>> = {
  token: { ...PLAIN, HTML: BROKEN },
  "tag list": { ...PLAIN, 404: WITHDRAWN, ...AFTER_404 },
  tag: { ...PLAIN, 404: WITHDRAWN, ...AFTER_404 },
  manifest: PLAIN,
  blob: PLAIN,
  // Where no list of signatures exists (404), nobody has signed. That stays so while checks fail.
  signatures: {
    401: REFUSED,
    403: REFUSED,
    404: NOT_VERIFIED,
    405: unverified("Answered"),
    409: unverified("Answered"),
    410: unverified("Answered"),
    422: unverified("Answered"),
    429: unverified("Refused"),
    "429 with a pause": unverified("Refused"),
    500: unverified("NoAnswer"),
    503: unverified("NoAnswer"),
    HTML: unverified("Answered"),
    none: NONE,
  },
};

it.each(Object.keys(REQUESTS))("a fault of the request for the %s is visible", async (name) => {
  expect(await seenAfterFaults(name)).toEqual(SEEN[name]);
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
  expect(seen(lab)).toBe("kept Ready=True Reachable=Answered");
  expect(lab.state.view.sourceProblems).toEqual([]);
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
  expect([lab.content("web"), seen(lab)]).toEqual(["1.5.0", NONE]);
});
