import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { ApiError } from "../../src/kube/index.ts";
import { filesOf, LOCK, sourcesLab, type SourcesLab } from "./lab.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const APPROVE = "addon-operator.io/approve";

type Update = Parameters<SourcesLab["source"]>[2];

/** A process that leads, with version 1.4.2 of the channel `stable` in place. */
async function running(
  request: { version?: string; tag?: string } = { version: "^1" },
  update?: Update,
): Promise<SourcesLab> {
  const lab = await sourcesLab();
  await lab.push("1.4.2");
  await lab.lab.tag("web:1.4.2", "stable");
  lab.source({ web: request }, "platform", update);
  await lab.start();
  await lab.pass(MINUTE, () => lab.content("web") === "1.4.2" && ready(lab) === "True");
  return lab;
}

const condition = (lab: SourcesLab, type: string) =>
  lab.status().conditions?.find((each) => each.type === type);
const ready = (lab: SourcesLab): string | undefined => condition(lab, "Ready")?.status;
const nextOf = (lab: SourcesLab, name = "web") =>
  lab.status().modules?.find((each) => each.name === name)?.next;
/** Lets time pass until checks have led to this. */
const until = (lab: SourcesLab, done: () => boolean): Promise<void> => lab.pass(6 * MINUTE, done);
const waiting =
  (lab: SourcesLab, name = "web") =>
  (): boolean =>
    nextOf(lab, name) !== undefined;
const has = (lab: SourcesLab, version: string) => (): boolean => lab.content("web") === version;

const digestIn = (lab: SourcesLab): string => lab.locked("web")?.["digest"] as string;

/** The disk loses a manifest. */
const dropBlob = ({ dir }: SourcesLab, digest: string): void =>
  rmSync(join(dir, "blobs/sha256", digest.replace("sha256:", "")));

/** Tells the process what the directories contain, as the operator does. */
async function read(lab: SourcesLab): Promise<void> {
  lab.state.recordTree(await lab.tree());
}

describe("a range", () => {
  it("is followed to its highest version, without a request for what is in use", async () => {
    const lab = await running();
    await lab.push("1.5.0");
    await lab.push("2.0.0");
    await until(lab, has(lab, "1.5.0"));
    expect(lab.content("web")).toBe("1.5.0");
    await lab.pass(MINUTE);
    const before = lab.lab.registry.calls.length;
    await lab.pass(HOUR);
    await until(lab, () => lab.lab.registry.calls.length > before);
    const lines = lab.lab.registry.calls.slice(before).map(({ line }) => line);
    expect(new Set(lines)).toEqual(new Set(["GET /v2/modules/web/tags/list"]));
    expect(lines.length).toBeLessThanOrEqual(14);
  });

  it("keeps what is in use while the registry is away, and stays Ready", async () => {
    const lab = await running();
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await until(lab, () => condition(lab, "Reachable")?.status === "False");
    expect([lab.content("web"), ready(lab), condition(lab, "Reachable")?.status]).toEqual([
      "1.4.2",
      "True",
      "False",
    ]);
  });
});

it("is not updated for a source that was deleted and created anew during the check", async () => {
  const lab = await running({ version: "*" });
  await lab.push("1.5.0");
  const { calls } = lab.lab.registry;
  const before = calls.length;
  lab.lab.registry.failures = { status: 503, left: 1, retryAfter: "4" };
  await until(lab, () => calls.length > before);
  lab.removeSource();
  lab.source({ web: { version: "~1.4" } });
  await lab.pass(2000);
  expect(calls.length).toBe(before + 1);
  await lab.pass(MINUTE, () => ready(lab) === "True");
  expect([lab.content("web"), lab.events.map(({ note }) => note)]).toEqual([
    "1.4.2",
    ["version 1.4.2 of ModuleSource platform is in place"],
  ]);
});

describe("a channel", () => {
  it("costs one HEAD a check, and is followed when it moves", async () => {
    const lab = await running({ tag: "stable" });
    const before = lab.lab.registry.calls.length;
    await lab.pass(HOUR);
    await until(lab, () => lab.lab.registry.calls.length > before);
    const lines = lab.lab.registry.calls.slice(before).map(({ line }) => line);
    expect(new Set(lines)).toEqual(new Set(["HEAD /v2/modules/web/manifests/stable"]));
    expect(lines.length).toBeLessThanOrEqual(14);
    await lab.push("1.5.0");
    await lab.lab.tag("web:1.5.0", "stable");
    await until(lab, has(lab, "1.5.0"));
    expect(lab.content("web")).toBe("1.5.0");
  });

  it("that moves back is not followed, also after a restart", async () => {
    const lab = await running({ tag: "stable" });
    await lab.push("1.3.0");
    await lab.lab.tag("web:1.3.0", "stable");
    await until(lab, waiting(lab));
    await lab.start();
    const { lastCheck } = lab.status();
    await until(lab, () => lab.status().lastCheck !== lastCheck);
    expect([lab.content("web"), nextOf(lab)?.version]).toEqual(["1.4.2", "1.3.0"]);
    expect(nextOf(lab)?.held).toContain("modules do not go back by themselves");
  });

  it("that is gone leaves what is in use, and is told", async () => {
    const lab = await running({ tag: "stable" });
    lab.lab.registry.manifests.delete("modules/web@stable");
    await until(lab, () => condition(lab, "Withdrawn") !== undefined);
    expect([lab.content("web"), ready(lab)]).toEqual(["1.4.2", "True"]);
    expect(condition(lab, "Withdrawn")?.message).toBe("web: the registry has no tag stable");
  });
});

describe("an approval", () => {
  it("lets one content through, once", async () => {
    const lab = await running({ version: "*" }, { approval: "patch" });
    const digest = await lab.push("1.5.0");
    await until(lab, waiting(lab));
    expect([lab.content("web"), lab.status().waiting, nextOf(lab)?.version]).toEqual(["1.4.2", 1, "1.5.0"]);
    expect(lab.locked("web")).toMatchObject({ version: "1.4.2", seen: { version: "1.5.0", digest } });
    expect(lab.events.filter(({ reason }) => reason === "UpdateHeld")).toHaveLength(1);
    await read(lab);
    lab.state.recordModule("web", "annotationsObserved", { [APPROVE]: `1.5.0@${digest}` });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0" && lab.status().waiting === 0);
    expect(lab.content("web")).toBe("1.5.0");
    const { confirmedUpdate, endedConfirmations } = lab.state.module("web") ?? {};
    expect([confirmedUpdate, endedConfirmations]).toEqual([undefined, { [APPROVE]: `1.5.0@${digest}` }]);
  });

  it("of content that does not wait is reported once, with what waits", async () => {
    const lab = await running({ version: "*" }, { approval: "patch" });
    const digest = await lab.push("1.5.0");
    await until(lab, waiting(lab));
    await read(lab);
    const stale = `1.4.9@sha256:${"0".repeat(64)}`;
    lab.state.recordModule("web", "annotationsObserved", { [APPROVE]: stale });
    const unmatched = () => lab.events.filter(({ reason }) => reason === "ApprovalUnmatched");
    await until(lab, () => unmatched().length > 0);
    const note = `the annotation ${APPROVE} approves ${stale}, but 1.5.0@${digest} waits`;
    expect(unmatched()).toEqual([{ module: "web", reason: "ApprovalUnmatched", note }]);
    await lab.pass(2 * HOUR);
    expect([lab.content("web"), unmatched().length]).toEqual(["1.4.2", 1]);
  });

  it("counts after an edit of the source during the check that would have used it", async () => {
    const lab = await running({ version: "*" }, { approval: "patch" });
    const digest = await lab.push("1.5.0");
    await until(lab, waiting(lab));
    await read(lab);
    const { calls } = lab.lab.registry;
    const before = calls.length;
    lab.lab.registry.failures = { status: 503, left: 1, retryAfter: "4" };
    lab.state.recordModule("web", "annotationsObserved", { [APPROVE]: `1.5.0@${digest}` });
    await lab.pass(500, () => calls.length > before);
    lab.source({ web: { version: "*", order: 5 } }, "platform", { approval: "patch" });
    await lab.pass(2000);
    expect([lab.content("web"), calls.length]).toEqual(["1.4.2", before + 1]);
    const events = (): string[] => lab.events.map(({ reason }) => reason).slice(2);
    await lab.pass(MINUTE, () => events().includes("SourceUpdated"));
    expect([lab.content("web"), lab.locked("web")?.["order"], events()]).toEqual([
      "1.5.0",
      5,
      ["UpdateApproved", "SourceUpdated"],
    ]);
  });

  it("of a first installation is waited for", async () => {
    const lab = await sourcesLab();
    await lab.push("1.4.2");
    lab.source({ web: { version: "*" } }, "platform", { approval: "manual" });
    await lab.start();
    await until(lab, waiting(lab));
    expect([lab.content("web"), ready(lab), nextOf(lab)?.version]).toEqual([undefined, "False", "1.4.2"]);
  });
});

it("a window is waited for, and the check comes when it opens", async () => {
  const lab = await running({ version: "*" }, { windows: [{ cron: "CRON_TZ=UTC 0 3 * * *", for: "1h" }] });
  await lab.pass(HOUR);
  await lab.push("1.5.0");
  const at = (): number => new Date(lab.clock.now()).getUTCHours();
  while (at() === 3) await lab.pass(HOUR);
  await until(lab, waiting(lab));
  const { until: opening = "" } = nextOf(lab) ?? {};
  expect([lab.content("web"), new Date(opening).getUTCHours()]).toEqual(["1.4.2", 3]);
  await lab.pass(Date.parse(opening) - lab.clock.now() - 60_000);
  expect(lab.content("web")).toBe("1.4.2");
  await lab.pass(70_000, has(lab, "1.5.0"));
  expect(lab.content("web")).toBe("1.5.0");
});

describe("updates of one source", () => {
  it("begin one after another, when the last one is good", async () => {
    const lab = await running();
    await lab.push("1.0.0", { name: "db" });
    lab.source({ web: { version: "^1" }, db: { version: "^1" } });
    await lab.pass(MINUTE, () => lab.content("db") === "1.0.0");
    await lab.push("1.5.0");
    await lab.push("1.1.0", { name: "db" });
    await until(lab, waiting(lab, "db"));
    expect([lab.content("web"), lab.content("db")]).toEqual(["1.5.0", "1.0.0"]);
    expect(nextOf(lab, "db")?.held).toContain("1.1.0 waits while the update of web to 1.5.0 is in progress");
    await read(lab);
    await lab.pass(MINUTE);
    expect(lab.content("db")).toBe("1.0.0");
    lab.state.recordModule("web", "enablementDecided", { enabled: false, by: "none" });
    await lab.pass(MINUTE, () => lab.content("db") === "1.1.0");
    expect(lab.content("db")).toBe("1.1.0");
    expect(lab.locked("web")).not.toHaveProperty("isNew");
  });

  it("are recorded as proven although the API server fails once, and nothing changes after that", async () => {
    const lab = await running();
    await lab.push("1.5.0");
    await until(lab, has(lab, "1.5.0"));
    await lab.pass(MINUTE);
    await read(lab);
    let failures = 0;
    lab.refuse = ({ method, path }) =>
      path === LOCK && method === "PATCH" && (failures += 1) === 1
        ? new ApiError({ status: 500, reason: "InternalError", message: "etcd has no leader" })
        : undefined;
    lab.state.recordModule("web", "enablementDecided", { enabled: false, by: "none" });
    await lab.pass(MINUTE, () => failures === 2);
    await lab.pass(MINUTE);
    expect(failures).toBe(2);
    expect(lab.locked("web")).not.toHaveProperty("isNew");
  });
});

describe("an update that fails", () => {
  const REJECTED = "1.5.0 is not tried again: it failed, and was rolled back";

  /** Version 1.5.0 is in use, and helm goes back to the revision of 1.4.2. */
  async function failing(
    request?: Parameters<typeof running>[0],
  ): Promise<{ lab: SourcesLab; digest: string }> {
    const lab = await running(request);
    const before = digestIn(lab);
    const digest = await lab.push("1.5.0");
    if (request?.tag !== undefined) await lab.lab.tag("web:1.5.0", request.tag);
    if (request?.version === "1.4.2") lab.source({ web: { version: "1.5.0" } });
    await until(lab, () => lab.status().modules?.[0]?.version === "1.5.0");
    await read(lab);
    lab.installed.set("web", before);
    lab.state.recordModule("web", "runRolledBack", "helm failed", lab.clock.now());
    await until(lab, () => lab.content("web") === "1.4.2" && condition(lab, "Rejected") !== undefined);
    return { lab, digest };
  }

  it.each([{ version: "^1" }, { tag: "stable" }])("is left, and not tried again: %j", async (request) => {
    const { lab, digest } = await failing(request);
    expect(lab.content("web")).toBe("1.4.2");
    expect(lab.locked("web")).toMatchObject({ version: "1.4.2", rejected: [digest], isBack: true });
    expect(lab.status().modules).toMatchObject([{ rejected: [digest], next: { version: "1.5.0" } }]);
    expect(condition(lab, "Rejected")?.message).toBe(`web: 1.4.2 is in use again: ${REJECTED}`);
    expect([ready(lab), nextOf(lab)?.held]).toEqual(["True", expect.stringContaining(REJECTED)]);
    const rejections = lab.events.filter(({ reason }) => reason === "UpdateRejected");
    expect(rejections.map(({ note }) => note)).toEqual([
      "version 1.5.0 of ModuleSource platform failed, and 1.4.2 is in use again: helm failed",
    ]);
    await read(lab);
    await lab.start();
    await lab.pass(HOUR);
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("is left for the next version", async () => {
    const { lab, digest } = await failing();
    await lab.push("1.5.1");
    await until(lab, has(lab, "1.5.1"));
    await until(lab, () => condition(lab, "Rejected") === undefined);
    expect(lab.locked("web")).toMatchObject({ version: "1.5.1", rejected: [digest] });
    expect(condition(lab, "Rejected")).toBeUndefined();
  });

  it("is tried again when the source names it in another way", async () => {
    const { lab } = await failing();
    lab.source({ web: { version: "1.5.0" } });
    await until(lab, has(lab, "1.5.0"));
    expect(lab.content("web")).toBe("1.5.0");
  });

  it("is tried again when a user approves it, which is announced", async () => {
    const { lab, digest } = await failing();
    await read(lab);
    lab.state.recordModule("web", "annotationsObserved", { [APPROVE]: `1.5.0@${digest}` });
    const approved = (): number => lab.events.filter(({ reason }) => reason === "UpdateApproved").length;
    await until(lab, () => approved() > 0);
    expect([lab.content("web"), approved()]).toEqual(["1.5.0", 1]);
    expect(lab.locked("web")).not.toHaveProperty("rejected");
  });

  it("stalls a source that names this very version", async () => {
    const { lab } = await failing({ version: "1.4.2" });
    await until(lab, () => condition(lab, "Stalled") !== undefined);
    expect(condition(lab, "Stalled")).toMatchObject({
      reason: "Blocked",
      message: `web: ${REJECTED}; 1.4.2 is in use again`,
    });
  });

  it("keeps the other updates of its source", async () => {
    const { lab } = await failing();
    await lab.push("1.0.0", { name: "db" });
    lab.source({ web: { version: "^1" }, db: { version: "^1" } });
    await until(lab, () => lab.content("db") === "1.0.0");
    await lab.push("1.1.0", { name: "db" });
    await until(lab, waiting(lab, "db"));
    expect(nextOf(lab, "db")?.held).toContain(
      "1.1.0 waits because an update of web has failed, and 1.4.2 is in use again",
    );
  });

  it("stays if the content before cannot be used any more", async () => {
    const lab = await sourcesLab();
    // A first installation would wait for the other module.
    const files = { ...filesOf("1.4.2"), "addon.yaml": "requires: {modules: {db: '>=1'}}\n" };
    const before = await lab.push("1.4.2", { files });
    lab.source({ web: { version: "^1" } });
    await lab.start();
    await until(lab, () => lab.status().modules?.[0]?.version === "1.4.2");
    await lab.push("1.5.0");
    await until(lab, () => lab.status().modules?.[0]?.version === "1.5.0");
    await read(lab);
    lab.installed.set("web", before);
    lab.state.recordModule("web", "runRolledBack", "helm failed", lab.clock.now());
    await until(lab, () => condition(lab, "Stalled") !== undefined);
    expect(condition(lab, "Stalled")).toMatchObject({
      reason: "Blocked",
      message: expect.stringContaining("web: 1.5.0 failed, and 1.4.2 cannot be used again: "),
    });
    expect(lab.content("web")).toBe("1.5.0");
  });

  it("is left when the registry is there again, if the disk has lost the content before", async () => {
    const lab = await running();
    const before = digestIn(lab);
    await lab.push("1.5.0");
    await until(lab, () => lab.status().modules?.[0]?.version === "1.5.0");
    await read(lab);
    dropBlob(lab, before);
    lab.lab.registry.failures = { status: 503, left: Infinity };
    lab.installed.set("web", before);
    lab.state.recordModule("web", "runRolledBack", "helm failed", lab.clock.now());
    await until(lab, () => condition(lab, "Reachable")?.status === "False");
    expect(lab.content("web")).toBe("1.5.0");
    lab.lab.registry.failures = { status: 503, left: 0 };
    await until(lab, has(lab, "1.4.2"));
    expect(lab.content("web")).toBe("1.4.2");
  });
});
