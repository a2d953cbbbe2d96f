import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

interface Lab {
  readonly root: string;
  readonly namespace: string;
  readonly put: (path: string, text: string, mode?: number) => void;
  readonly start: (options?: Partial<Parameters<typeof startOperator>[0]>) => Promise<OperatorProcess>;
}

const GOOD_HOOK = '#!/bin/sh\necho \'{"configVersion": "v1", "beforeHelm": 1}\'\n';

async function makeLab(): Promise<Lab> {
  const root = mkdtempSync(join(tmpdir(), "start-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const namespace = await freshNamespace("start");
  const put = (path: string, text: string, mode = 0o644): void => {
    const file = join(root, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    chmodSync(file, mode);
  };
  put("modules/README.md", "");
  put("hooks/README.md", "");
  const places = { namespace, modulesDir: join(root, "modules"), globalHooksDir: join(root, "hooks") };
  return { root, namespace, put, start: (options) => startOperator({ ...places, ...options }) };
}

/** The lines of level error; each problem has one. */
function errors(operator: OperatorProcess): string[] {
  return operator.lines.filter((line) => /error/i.test(line.slice(0, 60)));
}

async function refused(operator: OperatorProcess, ...words: readonly RegExp[]): Promise<void> {
  expect({ ...(await operator.exit), log: operator.log().slice(-2000) }).toMatchObject({
    code: 1,
    signal: null,
  });
  for (const word of words) expect(errors(operator).join("\n")).toMatch(word);
  expect(operator.log()).not.toMatch(/^ +at .*\.(ts|js):\d+/m);
}

test("no kubeconfig", async () => {
  const lab = await makeLab();
  const operator = await lab.start({ kubeconfig: join(lab.root, "nope") });
  await refused(operator, /nope/, /--kube-config|KUBECONFIG|KUBE_CONFIG/);
});

test("settings of the Go operator that would have an effect there", async () => {
  const lab = await makeLab();
  const operator = await lab.start({
    args: ["--shell-chroot-dir=/x"],
    env: { KUBE_SERVER: "https://other" },
  });
  await refused(
    operator,
    /--shell-chroot-dir is not supported: hooks cannot run in a chroot/,
    /KUBE_SERVER is not supported: name the server in a kubeconfig/,
  );
});

test("modules directory missing", async () => {
  const lab = await makeLab();
  const operator = await lab.start({ modulesDir: join(lab.root, "gone") });
  await refused(operator, /gone/, /--modules-dir|MODULES_DIR/);
});

test("modules/values.yaml is broken", async () => {
  const lab = await makeLab();
  lab.put("modules/values.yaml", "global:\n  a: [1\n");
  await refused(await lab.start(), /modules\/values\.yaml/, /line|:\d/);
});

test("broken global hooks are reported together, with all that is wrong with each", async () => {
  const lab = await makeLab();
  const config = '{"configVersion": "v1", "schedule": [{}], "kubernetes": [{"name": "x"}]}';
  lab.put("hooks/010-bad", `#!/bin/sh\necho '${config}'\n`, 0o755);
  lab.put("hooks/020-fails", "#!/bin/sh\necho no such thing >&2\nexit 1\n", 0o755);
  lab.put("hooks/030-text", "#!/bin/sh\necho hello: [\n", 0o755);
  const operator = await lab.start();
  const words = [/010-bad.*crontab is required/, /010-bad.*kind is required/];
  await refused(operator, ...words, /020-fails.*--config/, /030-text.*--config/);
  expect(errors(operator)).toHaveLength(3);
});

test("helm missing", async () => {
  const lab = await makeLab();
  lab.put("modules/010-a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
  lab.put("modules/010-a/values.yaml", "a: {x: 1}\naEnabled: true\n");
  const operator = await lab.start({ helm: join(lab.root, "no-helm") });
  const outcome = await Promise.race([
    operator.exit,
    eventually(() => {
      if (!/no-helm/.test(operator.log())) throw new Error("not told yet");
      return Promise.resolve("told");
    }, "helm is told to be missing"),
  ]);
  expect(outcome).toBeDefined();
  expect(operator.log()).toMatch(/no-helm/);
  expect(operator.log()).toMatch(/--helm-bin/);
});

test("the temp directory cannot be written", async () => {
  const lab = await makeLab();
  lab.put("file", "");
  const hook = '#!/bin/sh\n[ "$1" = --config ] && echo \'{"configVersion": "v1", "onStartup": 1}\'; exit 0\n';
  lab.put("hooks/010-start", hook, 0o755);
  const operator = await lab.start({ args: [`--tmp-dir=${join(lab.root, "file/tmp")}`] });
  await Promise.race([
    operator.exit,
    eventually(() => {
      if (!/--tmp-dir/.test(operator.log())) throw new Error(operator.log().slice(-1000));
      return Promise.resolve();
    }, "the temp directory is named"),
  ]);
  expect(operator.log()).toMatch(/file\/tmp/);
  expect(operator.log()).toMatch(/--tmp-dir/);
});

test("a ConfigMap key that is not YAML", async () => {
  const lab = await makeLab();
  const metadata = { name: "addon-operator", namespace: lab.namespace };
  await cluster().apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { global: "a: [1" } });
  const operator = await lab.start();
  await refused(operator, /ConfigMap/, /global/);
  await eventually(async () => {
    const found = await cluster().json<{ status?: { conditions?: { type: string; status: string }[] } }>([
      "get",
      "addonoperator",
      "addon-operator",
      "-n",
      lab.namespace,
    ]);
    const stalled = found.status?.conditions?.find(({ type }) => type === "Stalled");
    expect(stalled?.status).toBe("True");
  }, "Stalled is written");
});

test("a broken module is Invalid, the others go on, and a global hook that is not executable is a warning", async () => {
  const lab = await makeLab();
  lab.put("hooks/010-plain", GOOD_HOOK);
  for (const name of ["010-good", "020-values", "030-chart", "040-hook", "050-json"]) {
    const key = name.slice(4);
    lab.put(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${key}\nversion: 1.0.0\n`);
    lab.put(`modules/${name}/values.yaml`, `${key}Enabled: true\n`);
  }
  lab.put("modules/020-values/values.yaml", "values: {a: [1\n");
  lab.put("modules/030-chart/Chart.yaml", "version: [1\n");
  lab.put("modules/040-hook/hooks/bad", "#!/bin/sh\nexit 1\n", 0o755);
  lab.put("modules/050-json/hooks/bad", "#!/bin/sh\necho 'hello: ['\n", 0o755);
  const config = { chart: "true", hook: "true", json: "true", values: "true" };
  const data = Object.fromEntries(Object.entries(config).map(([key, on]) => [`${key}Enabled`, on]));
  const metadata = { name: "addon-operator", namespace: lab.namespace };
  await cluster().apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
  const operator = await lab.start();
  await operator.waitReady();
  const why = async (name: string): Promise<string> => (await operator.cli(["module", "why", name])).stdout;
  expect(await why("good")).toContain("nothing is due");
  expect(await why("values")).toMatch(/requires action: .*020-values\/values\.yaml/);
  expect(await why("chart")).toMatch(/requires action: .*030-chart\/Chart\.yaml/);
  expect(await why("hook")).toMatch(/requires action: .*040-hook\/hooks\/bad/);
  expect(await why("json")).toMatch(/requires action: .*050-json\/hooks\/bad/);
  const { body } = await operator.http("/status/converge");
  expect(body).toContain("STARTUP_CONVERGE_DONE");
  expect(operator.log()).toMatch(/010-plain.*(executable|chmod)/);
});

test("wrong usage", async () => {
  const lab = await makeLab();
  const operator = await lab.start({ args: ["--listen-port=x", "--nope"] });
  expect(await operator.exit).toMatchObject({ code: 2 });
  expect(operator.log()).toMatch(/--listen-port: "x" is not accepted/);
  expect(operator.log()).toMatch(/--nope: unknown flag/);
});

test("the API server's port is wrong", async () => {
  const lab = await makeLab();
  const view = await cluster().kubectl(["config", "view", "--raw", "--minify", "--flatten"]);
  lab.put("kubeconfig", view.replace(/(server: https?:\/\/[^:\s]+):\d+/, "$1:1"));
  const operator = await lab.start({ kubeconfig: join(lab.root, "kubeconfig") });
  await Promise.race([
    operator.exit,
    eventually(() => {
      if (!/:1\b/.test(operator.log())) throw new Error(operator.log().slice(-1000));
      return Promise.resolve();
    }, "the address is named"),
  ]);
  expect(operator.log()).not.toMatch(/^ +at .*\.(ts|js):\d+/m);
});
