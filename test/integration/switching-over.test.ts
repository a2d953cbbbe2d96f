// Run with helm 3 as well.
// Runs at night: compatibility.
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";

import { cluster, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { startOperator } from "../support/operator.ts";

const run = promisify(execFile);

/** What a module's chart holds; the Go operator adds `heritage` to each object. */
const object = (labels: string): string => `apiVersion: v1
kind: ConfigMap
metadata:
  name: "{{ .Release.Name }}"
${labels}data:
  size: "{{ index .Values (.Chart.Name | camelcase | untitle) "size" }}"
`;

interface Listed {
  readonly items: readonly {
    readonly metadata: {
      name: string;
      uid: string;
      resourceVersion: string;
      labels?: Record<string, string>;
    };
  }[];
}

test("releases, objects and ConfigMap of the Go operator are taken over, none is upgraded or deleted", async () => {
  const namespace = await freshNamespace("switch");
  const root = await mkdtemp(join(tmpdir(), "switch-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  for (const name of ["first", "second"]) await putModule(join(root, "modules"), name, "");
  // "gone" has a release and no directory any more: the Go operator's own purge never got to it.
  await cp(join(root, "modules"), join(root, "before"), { recursive: true });
  await putModule(join(root, "before"), "gone", "");
  for (const name of ["first", "second", "gone"]) {
    await putModule(join(root, "before"), name, "  labels: {heritage: addon-operator}\n");
    await release(namespace, join(root, "before", name), name);
  }
  await cluster().apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator", namespace },
    data: { firstEnabled: "true", first: "size: 2\n", secondEnabled: "true", second: "size: 2\n" },
  });
  const objects = await uids(namespace);
  // The Go operator did not run this script, because its setting left out `ScriptEnabled`.
  const script = '#!/bin/sh\necho false >"$MODULE_ENABLED_RESULT"\n';
  await writeFile(join(root, "modules/second/enabled"), script, { mode: 0o755 });
  const env = { ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS: "Static,KubeConfig" };

  const operator = await startOperator({ namespace, modulesDir: join(root, "modules"), env });
  await operator.waitReady();

  expect(await revisions(namespace)).toEqual(["first.v1", "gone.v1", "second.v1"]);
  expect(await uids(namespace)).toEqual(objects);
  const ours = await labels(namespace, "addon-operator.io/managed-by");
  expect(ours.map((each) => each !== undefined)).toEqual([true, false, true]);
});

test("what hooks write into module directories counts before helm: nothing of the Go operator is changed", async () => {
  const namespace = await freshNamespace("switch-files");
  const root = await mkdtemp(join(tmpdir(), "switch-files-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  const script = async (file: string, binding: string, body: string): Promise<void> => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    const config = `if [ "$1" = --config ]; then echo '{"configVersion": "v1", "${binding}": 1}'; exit; fi`;
    await writeFile(join(root, file), `#!/bin/sh\n${config}\n${body}\n`, { mode: 0o755 });
  };
  // What the Go operator has installed.
  for (const name of ["first", "second", "third"]) {
    await putModule(join(root, "before"), name, "  labels: {heritage: addon-operator}\n");
    await putModule(join(root, "common"), name, "");
    await release(namespace, join(root, "before", name), name);
    if (name !== "third") await mkdir(join(root, "modules", name), { recursive: true });
  }
  // Before all modules, "first" gets chart and hook, and "third" its directory. The hook gives the size. "second" makes
  // its chart itself.
  await script(
    "common/size.sh",
    "beforeHelm",
    `echo '{"op":"add","path":"/first/size","value":2}' >"$VALUES_JSON_PATCH_PATH"`,
  );
  await script(
    "global-hooks/copy.sh",
    "beforeAll",
    `cp -r ${root}/common/third ${root}/modules; cp -r ${root}/common/first/. ${root}/modules/first; mkdir -p ${root}/modules/first/hooks; cp ${root}/common/size.sh ${root}/modules/first/hooks/; echo copied >>${root}/runs`,
  );
  await script(
    "modules/second/hooks/chart.sh",
    "beforeHelm",
    `sed -i s/1/2/ ${root}/common/second/values.yaml; cp -r ${root}/common/second/. ${root}/modules/second; echo made >>${root}/runs`,
  );
  await cluster().apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator", namespace },
    data: { firstEnabled: "true", secondEnabled: "true", thirdEnabled: "true", third: "size: 2\n" },
  });
  const objects = await uids(namespace);
  expect(objects).toHaveLength(3);

  const operator = await startOperator({
    namespace,
    modulesDir: join(root, "modules"),
    globalHooksDir: join(root, "global-hooks"),
  });
  await operator.waitReady();
  expect(await readFile(join(root, "runs"), "utf8")).toBe("copied\nmade\n");
  expect(await revisions(namespace)).toEqual(["first.v1", "second.v1", "third.v1"]);
  expect(await uids(namespace)).toEqual(objects);
  const ours = await labels(namespace, "addon-operator.io/managed-by");
  expect(ours.map((each) => each !== undefined)).toEqual([true, true, true]);
});

async function putModule(dir: string, name: string, labels: string): Promise<void> {
  const files: Record<string, string> = {
    "Chart.yaml": `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`,
    "values.yaml": `${name}:\n  size: 1\n`,
    "templates/config.yaml": object(labels),
  };
  for (const [path, text] of Object.entries(files)) {
    const file = join(dir, name, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, text);
  }
}

async function release(namespace: string, chart: string, name: string): Promise<void> {
  const values = ["--set", `${name}.size=2`, "--labels", "moduleChecksum=0123abcd"];
  const where = ["-n", namespace, "--kubeconfig", cluster().kubeconfig];
  await run(helmUnderTest(), ["upgrade", "--install", name, chart, ...values, ...where]);
}

async function secrets(namespace: string): Promise<Listed["items"]> {
  const { items } = await cluster().json<Listed>(["get", "secrets", "-n", namespace, "-l", "owner=helm"]);
  return items.toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

async function revisions(namespace: string): Promise<string[]> {
  return (await secrets(namespace)).map(({ metadata }) => metadata.name.replace("sh.helm.release.v1.", ""));
}

async function labels(namespace: string, label: string): Promise<(string | undefined)[]> {
  return (await secrets(namespace)).map(({ metadata }) => metadata.labels?.[label]);
}

/** The objects of the releases as they are: nothing wrote to them when this stays. */
async function uids(namespace: string): Promise<string[]> {
  const { items } = await cluster().json<Listed>(["get", "configmaps", "-n", namespace]);
  return items
    .filter(({ metadata }) => ["first", "second", "third", "gone"].includes(metadata.name))
    .map(({ metadata }) => `${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`);
}
