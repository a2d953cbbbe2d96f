import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { checksums, matches, pinnedFor } from "../../scripts/setup/download.mjs";
import { checksumIn } from "../../scripts/setup/pin.mjs";
import { dependenciesCurrent, npmEnv } from "../../scripts/setup/npm.mjs";
import { lock } from "../../scripts/setup/lock.mjs";
import { locate, variableOf } from "../../scripts/setup/tools.mjs";
import { cacheDir, toolNames, versions } from "../../scripts/setup/versions.mjs";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "setup-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

function executable(...path: string[]): string {
  const file = join(dir, ...path);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, "#!/bin/sh\n");
  chmodSync(file, 0o755);
  return file;
}

describe("where a tool is looked for", () => {
  const env = (more: Record<string, string> = {}) => ({
    XDG_CACHE_HOME: join(dir, "cache"),
    PATH: "",
    ...more,
  });
  const inCache = (tool: string) => executable(cacheDir(env()).slice(dir.length + 1), tool);

  test("nowhere: all are missing", () => {
    expect(locate(env())).toEqual({ found: {}, missing: toolNames });
  });

  test("the user's directory wins over the cache, tool by tool", () => {
    const [etcd, kubectl] = [inCache("etcd"), inCache("kubectl")];
    const own = executable("assets", "etcd");
    const { found } = locate(env({ KUBEBUILDER_ASSETS: join(dir, "assets") }));
    expect(found).toEqual({ etcd: own, kubectl });
    expect(locate(env()).found).toEqual({ etcd, kubectl });
  });

  test("a tool named by the user wins over everything, by path or by its name on PATH", () => {
    executable("assets", "helm3");
    const named = executable("bin", "helm-three");
    const assets = { KUBEBUILDER_ASSETS: join(dir, "assets") };
    expect(locate(env({ ...assets, TEST_ASSET_HELM3: named })).found).toEqual({ helm3: named });
    const onPath = { ...assets, TEST_ASSET_HELM3: "helm-three", PATH: join(dir, "bin") };
    expect(locate(env(onPath)).found).toEqual({ helm3: named });
  });

  test("what is named and not there, or not executable, is an error that names the variable", () => {
    const file = executable("bin", "etcd");
    chmodSync(file, 0o644);
    expect(() => locate(env({ TEST_ASSET_ETCD: file }))).toThrow(
      `TEST_ASSET_ETCD=${file}: no such executable`,
    );
    expect(variableOf("kube-apiserver")).toBe("TEST_ASSET_KUBE_APISERVER");
  });

  test("another tool on PATH is not taken", () => {
    executable("bin", "kubectl");
    expect(locate(env({ PATH: join(dir, "bin") })).found).toEqual({});
  });
});

describe("downloads", () => {
  const sha256 = "a".repeat(64);
  const artifact = (checksums: Record<string, string>) => ({
    tool: "helm",
    url: "https://x/{os}/{arch}",
    member: "{os}-{arch}/helm",
    sha256: checksums,
  });

  test("only what has a whole checksum for this machine is offered", () => {
    const artifacts = [artifact({ "linux-amd64": sha256 }), artifact({}), artifact({ "linux-amd64": "abc" })];
    const url = "https://x/linux/amd64";
    expect(pinnedFor(artifacts, "linux-amd64")).toEqual([
      { tool: "helm", url, member: "linux-amd64/helm", sha256 },
    ]);
    expect(pinnedFor(artifacts, "darwin-arm64")).toEqual([]);
  });

  test("bytes are compared with the checksum", () => {
    const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    expect(matches(Buffer.from(""), empty)).toBe(true);
    expect(matches(Buffer.from("x"), empty)).toBe(false);
  });
});

describe("checksums", () => {
  const sum = "b".repeat(64);

  test.each([
    ["a file of nothing else", `${sum}\n`],
    ["a file with a name", `${sum}  helm-v1-linux-amd64.tar.gz\n`],
    ["a list", `${"c".repeat(64)}  other\n${sum}  helm-v1-linux-amd64.tar.gz\n`],
  ])("are found in %s", (_, text) => {
    expect(checksumIn(text, "helm-v1-linux-amd64.tar.gz")).toBe(sum);
  });

  test("an error page is none, nor is a list without the file", () => {
    expect(checksumIn("<html>gone</html>", "x")).toBeUndefined();
    expect(checksumIn(`${sum}  a\n${sum}  b\n`, "x")).toBeUndefined();
  });

  test("those that are pinned are whole, and of the versions in use", () => {
    const { artifacts } = checksums();
    expect(artifacts.map(({ tool }) => tool).toSorted()).toEqual([...toolNames].toSorted());
    for (const { tool, url, sha256 } of artifacts) {
      expect(url).toContain(`v${(versions as Record<string, string>)[tool] ?? versions.kubernetes}`);
      for (const each of Object.values(sha256)) expect(each).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  test("the image takes nothing that has none and cannot be built, and says what helps", () => {
    const script = new URL("../../scripts/setup/image-tools.mjs", import.meta.url).pathname;
    const { status, stderr } = spawnSync(process.execPath, [script, "vax", join(dir, "tools")], {
      encoding: "utf8",
    });
    expect(status).toBe(1);
    expect(stderr).toMatch(/No checksum is pinned for helm [\d.]+, kubectl [\d.]+ on linux-vax/);
    expect(stderr).toContain("scripts/setup/pin.mjs");
    expect(stderr).toContain("TOOLS=context");
    expect(readdirSync(join(dir, "tools"))).toEqual([]);
  });
});

describe("npm dependencies", () => {
  const lockFile = (path: string, packages: Record<string, object>) => {
    mkdirSync(join(dir, path, ".."), { recursive: true });
    writeFileSync(join(dir, path), JSON.stringify({ packages }));
  };
  const wanted = {
    "": {},
    "node_modules/a": { version: "1.0.0" },
    "node_modules/b": { version: "1.0.0", optional: true },
  };

  test.each([
    ["no node_modules", undefined, false],
    ["all there", wanted, true],
    ["an optional one absent", { "node_modules/a": { version: "1.0.0" } }, true],
    ["a needed one absent", { "node_modules/b": { version: "1.0.0" } }, false],
    ["another version", { "node_modules/a": { version: "2.0.0" } }, false],
  ])("%s", (_, installed, current) => {
    lockFile("package-lock.json", wanted);
    if (installed) lockFile("node_modules/.package-lock.json", installed);
    expect(dependenciesCurrent(dir)).toBe(current);
  });

  test("a jq on PATH spares the download of another", () => {
    executable("bin", "jq");
    expect(npmEnv({ PATH: join(dir, "bin") })).toHaveProperty("NODE_JQ_SKIP_INSTALL_BINARY", "true");
    expect(npmEnv({ PATH: dir })).not.toHaveProperty("NODE_JQ_SKIP_INSTALL_BINARY");
  });

  test("the node that npm replaces is not the one npm runs on", () => {
    expect(npmEnv({ PATH: `/x/node_modules/.bin:${dir}` }).PATH).toBe(dir);
  });
});

describe("the lock", () => {
  test("is passed on when its holder lets go", async () => {
    const path = join(dir, "lock");
    const release = await lock(path);
    const waited: number[] = [];
    const second = lock(path, (pid: number) => {
      waited.push(pid);
      release();
    });
    (await second)();
    expect(waited).toEqual([process.pid]);
  });

  test("of a process that is gone is pushed aside", async () => {
    const path = join(dir, "lock");
    // No Linux or macOS process has this id.
    writeFileSync(path, "99999999\n");
    const release = await lock(path, () => expect.fail("nobody holds it"));
    release();
  });
});
