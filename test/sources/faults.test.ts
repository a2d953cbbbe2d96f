import { isDeepStrictEqual } from "node:util";

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";

import { ApiError } from "../../src/kube/index.ts";
import type { JsonObject, Module } from "../../src/base/model/index.ts";
import { keyPair, tempDir } from "./registry/artifact/lab.ts";
import { filesOf, KEYS, LOCK, SOURCES, sourcesLab, type SourcesLab } from "./lab.ts";

// Faults of disk, lock and sources: what runs stays, other modules go on, and the status says what is wrong.

const MINUTE = 60_000;

async function running(made?: (lab: SourcesLab) => void): Promise<SourcesLab> {
  const lab = await sourcesLab();
  made?.(lab);
  await lab.push("1.4.2");
  lab.source({ web: { version: "1.4.2" } });
  await lab.start();
  await lab.pass(MINUTE, () => lab.content("web") === "1.4.2" && lab.status().summary === "1/1");
  return lab;
}

const errorOf = (lab: SourcesLab, module = "web", source = "platform"): string =>
  lab.status(source).modules?.find(({ name }) => name === module)?.error ?? "";

/** Lets time pass until the status of a module has such an error. */
async function untilError(lab: SourcesLab, text: string, module = "web"): Promise<void> {
  await lab.pass(10 * MINUTE, () => errorOf(lab, module).includes(text));
  expect(errorOf(lab, module)).toContain(text);
}

/** Lets time pass until `done`. A request that fails once must not take the delay that many failures take. */
async function passLessThanAMinute(lab: SourcesLab, done: () => boolean): Promise<void> {
  const begin = lab.clock.monotonic();
  await lab.pass(MINUTE, done);
  expect(lab.clock.monotonic() - begin).toBeLessThan(MINUTE);
}

/** Content that needs so many bytes on disk. */
const filesWith = (version: string, bytes: number): Record<string, string> => ({
  ...filesOf(version),
  "data.txt": randomBytes(bytes).toString("hex"),
});

/** The API server fails so many times at requests with such a path. */
function failing(times: number, matches: (path: string) => boolean): SourcesLab["refuse"] {
  let left = times;
  return ({ path }) =>
    matches(path) && left-- > 0
      ? new ApiError({ status: 500, reason: "InternalError", message: "no" })
      : undefined;
}

it("the CRD that the lock follows is recorded although the API server fails at first", async () => {
  const lab = await sourcesLab();
  lab.refuse = failing(5, (path) => path.includes("customresourcedefinitions"));
  await lab.push("1.4.2");
  lab.source({ web: { version: "1.4.2" } });
  await lab.start();
  const annotations = () =>
    (lab.api.get(LOCK) as { metadata: { annotations?: object } } | undefined)?.metadata.annotations;
  const recorded = { "addon-operator.io/modulesources-crd-uid": lab.crd };
  await lab.pass(2 * MINUTE, () => Object.values(annotations() ?? {}).includes(lab.crd));
  expect(annotations()).toMatchObject(recorded);
});

it("a key that the installer removes is not trusted any more although the API server fails at first", async () => {
  const lab = await running();
  lab.refuse = failing(3, (path) => path === KEYS);
  lab.api.put(KEYS, { data: { "new.pub": keyPair().publicPem } });
  const problem = (): string | undefined => lab.registryModules.origins.get("web")?.problem?.message;
  await passLessThanAMinute(lab, () => problem() !== undefined);
  expect(problem()).toContain("is locked, but not trusted");
});

describe("a disk", () => {
  it("on which the directory of modules cannot be written is tried again, without an edit or a check", async () => {
    const lab = await running();
    const dir = join(lab.dir, "modules");
    renameSync(dir, `${dir}-away`);
    writeFileSync(dir, "");
    lab.source({ web: { version: "1.4.2", order: 7 } } as never);
    await lab.pass(10_000);
    rmSync(dir);
    renameSync(`${dir}-away`, dir);
    expect(readdirSync(dir)).not.toContain("007-web");
    await lab.pass(MINUTE, () => readdirSync(dir).includes("007-web"));
    expect(readdirSync(dir)).toContain("007-web");
  });

  it("has no more than --sources-max", async () => {
    const lab = await running();
    await lab.push("1.5.0", { files: filesWith("1.5.0", 2_000_000) });
    lab.source({ web: { version: "1.5.0" } });
    await untilError(lab, "1000000 are allowed (--sources-max)");
    expect(lab.content("web")).toBe("1.4.2");
    await lab.push("1.4.3");
    lab.source({ web: { version: "1.4.3" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.3");
    expect(lab.content("web")).toBe("1.4.3");
  });

  it.runIf(canMount())("that is full keeps what runs, and is used again when there is room", async () => {
    const lab = await running((fresh) => mount(fresh.dir, "size=400k"));
    await lab.push("1.5.0", { files: filesWith("1.5.0", 350_000) });
    lab.source({ web: { version: "1.5.0" } });
    await untilError(lab, "cannot be stored: ENOSPC");
    expect(lab.content("web")).toBe("1.4.2");
    // The next try may be under way.
    await lab.pass(MINUTE, () => readdirSync(join(lab.dir, "blobs/part")).length === 0);
    mount(lab.dir, "remount,size=10m");
    await lab.pass(20 * MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.content("web")).toBe("1.5.0");
  });

  it.runIf(canMount())("that is read-only keeps what runs", async () => {
    const lab = await running((fresh) => mount(fresh.dir, "size=10m"));
    mount(lab.dir, "remount,ro");
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await untilError(lab, "EROFS");
    expect(lab.content("web")).toBe("1.4.2");
    mount(lab.dir, "remount,rw");
    await lab.pass(20 * MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.content("web")).toBe("1.5.0");
  });
});

/** Mounts a small disk at a directory until the test ends. */
function mount(dir: string, options: string): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", dir], { stdio: "pipe" });
  if (!options.includes("remount")) onTestFinished(() => void execFileSync("umount", ["-l", dir]));
}

/** Only root may mount, and not in each container. */
function canMount(): boolean {
  try {
    execFileSync("unshare", ["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], { stdio: "pipe" });
    return process.getuid?.() === 0;
  } catch {
    return false;
  }
}

describe("the lock", () => {
  it("that has no room for a module refuses that module alone", async () => {
    const lab = await running();
    const refusal = { status: 413, reason: "RequestEntityTooLarge", message: "the ConfigMap is too large" };
    lab.refuse = ({ path, body }) =>
      path === LOCK && JSON.stringify(body).includes('"db"') ? new ApiError(refusal) : undefined;
    await lab.push("1.0.0", { name: "db" });
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" }, db: { version: "1.0.0" } });
    await untilError(lab, "the ConfigMap is too large", "db");
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect([lab.content("web"), lab.content("db")]).toEqual(["1.5.0", undefined]);
  });

  it.each<[string, (lab: SourcesLab) => void]>([
    ["the whole lock", (lab) => lab.api.remove(LOCK)],
    ["an entry", (lab) => lab.api.put(LOCK, { ...lab.api.get(LOCK), data: {} })],
    [
      "an entry that someone edits",
      (lab) => {
        const entry = { ...lab.locked("web"), version: "9.9.9" };
        lab.api.put(LOCK, { ...lab.api.get(LOCK), data: { web: JSON.stringify(entry) } });
      },
    ],
  ])("that is lost while the process runs is written again as it was: %s", async (_, lose) => {
    const lab = await running();
    const before = lab.api.get(LOCK);
    lab.refuse = failing(1, (path) => path === LOCK);
    lose(lab);
    await passLessThanAMinute(lab, () => isDeepStrictEqual(lab.api.get(LOCK)?.["data"], before?.["data"]));
    expect(lab.api.get(LOCK)).toMatchObject({
      data: before?.["data"],
      metadata: { annotations: before?.metadata["annotations"] },
    });
    await lab.pass(MINUTE);
    expect(lab.warnings.filter((line) => line.includes("changed entries"))).toEqual([
      expect.stringContaining('"modules":"web"'),
    ]);
  });

  it("that is lost is made again of what the release was made from, not of what is newest", async () => {
    const lab = await sourcesLab();
    const digest = await lab.push("1.4.2");
    lab.source({ web: { version: "^1" } });
    await lab.start();
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    await lab.stop();
    await lab.push("1.5.0");
    lab.api.remove(LOCK);
    lab.installed.set("web", digest);
    lab.source({ web: { version: "^1" } }, "platform", { approval: "patch" });
    await lab.start();
    expect((await lab.tree()).modules).toMatchObject([{ name: "web", origin: { removed: false } }]);
    await lab.pass(MINUTE, () => lab.status().waiting === 1);
    expect(lab.content("web")).toBe("1.4.2");
    expect(lab.locked("web")).toMatchObject({ version: "1.4.2", digest, seen: { version: "1.5.0" } });
  });

  it("that is lost is made anew if the registry does not have that content any more", async () => {
    const lab = await sourcesLab();
    await lab.push("1.5.0");
    lab.installed.set("web", `sha256:${"c".repeat(64)}`);
    lab.source({ web: { version: "^1" } });
    await lab.start();
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.content("web")).toBe("1.5.0");
  });

  /** The lock after an edit by hand, before a start. */
  async function edited(change: (entry: JsonObject) => Record<string, string>): Promise<SourcesLab> {
    const lab = await running();
    await lab.stop();
    const entry = lab.locked("web") ?? {};
    const stored = lab.api.get(LOCK);
    lab.api.put(LOCK, { metadata: stored?.metadata ?? {}, data: change(entry) });
    await lab.start();
    expect((await lab.tree()).modules.map(({ name }) => name)).toContain("web");
    return lab;
  }

  it.each<[string, (entry: JsonObject) => Record<string, string>]>([
    ["garbage", () => ({ web: "{" })],
    ["no digest", (entry) => ({ web: JSON.stringify({ ...entry, digest: "sha256:1" }) })],
    [
      "fields of other types",
      (entry) => ({ web: JSON.stringify({ ...entry, rejected: 5, previous: "x", order: -1.5, seen: [] }) }),
    ],
    [
      "a name that no module has",
      (entry) => ({ web: JSON.stringify(entry), "values.yaml": JSON.stringify(entry) }),
    ],
    ["nothing", () => ({})],
  ])("that was edited by hand removes nothing: %s", async (_, change) => {
    const lab = await edited(change);
    await lab.pass(MINUTE, () => lab.content("web") === "1.4.2");
    expect(lab.content("web")).toBe("1.4.2");
    expect(lab.registryModules.origins.get("web")?.removed).toBe(false);
    expect((await lab.tree()).modules.map(({ name }) => name)).toEqual(["web"]);
  });

  it("that names another version than the digest's is not followed, and another content may replace it", async () => {
    const lab = await edited((entry) => ({ web: JSON.stringify({ ...entry, version: "1.4.3" }) }));
    const [module] = (await lab.tree()).modules;
    expect(module?.problem?.message).toContain('is version "1.4.2" of web, not "1.4.3"');
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.content("web")).toBe("1.5.0");
  });
});

describe("sources", () => {
  it("one without its Secret does not keep another one", async () => {
    const lab = await running();
    const spec = { registry: `oci://${lab.lab.registry.host}/modules`, plainHttp: true, secret: "login" };
    lab.api.put(`${SOURCES}/private`, {
      metadata: { generation: 1, creationTimestamp: new Date(lab.clock.now()).toISOString() },
      spec: { ...spec, modules: { db: { version: "1.0.0" } } },
    });
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0" && errorOf(lab, "db", "private") !== "");
    expect([lab.content("web"), errorOf(lab, "db", "private")]).toEqual([
      "1.5.0",
      "Secret login: does not exist (create it with kubectl create secret docker-registry login -n ops)",
    ]);
  });

  it("one with an invalid spec keeps the last valid one in force, as a whole", async () => {
    const lab = await running();
    await lab.push("1.0.0", { name: "db" });
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" }, db: { version: "newest" } });
    const stalled = () => lab.status().conditions?.find(({ type }) => type === "Stalled");
    await lab.pass(MINUTE, () => stalled() !== undefined);
    expect(stalled()).toMatchObject({
      reason: "Invalid",
      message: expect.stringContaining('spec.modules.db: "newest" is neither a version nor a range'),
    });
    await lab.pass(10 * MINUTE);
    expect([lab.content("web"), lab.content("db")]).toEqual(["1.4.2", undefined]);
    expect(lab.locked("web")).not.toHaveProperty("removed");
  });

  it("one whose digest is not that of its version refuses the module", async () => {
    const lab = await running();
    const digest = await lab.push("1.5.0");
    lab.source({ web: { version: "1.6.0", digest } });
    await untilError(lab, 'is version "1.5.0" of web, not "1.6.0"');
    expect(lab.content("web")).toBe("1.4.2");
  });

  it("one that is renamed keeps its modules", async () => {
    const lab = await running();
    lab.removeSource();
    lab.source({ web: { version: "1.4.2" } }, "renamed");
    await lab.pass(5 * MINUTE, () => lab.locked("web")?.["source"] === "renamed");
    expect(lab.locked("web")).toMatchObject({ source: "renamed", version: "1.4.2" });
    expect(lab.locked("web")).not.toHaveProperty("removed");
  });

  it("two with the same module: the older one provides it, and the other one when that is gone", async () => {
    const lab = await running();
    await lab.pass(1000);
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } }, "younger");
    await lab.pass(MINUTE, () => errorOf(lab, "web", "younger") !== "");
    expect(errorOf(lab, "web", "younger")).toContain("the older ModuleSource platform names it, too");
    expect(lab.content("web")).toBe("1.4.2");
    lab.removeSource();
    // At once, and not with the next regular check.
    await lab.pass(2000, () => lab.content("web") === "1.5.0");
    expect([lab.content("web"), lab.locked("web")?.["source"]]).toEqual(["1.5.0", "younger"]);
    expect(lab.locked("web")).not.toHaveProperty("removed");
  });

  it("whose signatures cannot be read are asked again, and nothing is refused for good", async () => {
    const lab = await running();
    await lab.push("1.5.0");
    const { manifests } = lab.lab.registry;
    for (const key of manifests.keys()) if (key.endsWith(".sig")) manifests.delete(key);
    lab.lab.registry.instead = (line) => (line.includes("/referrers/") ? { status: 500 } : undefined);
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(10 * MINUTE, () => errorOf(lab) !== "");
    expect([lab.content("web"), lab.events.map(({ reason }) => reason)]).toEqual([
      "1.4.2",
      ["SourceUpdated", "SourceCheckFailed"],
    ]);
    expect(errorOf(lab)).toContain("cannot be verified now");
    lab.lab.registry.instead = () => undefined;
    await lab.pass(20 * MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.content("web")).toBe("1.5.0");
  });

  it("that cannot be read stall the operator, and nothing is removed", async () => {
    const lab = await running();
    await lab.stop();
    const refusal = new ApiError({ status: 403, reason: "Forbidden", message: "no right to list" });
    lab.refuse = ({ path }) => (path === SOURCES ? refusal : undefined);
    await lab.start();
    expect(lab.state.view.sourcesProblem).toContain("The ModuleSources cannot be read: ");
    expect(lab.content("web")).toBe("1.4.2");
    expect((await lab.tree()).purgeBlockers[0]).toContain("The ModuleSources cannot be read");
    await lab.pass(10 * MINUTE);
    expect(lab.locked("web")).not.toHaveProperty("removed");
    lab.refuse = () => undefined;
    await lab.pass(20 * MINUTE, () => lab.state.view.sourcesProblem === undefined);
    expect(lab.state.view.sourcesProblem).toBeUndefined();
  });

  it("that are gone with their definition stall the operator until they are there again", async () => {
    const lab = await running();
    lab.crd = undefined;
    lab.removeSource();
    await lab.pass(5 * MINUTE, () => lab.state.view.sourcesProblem !== undefined);
    expect(lab.state.view.sourcesProblem).toContain("Modules that no ModuleSource names are not removed");
    lab.crd = "crd-2";
    lab.source({ web: { version: "1.4.2" } });
    await lab.pass(5 * MINUTE, () => lab.state.view.sourcesProblem === undefined);
    expect(lab.state.view.sourcesProblem).toBeUndefined();
  });
});

it("sources that vanish with their definition, which is there again when the operator reads it, remove no module", async () => {
  const lab = await running();
  await lab.stop();
  lab.refuse = ({ path }) => {
    if (!path.includes("customresourcedefinitions") || lab.crd === "crd-2") return undefined;
    lab.crd = "crd-2";
    lab.removeSource();
    return undefined;
  };
  await lab.start();
  await lab.pass(5 * MINUTE, () => lab.state.view.sourcesProblem !== undefined);
  expect(lab.state.view.sourcesProblem).toContain("Modules that no ModuleSource names are not removed");
  expect(lab.locked("web")).not.toHaveProperty("removed");
});

describe("a process that is killed", () => {
  it("before it writes the status: the next one writes what is in force, and asks no registry", async () => {
    const lab = await running();
    await lab.push("1.5.0");
    lab.refuse = ({ path, method }) =>
      path.endsWith("/status") && method === "PATCH"
        ? new ApiError({ status: 500, reason: "InternalError", message: "no" })
        : undefined;
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    expect(lab.status().modules?.[0]?.version).toBe("1.4.2");
    await lab.stop();
    lab.refuse = () => undefined;
    const calls = lab.lab.registry.calls.length;
    await lab.start();
    await lab.pass(MINUTE, () => lab.status().modules?.[0]?.version === "1.5.0");
    expect(lab.status()).toMatchObject({ summary: "1/1", modules: [{ version: "1.5.0" }] });
    expect([lab.content("web"), lab.lab.registry.calls.length]).toEqual(["1.5.0", calls]);
  });

  it("between lock and link: the next one links what is locked", async () => {
    const lab = await running();
    const link = join(lab.dir, "modules/web");
    const before = readlinkSync(link);
    await lab.push("1.5.0");
    lab.source({ web: { version: "1.5.0" } });
    await lab.pass(MINUTE, () => lab.content("web") === "1.5.0");
    await lab.stop();
    rmSync(link);
    symlinkSync(before, link);
    expect(lab.content("web")).toBe("1.4.2");
    await lab.start();
    expect(lab.content("web")).toBe("1.5.0");
  });
});

it("a directory of the same name comes first, until it is gone; nothing is removed", async () => {
  const lab = await running();
  const own = tempDir();
  lab.modulesDirs.push(own);
  mkdirSync(join(own, "web"));
  const read = async (): Promise<Module | undefined> => {
    lab.state.recordTree(await lab.tree());
    return lab.state.tree.modules.find(({ name }) => name === "web");
  };
  expect(await read()).toMatchObject({ dir: join(own, "web"), origin: undefined });
  lab.source({ web: { version: "1.4.2", enabled: true } });
  await untilError(lab, "a modules directory has a module of this name, which comes first");
  expect(lab.locked("web")).toMatchObject({ version: "1.4.2" });
  rmSync(join(own, "web"), { recursive: true });
  expect(await read()).toMatchObject({ origin: { version: "1.4.2", removed: false }, problem: undefined });
  lab.source({ web: { version: "1.4.2" } });
  await lab.pass(MINUTE, () => lab.status().summary === "1/1");
  expect([errorOf(lab), lab.content("web")]).toEqual(["", "1.4.2"]);
});

describe("a module whose content is not on disk", () => {
  /** A new replica: its disk is empty, and the registry is away. */
  async function startWithoutContent(lab: SourcesLab): Promise<void> {
    await lab.stop();
    Object.assign(lab, { dir: tempDir() });
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
  }

  /** Lets time pass until the module is an empty one that is switched off: it blocks nothing, and has no problem that keeps it. */
  async function untilSwitchedOff(lab: SourcesLab): Promise<void> {
    await lab.pass(MINUTE, () => lab.registryModules.origins.get("web")?.removed === true);
    expect(await lab.tree()).toMatchObject({
      modules: [{ problem: undefined, warnings: [], hookFiles: [], origin: { removed: true } }],
      purgeBlockers: [],
    });
  }

  it("is switched off when its source is deleted, after a second look, also if one fails", async () => {
    const lab = await running();
    await startWithoutContent(lab);
    lab.removeSource();
    await lab.pass(2000);
    expect(lab.locked("web")).not.toHaveProperty("removed");
    lab.refuse = failing(1, (path) => path.includes("customresourcedefinitions"));
    await passLessThanAMinute(lab, () => lab.registryModules.origins.get("web")?.removed === true);
    await untilSwitchedOff(lab);
  });

  it("is switched off too if its removal began before the content was lost", async () => {
    const lab = await running();
    lab.removeSource();
    await lab.pass(MINUTE, () => lab.locked("web")?.["removed"] === true);
    await startWithoutContent(lab);
    await untilSwitchedOff(lab);
    // Named again, it is a module that waits for its content.
    lab.source({ web: { version: "1.4.2" } });
    await untilError(lab, "503");
    expect((await lab.tree()).modules).toMatchObject([
      { problem: { retriedAs: "SourceUnavailable" }, origin: { removed: false } },
    ]);
  });

  it("has its content for the removal if that is on the disk again", async () => {
    const lab = await running();
    await lab.stop();
    const blobs = join(lab.dir, "blobs");
    const kept = join(tempDir(), "blobs");
    cpSync(blobs, kept, { recursive: true });
    rmSync(blobs, { recursive: true });
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
    await untilError(lab, "503");
    expect(lab.content("web")).toBeUndefined();
    cpSync(kept, blobs, { recursive: true });
    lab.removeSource();
    await lab.pass(MINUTE, () => lab.registryModules.origins.get("web")?.removed === true);
    expect(lab.content("web")).toBe("1.4.2");
  });
});

describe("what is announced once", () => {
  it("content that is locked, and neither on disk nor in the registry", async () => {
    const lab = await running();
    await lab.stop();
    Object.assign(lab, { dir: tempDir() });
    lab.lab.registry.failures = { status: 503, left: Infinity };
    await lab.start();
    const told = (): number => lab.events.filter(({ reason }) => reason === "SourceUnavailable").length;
    await lab.pass(10 * MINUTE, () => told() > 0);
    await lab.pass(60 * MINUTE);
    expect(told()).toBe(1);
    lab.lab.registry.failures = { status: 503, left: 0 };
    await lab.pass(20 * MINUTE, () => lab.events.at(-1)?.reason === "SourceRecovered");
    expect([lab.content("web"), lab.events.at(-1)?.reason]).toEqual(["1.4.2", "SourceRecovered"]);
  });

  it("a channel that is gone", async () => {
    const lab = await running();
    await lab.lab.tag("web:1.4.2", "stable");
    lab.source({ web: { tag: "stable" } });
    await lab.pass(MINUTE);
    lab.lab.registry.manifests.delete("modules/web@stable");
    const told = (): number => lab.events.filter(({ reason }) => reason === "Withdrawn").length;
    await lab.pass(10 * MINUTE, () => told() > 0);
    await lab.pass(60 * MINUTE);
    expect(told()).toBe(1);
  });
});
