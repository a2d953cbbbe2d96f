import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { build, countdown } from "../../scripts/setup/gobuild.mjs";
import { proxyFor } from "../../scripts/setup/proxy.mjs";
import { checksumIn, checksums, choose, mirrored, releasesFor } from "../../scripts/setup/releases.mjs";
import { dependenciesCurrent, npmEnv } from "../../scripts/setup/npm.mjs";
import { lock } from "../../scripts/setup/lock.mjs";
import { locate, variableOf } from "../../scripts/setup/tools.mjs";
import { cacheDir, cacheRoot, toolNames, versions } from "../../scripts/setup/versions.mjs";
import { until } from "../support/until.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "setup-"));
});
afterEach(() => {
  chmodSync(dir, 0o700);
  rmSync(dir, { recursive: true });
});

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

  test("the cache is below XDG_CACHE_HOME, HOME, or the home directory of the user", () => {
    expect(cacheRoot({ XDG_CACHE_HOME: "/x", HOME: "/h" })).toBe("/x/addon-operator");
    expect(cacheRoot({ HOME: "/h" })).toBe("/h/.cache/addon-operator");
    expect(cacheRoot({})).toBe(join(homedir(), ".cache", "addon-operator"));
  });

  test("a user without a home directory is reported to name one", () => {
    const unknown = () => {
      throw new Error("uv_os_homedir returned ENOENT");
    };
    expect(() => cacheRoot({}, unknown)).toThrow("export HOME=DIR");
    expect(cacheRoot({ HOME: "/h" }, unknown)).toBe("/h/.cache/addon-operator");
  });

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

  describe("on PATH", () => {
    const saying = (name: string, text: string) => {
      const file = executable("bin", name);
      writeFileSync(file, `#!/bin/sh\necho '${text}'\n`);
      return file;
    };
    const onPath = (more = {}) => locate(env({ PATH: join(dir, "bin"), ...more })).found;
    const [major = "", minor = ""] = versions.kubernetes.split(".");

    test("is used when it is new enough, and the cache before it", () => {
      const kubectl = saying("kubectl", `Client Version: v${major}.${Number(minor) - 1}.0`);
      const helm = saying("helm", `v${versions.helm}+g1234`);
      const etcd = saying("etcd", `etcd Version: ${versions.etcd}`);
      const server = saying("kube-apiserver", `Kubernetes v${versions.kubernetes}`);
      expect(onPath()).toEqual({ kubectl, helm, etcd, "kube-apiserver": server });
      const cached = inCache("kubectl");
      expect(onPath()).toMatchObject({ kubectl: cached, helm });
    });

    test("helm of the older major version is helm 3", () => {
      const helm = saying("helm", `v${versions.helm3}+g1234`);
      expect(onPath()).toEqual({ helm3: helm });
    });

    test("is left alone when it is too old, says nothing of its version, or OWN_TOOLS is false", () => {
      saying("kubectl", `Client Version: v${major}.${Number(minor) - 2}.9`);
      saying("etcd", "etcd Version: 2.99.0");
      saying("helm", "no version");
      executable("bin", "kube-apiserver");
      saying("kube-controller-manager", `Kubernetes v${versions.kubernetes}`);
      saying("helm3", `v${versions.helm3}`);
      expect(Object.keys(onPath())).toEqual(["helm3"]);
      expect(onPath({ OWN_TOOLS: "false" })).toEqual({});
    });
  });
});

describe("release files", () => {
  const target = "linux-amd64";
  const names = (tools: string[], known: Record<string, string> = {}) =>
    choose(tools, releasesFor(target, known)).map(({ url }) => url.split("/").at(-1)?.replace(/-v.*/, ""));
  const pinOf = (tool: string, part: string) => {
    const found = releasesFor(target, {}).find(({ tools, url }) => tool in tools && url.includes(part));
    return { [found!.url.slice("https://".length)]: "a" };
  };

  test("are as few as can be, and no larger than needed", () => {
    expect(names(["etcd", "kube-apiserver", "kubectl"])).toEqual(["envtest"]);
    expect(names(["kubectl"])).toEqual(["kubectl"]);
    expect(names(["helm", "etcd"])).toEqual(["envtest", "helm"]);
    expect(names([])).toEqual([]);
  });

  test("are those with a pinned checksum before others", () => {
    expect(names(["kubectl"], pinOf("kubectl", "envtest"))).toEqual(["envtest"]);
    const kubectl = pinOf("kubectl", "dl.k8s.io");
    expect(names(["kubectl", "etcd"], kubectl)).toEqual(["kubectl", "envtest"]);
  });

  test("lie at a mirror under host and path", () => {
    const url = "https://get.helm.sh/helm.tar.gz";
    expect(mirrored(url, {})).toBe(url);
    expect(mirrored(url, { RELEASE_MIRROR: "http://mirror/releases/" })).toBe(
      "http://mirror/releases/get.helm.sh/helm.tar.gz",
    );
  });

  test("come through the proxy, but for what NO_PROXY names", () => {
    const via = (url: string, env: Record<string, string>) => proxyFor(url, env)?.href;
    const https = { HTTPS_PROXY: "proxy:3128" };
    expect(via("https://get.helm.sh/x", https)).toBe("http://proxy:3128/");
    expect(via("https://get.helm.sh/x", { https_proxy: "http://u:p@proxy" })).toBe("http://u:p@proxy/");
    expect(via("http://mirror/x", https)).toBeUndefined();
    expect(via("http://mirror/x", { http_proxy: "proxy" })).toBe("http://proxy/");
    expect(via("https://127.0.0.1/x", https)).toBeUndefined();
    for (const names of ["*", "x.y, helm.sh", ".helm.sh", "*.helm.sh", "get.helm.sh"])
      expect(via("https://get.helm.sh/x", { ...https, NO_PROXY: names })).toBeUndefined();
    for (const names of ["elm.sh", "get.helm.sh:8443", "github.com"])
      expect(via("https://get.helm.sh/x", { ...https, no_proxy: names })).toBe("http://proxy:3128/");
  });
});

describe("checksums", () => {
  const sum = "b".repeat(64);

  test.each([
    ["a file of nothing else", `${sum}\n`],
    ["a file with a name", `${sum}  helm-v1-linux-amd64.tar.gz\n`],
    ["a list", `${"c".repeat(64)}  other\n${sum} *helm-v1-linux-amd64.tar.gz\n`],
    ["a table", `x.tar.gz:\n  hash: ${"c".repeat(64)}\n  helm-v1-linux-amd64.tar.gz:\n    hash: ${sum}\n`],
  ])("are found in %s", (_, text) => {
    expect(checksumIn(text, "helm-v1-linux-amd64.tar.gz")).toBe(sum);
  });

  test("an error page is none, nor is a list without the file, or a cut one", () => {
    expect(checksumIn("<html>gone</html>", "x")).toBeUndefined();
    expect(checksumIn(`${sum}  a\n${sum}  b\n`, "x")).toBeUndefined();
    expect(checksumIn(`${sum}  not-x`, "x")).toBeUndefined();
    expect(checksumIn(sum.slice(1), "x")).toBeUndefined();
    expect(checksumIn(`x:\n  hash: ${sum.slice(1)}\n`, "x")).toBeUndefined();
  });

  test("are pinned for all but the controller manager", () => {
    for (const target of ["linux-amd64", "linux-arm64", "darwin-arm64"]) {
      const pinned = releasesFor(target).filter(({ checksum }) => checksum !== undefined);
      const tools = new Set(pinned.flatMap((release) => Object.keys(release.tools)));
      expect(toolNames.filter((tool) => !tools.has(tool))).toEqual(["kube-controller-manager"]);
    }
  });

  test("those that are pinned are whole", () => {
    for (const sum of Object.values(checksums())) expect(sum).toMatch(/^([0-9a-f]{64}|[0-9a-f]{128})$/);
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

describe("building with Go", () => {
  test("reports how far it is and what is left: by what it took elsewhere, then by its own pace", () => {
    let minute = 0;
    const { onText, detail } = countdown(200, 8, () => minute * 60_000);
    expect(detail()).toBe("0 of 200 packages, about 8 min left (8 min elsewhere)");
    minute = 3;
    expect(detail()).toContain("about 5 min left");
    onText(Array.from({ length: 50 }, (_, at) => `package/${at}\n`).join(""));
    expect(detail()).toBe("50 of 200 packages, about 9 min left (8 min elsewhere)");
  });

  test("begins with what takes longest, names what failed, and leaves nothing half done", async () => {
    const log = join(dir, "log");
    const go = executable("bin", "go");
    const script = [
      "#!/bin/sh",
      "[ $1 = build ] || exit 1",
      `echo "$*" >>'${log}'`,
      'case "$*" in *v3/cmd/helm) exit 1 ;; esac',
      'while [ "$1" != -o ]; do shift; done',
      'case "$2" in */) touch "$2/kube-apiserver" "$2/kubectl" "$2/server" ;; *) touch "$2" ;; esac',
    ];
    writeFileSync(go, script.join("\n"));
    const failures = await build({
      go,
      missing: ["etcd", "helm3", "kube-apiserver", "kubectl"],
      dir,
      env: process.env,
    });
    expect(failures).toEqual([expect.stringMatching(/^go build helm3 failed/)]);
    expect(readFileSync(log, "utf8").split("\n")[0]).toContain("k8s.io/kubernetes/cmd/kube-apiserver");
    expect(readdirSync(dir).toSorted()).toEqual(["bin", "etcd", "kube-apiserver", "kubectl", "log"]);
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

  test("what only tests need is not asked for where they do not run", () => {
    lockFile("package-lock.json", { ...wanted, "node_modules/c": { version: "1.0.0", dev: true } });
    lockFile("node_modules/.package-lock.json", wanted);
    expect(dependenciesCurrent(dir)).toBe(false);
    expect(dependenciesCurrent(dir, { dev: false })).toBe(true);
  });

  /**
   * What comes of an `npm` that does this, in a process of its own: without the rights of root, who could write anything.
   * Another user may not be able to read the checkout.
   */
  function installWith(script: string, cwd = dir) {
    writeFileSync(executable("bin", "npm"), `#!/bin/sh\n${script}\n`);
    const module = new URL("../../scripts/setup/npm.mjs", import.meta.url).pathname;
    const call = `import { installDependencies } from ${JSON.stringify(module)};
      installDependencies(process.cwd(), process.env).catch((error) => { console.error(error.message); process.exitCode = 1; });`;
    const isRoot = process.getuid?.() === 0;
    const rights = isRoot ? ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] : [];
    const [file, ...args] = [...rights, process.execPath, "--input-type=module", "-e", call];
    const { status, stderr } = spawnSync(file, args, {
      cwd,
      env: { PATH: `${join(dir, "bin")}:${process.env["PATH"]}` },
      encoding: "utf8",
    });
    return { status, stderr };
  }

  test.each([
    ["no network", "npm error code ENOTFOUND", "It needs the package registry"],
    ["a full disk", "npm error nospc ENOSPC: no space left on device, write", "The disk is full: make room"],
  ])("what npm failed by is reported, and what helps: %s", (_, said, remedy) => {
    lockFile("package-lock.json", wanted);
    chmodSync(dir, 0o777);
    const { status, stderr } = installWith(`echo '${said}' >&2; exit 1`);
    expect(status).toBe(1);
    expect(stderr).toContain(said);
    expect(stderr).toContain(remedy);
  });

  test("a checkout that cannot be written is reported as such, and npm is not tried", () => {
    lockFile("package-lock.json", wanted);
    chmodSync(dir, 0o555);
    const { status, stderr } = installWith("echo tried >&2");
    expect(status).toBe(1);
    expect(stderr).toMatch(/cannot be written, and its node_modules does not match package-lock\.json: copy/);
    expect(stderr).not.toContain("tried");
  });

  test("an interrupted set-up leaves no npm at work behind it", async () => {
    lockFile("package-lock.json", wanted);
    const pidFile = join(dir, "pid");
    // It takes its time, whatever it is asked.
    writeFileSync(
      executable("bin", "npm"),
      `#!/bin/sh\ntrap '' TERM INT\necho $$ >'${pidFile}.new'\nmv '${pidFile}.new' '${pidFile}'\nwhile :; do sleep 0.1; done\n`,
    );
    const module = new URL("../../scripts/setup/npm.mjs", import.meta.url).pathname;
    const call = `import { installDependencies } from ${JSON.stringify(module)}; await installDependencies(process.cwd(), process.env);`;
    const child = spawn(process.execPath, ["--input-type=module", "-e", call], {
      cwd: dir,
      env: { PATH: `${join(dir, "bin")}:${process.env["PATH"]}` },
      stdio: "ignore",
    });
    const ended = new Promise((done) => child.once("exit", done));
    await until(() => existsSync(pidFile));
    child.kill("SIGINT");
    child.kill("SIGTERM");
    expect(await ended).toBe(130);
    expect(() => process.kill(Number(readFileSync(pidFile, "utf8")), 0)).toThrow("ESRCH");
  });

  test("one that has all that is needed may be read-only", () => {
    lockFile("package-lock.json", wanted);
    lockFile("node_modules/.package-lock.json", wanted);
    chmodSync(dir, 0o555);
    expect(installWith("exit 1")).toEqual({ status: 0, stderr: "" });
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
