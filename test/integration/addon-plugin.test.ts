// Runs at night: packages that few changes touch.
import { execFile } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { extract } from "tar";
import { expect, onTestFinished, test } from "vitest";

import { programFile } from "../../scripts/operator.mjs";
import { tools } from "../../scripts/setup/tools.mjs";
import { root as repository } from "../../scripts/setup/versions.mjs";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const isBundle = programFile().endsWith("dist/main.js");

function freshDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "plugin-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** kubectl with the plugin on its PATH, as it is in the image. */
function kubectlWithPlugin(dir: string): (line: string) => Promise<Ended> {
  if (isBundle) symlinkSync(join(repository, "dist", "kubectl-addon.js"), join(dir, "kubectl-addon"));
  else
    writeFileSync(join(dir, "kubectl-addon"), `#!/bin/sh\nexec node ${programFile()} addon "$@"\n`, {
      mode: 0o755,
    });
  return kubectlIn(dir);
}

/** kubectl with this directory on its PATH. */
function kubectlIn(dir: string): (line: string) => Promise<Ended> {
  symlinkSync(process.execPath, join(dir, "node"));
  const env = { PATH: `${dir}:/usr/bin:/bin`, KUBECONFIG: cluster().kubeconfig, HOME: dir };
  return (line) =>
    new Promise((resolve) => {
      execFile(tools().kubectl, line.split(" "), { env }, (error, stdout, stderr) =>
        resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr }),
      );
    });
}

test(
  "kubectl addon reports what AddonModules say, with kubectl's own rights",
  { timeout: 240_000 },
  async () => {
    const root = mkdtempSync(join(tmpdir(), "plugin-modules-"));
    onTestFinished(() => rmSync(root, { recursive: true, force: true }));
    mkdirSync(join(root, "010-web"), { recursive: true });
    mkdirSync(join(root, "020-shop"), { recursive: true });
    writeFileSync(join(root, "010-web/values.yaml"), "webEnabled: true\n");
    writeFileSync(join(root, "020-shop/values.yaml"), "shopEnabled: true\n");
    writeFileSync(join(root, "020-shop/addon.yaml"), "requires: {modules: {nowhere: '*'}}\n");
    const namespace = await freshNamespace("plugin");
    const operator = await startOperator({ namespace, modulesDir: root });
    const home = freshDir();
    const kubectl = kubectlWithPlugin(home);
    mkdirSync(join(home, ".cache"));

    expect(await kubectl(`addon wait web -n ${namespace}`)).toMatchObject({ code: 0, stderr: "" });
    const waits = await kubectl(`addon wait shop -n ${namespace} --timeout=0s`);
    expect(waits.code).toBe(1);
    const listed = await kubectl(`addon list -n ${namespace}`);
    expect(listed.stdout).toMatch(/^NAME +STATE[^]*web +Ready/);
    // Statuses of a converge are written a second late.
    await eventually(async () => {
      const status = await kubectl(`addon status -n ${namespace}`);
      expect(status).toMatchObject({ code: 1, stdout: expect.stringMatching(/shop: Pending: .*nowhere/) });
    }, "status tells what shop waits for");
    expect(globSync(join(home, ".cache/addon-operator/compiled/*")).length > 0).toBe(isBundle);
    const why = await kubectl(`addon why shop -n ${namespace}`);
    expect(why.stdout).toMatch(
      /^shop: Pending: waits for nowhere, which does not exist[^]*\nEnabled by the module's own values.yaml\n$/,
    );
    expect(await kubectl(`addon list -n ${await freshNamespace("empty")}`)).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "No AddonOperator found. Use -n to search another namespace\n",
    });
    expect(await kubectl(`addon why none -n ${namespace}`)).toEqual({
      code: 1,
      stdout: "",
      stderr: "AddonModule none does not exist\n",
    });
    await operator.stop();
    expect(await kubectl(`addon status -n ${namespace}`)).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^Invalid: The operator is not running: its Lease has no holder since/),
    });
  },
);

test.runIf(isBundle)(
  "the package that npm makes of the bundle has the program and the plugin of kubectl",
  { timeout: 240_000 },
  async () => {
    const [dir, path] = [freshDir(), freshDir()];
    const pack = ["pack", join(repository, "dist"), "--pack-destination", dir, "--offline"];
    await promisify(execFile)("npm", pack, { env: { ...process.env, HOME: dir, npm_config_cache: dir } });
    const [archive = ""] = globSync("*.tgz", { cwd: dir });
    await extract({ file: join(dir, archive), cwd: dir });
    const { bin } = JSON.parse(readFileSync(join(dir, "package/package.json"), "utf8")) as {
      bin: Record<string, string>;
    };
    for (const [name, file] of Object.entries(bin)) symlinkSync(join(dir, "package", file), join(path, name));
    expect(Object.keys(bin)).toEqual(["addon-operator", "kubectl-addon"]);
    const namespace = await freshNamespace("package");
    const kubectl = kubectlIn(path);
    const stderr = "No AddonOperator found. Use -n to search another namespace\n";
    expect(await kubectl(`addon status -n ${namespace}`)).toEqual({ code: 1, stdout: "", stderr });
  },
);
