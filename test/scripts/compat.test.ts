import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { findJqs, findShells } from "../../scripts/compat/found.mjs";
import { mustBe, publishedVersions, serverEnv, standAlone } from "../../scripts/compat/kubernetes.mjs";
import { compareVersions, findNext, optionsOf, rowsOf } from "../../scripts/compat/plan.mjs";
import { rowsIn, withResults } from "../../scripts/compat/table.mjs";
import { findUnits, isOtherScript } from "../../scripts/compat/units.mjs";
import { compatible, versions } from "../../scripts/setup/versions.mjs";

const root = new URL("../..", import.meta.url).pathname;

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "compat-test-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

/** A program that does nothing but say this. */
function saying(name: string, text: string): string {
  const file = join(dir, name);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, `#!/bin/sh\necho '${text}'\n`);
  chmodSync(file, 0o755);
  return file;
}

describe("the rows that are run", () => {
  const [old, young] = ["jq-1.6", "jq-1.8.1"].map((version) => ({ file: `/${version}`, version }));
  const shells = ["dash", "busybox 1.36"].map((name) => ({ name, before: [] }));
  const kubernetes = ["1.30.14", "1.36.2"];

  test("bring each version together with each other one of another tool", () => {
    const rows = rowsOf({ kubernetes, jqs: [old!, young!], shells });
    expect(rows).toHaveLength(4);
    const pairs = (a: "kubernetes" | "helm" | "jq" | "sh", b: typeof a): number =>
      new Set(rows.map((row) => JSON.stringify([row[a], row[b]]))).size;
    expect([pairs("kubernetes", "helm"), pairs("kubernetes", "jq"), pairs("kubernetes", "sh")]).toEqual([
      4, 4, 4,
    ]);
    expect([pairs("helm", "jq"), pairs("helm", "sh")]).toEqual([4, 4]);
  });

  test("have gojq in place of jq in one more, where there is one", () => {
    const gojq = { file: "/gojq", version: "gojq 0.12.17" };
    const rows = rowsOf({ kubernetes, jqs: [gojq, old!, young!], shells });
    expect(rows.slice(0, 4)).toEqual(rowsOf({ kubernetes, jqs: [old!, young!], shells }));
    expect(rows.slice(4)).toEqual([{ kubernetes: "1.36.2", helm: "helm", jq: gojq, sh: shells[0] }]);
    expect(rowsOf({ kubernetes, jqs: [gojq], shells })).toHaveLength(4);
  });

  test("have each Kubernetes between the oldest and the newest in one", () => {
    const rows = rowsOf({ kubernetes: ["1.30.14", "1.35.4", "1.36.2"], jqs: [old!, young!], shells });
    expect(rows.slice(0, 4)).toEqual(rowsOf({ kubernetes, jqs: [old!, young!], shells }));
    expect(rows.slice(4)).toEqual([{ kubernetes: "1.35.4", helm: "helm", jq: young, sh: shells[0] }]);
  });

  test("of one version of Kubernetes are two", () => {
    const rows = rowsOf({ kubernetes: ["1.33.1"], jqs: [old!], shells: [shells[0]!] });
    expect(rows.map(({ helm }) => helm)).toEqual(["helm3", "helm"]);
  });

  test("are of the oldest, the previous and the newest version, with every test, unless one says otherwise", () => {
    expect(optionsOf([], compatible)).toEqual({
      kubernetes: [compatible.oldest, compatible.previous, versions.kubernetes],
      rows: [],
      files: [],
    });
    const args = ["--kubernetes", "1.30.14,1.9.1", "--row", "2", "--files", "helm,plan"];
    expect(optionsOf(args, compatible)).toEqual({
      kubernetes: ["1.9.1", "1.30.14"],
      rows: [2],
      files: ["helm", "plan"],
    });
  });

  test.each([
    [["--kubernetes", "v1.30"], "--kubernetes v1.30: versions are written 1.30.14 or 1.38.0-beta.0"],
    [["--row", "7"], "--row 7: there are rows 1 to 6"],
    [["--files"], "argument missing"],
    [["--fast", "1"], "Unknown option '--fast'"],
  ])("%j is refused", (args, message) => {
    expect(() => optionsOf(args, compatible)).toThrow(message);
  });

  test("the next version is the newest one of a later minor version, a pre-release too", () => {
    expect(optionsOf(["--kubernetes", "next,1.38.0-beta.0"], compatible).kubernetes).toContain("next");
    const published = ["v1.37.2", "v1.38.0-beta.0", "v1.38.0-alpha.2", "v1.9.1"];
    expect(findNext(published, "1.37.0")).toBe("1.38.0-beta.0");
    expect(findNext([...published, "v1.38.0"], "1.37.0")).toBe("1.38.0");
    expect(findNext(published, "1.38.0")).toBeUndefined();
  });

  test("versions are ordered by their numbers", () => {
    const all = ["jq-1.10", "jq-1.7.1", "jq-1.6", "jq-1.7"];
    expect(all.toSorted(compareVersions)).toEqual(["jq-1.6", "jq-1.7", "jq-1.7.1", "jq-1.10"]);
  });
});

describe("jq", () => {
  test("each version once, the oldest first", () => {
    const named = [saying("a", "jq-1.8.1"), saying("b", "jq-1.7.1"), saying("c", "jq-1.8.1")];
    saying("path/jq", "jq-1.6");
    const found = findJqs({ TEST_JQ: named.join(":"), PATH: join(dir, "path") });
    const versionsFound = found.map(({ version }) => version);
    expect(versionsFound.slice(0, 2)).toEqual(["jq-1.6", "jq-1.7.1"]);
    expect(new Set(versionsFound).size).toBe(versionsFound.length);
  });

  test("gojq is named without what it was built from", () => {
    const gojq = saying("gojq", "gojq 0.12.17 (rev: HEAD/go1.26.8)");
    const found = findJqs({ TEST_JQ: gojq, PATH: dir });
    expect(found[0]).toEqual({ file: gojq, version: "gojq 0.12.17" });
  });

  test("one that is too old or something else is reported by its path", () => {
    const old = saying("old", "jq-1.5-1-a5b5cbe");
    const other = saying("other", "hello");
    const PATH = join(dir, "path");
    expect(() => findJqs({ TEST_JQ: old, PATH })).toThrow(
      `${old} is jq-1.5-1-a5b5cbe: the operator needs 1.6`,
    );
    expect(() => findJqs({ TEST_JQ: other, PATH })).toThrow(`${other} is no jq: its --version says "hello"`);
  });
});

test("without busybox the machine's own shell is tried alone, which is reported", () => {
  const { shells, missing } = findShells({ PATH: dir });
  expect(shells).toHaveLength(1);
  expect(missing).toBe("no busybox on the PATH");
});

describe("servers of another version", () => {
  const inCache = (said: string): NodeJS.ProcessEnv => {
    for (const tool of ["kube-apiserver", "kube-controller-manager"])
      saying(join("addon-operator", "kubernetes-1.30.14", tool), said);
    return { XDG_CACHE_HOME: dir, PATH: process.env["PATH"] };
  };

  test("are taken from the cache", async () => {
    const env = await serverEnv("1.30.14", inCache("Kubernetes v1.30.14"));
    const path = join(dir, "addon-operator", "kubernetes-1.30.14");
    expect(env).toEqual({
      TEST_ASSET_KUBE_APISERVER: join(path, "kube-apiserver"),
      TEST_ASSET_KUBE_CONTROLLER_MANAGER: join(path, "kube-controller-manager"),
    });
  });

  test("that are of a version that nobody asked for are reported, and not used", async () => {
    const server = saying("kube-apiserver", "Kubernetes v1.29.0");
    await expect(mustBe(server, "1.30.14")).rejects.toThrow(
      `${server} says "Kubernetes v1.29.0", not Kubernetes v1.30.14: delete it, or name another one, and run again`,
    );
    await expect(serverEnv("1.30.14", inCache("Kubernetes v1.29.0"))).rejects.toThrow(
      "delete it, or name another one, and run again",
    );
    expect(existsSync(join(dir, "addon-operator", "setup.lock"))).toBe(false);
  });

  test("are those that the Go module proxy lists", async () => {
    saying("go", '{"Path": "k8s.io/kubernetes", "Versions": ["v1.37.2", "v1.38.0-beta.0"]}');
    expect(await publishedVersions({ PATH: dir })).toEqual(["v1.37.2", "v1.38.0-beta.0"]);
  });

  test("are built from modules as they are published", () => {
    const go = `module k8s.io/kubernetes
replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kube-proxy => ./staging/src/k8s.io/kube-proxy
	k8s.io/sample-cli-plugin => ./staging/src/k8s.io/sample-cli-plugin
	example.com/other => example.com/fork v1.0.0
)`;
    const { text, unused } = standAlone(go, "1.30.14");
    expect(text).toContain("k8s.io/api => k8s.io/api v0.30.14\n");
    expect(text).toContain("k8s.io/kube-proxy => {work}/k8s.io/kube-proxy\n");
    expect(text).toContain("example.com/other => example.com/fork v1.0.0\n");
    expect(unused).toEqual(["k8s.io/kube-proxy", "k8s.io/sample-cli-plugin"]);
  });
});

describe("docs/get-started/install.md", () => {
  const page = readFileSync(join(root, "docs", "get-started", "install.md"), "utf8");
  const result = { kubernetes: "1.30.14", helm: "9.9.9", jq: "jq-1.6", sh: "dash", tests: "all" };

  test("a run writes its row, anew where there is one of these versions, and leaves the others", () => {
    const first = withResults(page, [{ ...result, passed: 10, failed: 2, day: "2026-01-01" }]);
    const second = withResults(first, [{ ...result, passed: 12, failed: 0, day: "2026-01-02" }]);
    expect(rowsIn(second)).toHaveLength(rowsIn(page).length + 1);
    expect(rowsIn(second)).toContain("| 1.30.14 | 9.9.9 | jq-1.6 | dash | all | 12 | 0 | 2026-01-02 |");
    expect(rowsIn(second)).toEqual(expect.arrayContaining(rowsIn(page)));
    expect(() => withResults("a page", [])).toThrow("the page has no <!-- made by");
  });

  test("has the oldest and the newest Kubernetes with both helms, the previous one, and nothing failed", () => {
    const cells = rowsIn(page).map((row) => row.split("|").map((cell) => cell.trim()));
    const tested = new Set(cells.map(([, kubernetes, helm = ""]) => `${kubernetes} with helm ${helm[0]}`));
    const { oldest, previous, newest } = compatible;
    const both = [oldest, newest].flatMap((each) => [`${each} with helm 3`, `${each} with helm 4`]);
    expect(tested).toEqual(new Set([...both, `${previous} with helm 4`]));
    expect(cells.map((row) => row[7])).toEqual(cells.map(() => "0"));
  });
});

describe("units of other people's directories", () => {
  const write = (path: string, text = ""): void => {
    mkdirSync(join(dir, path, ".."), { recursive: true });
    writeFileSync(join(dir, path), text);
  };

  test("are modules by their parts, and directories of hooks", () => {
    write("a/module.yaml", "name: echo-server\nstage: Preview\n");
    write("a/templates/x.yaml");
    write("b/modules/010-web/Chart.yaml", "name: other\n");
    write("c/hooks/pods.sh", '#!/bin/sh\ncat "$BINDING_CONTEXT_PATH"\n');
    write("d/chart/Chart.yaml", "name: plain\n");
    write("e/build.sh", "#!/bin/sh\nmake\n");
    write("owner+Own-Name/enabled");
    write("owner+Own-Name/templates/x.yaml");
    expect(findUnits(dir)).toEqual([
      { kind: "module", dir: join(dir, "a"), name: "echo-server", moduleName: "echo-server" },
      { kind: "module", dir: join(dir, "b/modules/010-web"), name: "web", moduleName: "web" },
      { kind: "hooks", dir: join(dir, "c/hooks"), name: "c/hooks" },
      { kind: "module", dir: join(dir, "owner+Own-Name"), name: "own-name", moduleName: "own-name" },
    ]);
  });

  test("of executables beside hooks only the hooks run", () => {
    expect(isOtherScript(saying("build.sh", "make"))).toBe(true);
    expect(isOtherScript(saying("hook.sh", "configVersion: v1"))).toBe(false);
  });
});
