import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/values.md, "Schemas": what follows from invalid values at start, at a change, and from a hook. The rest of the
// consequences, which need a running operator only, is in values-config-map.test.ts.

const SCHEMA = `type: object
properties: {size: {type: integer}, password: {type: string, minLength: 3}, frozen: {$ref: "#/definitions/frozen"}}
definitions:
  frozen: {type: string, x-deckhouse-validations: [{expression: self == oldSelf, message: frozen is immutable}]}
x-deckhouse-validations: [{expression: self.size < 100, message: size must be less than 100}]
`;

async function world(data: Readonly<Record<string, string>> | undefined) {
  const namespace = await freshNamespace("validation");
  const lab = hookLab("validation");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  for (const module of ["010-app", "020-off"])
    lab.file(`modules/${module}/openapi/config-values.yaml`, SCHEMA);
  lab.file("modules/values.yaml", "appEnabled: true\n");
  lab.file("global-hooks/openapi/config-values.yaml", "type: object\nproperties: {zone: {enum: [a, b]}}\n");
  const { kubectl, json } = cluster();
  const name = ["configmap", "addon-operator", "-n", namespace];
  const edit = (change: object) =>
    kubectl(["patch", ...name, "--type=merge", "-p", JSON.stringify({ data: change })]);
  if (data !== undefined) {
    await kubectl(["create", ...name]);
    await edit(data);
  }
  const start = (args: readonly string[] = []) =>
    startOperator({ namespace, modulesDir: lab.modulesDir, globalHooksDir: lab.globalHooksDir, args });
  const stalled = () =>
    kubectl(["wait", "--for=condition=Stalled", "aop/addon-operator", "-n", namespace, "--timeout=120s"]);
  const read = (...flags: string[]) =>
    json<{
      data?: Record<string, string>;
      metadata: { managedFields: { manager: string; fieldsV1: { "f:data"?: object } }[] };
    }>(["get", ...name, ...flags]);
  return { namespace, lab, edit, start, stalled, read };
}

test("invalid values at start: every error is reported, none of the values; Stalled is written; exit code 1", async () => {
  const bad = { app: "size: large\npassword: x1\nmore: 1", global: "zone: c", off: "size: large" };
  const { start, stalled, lab } = await world(bad);
  lab.hook("modules/010-app/hooks/never.sh", { configVersion: "v1", onStartup: 1 });
  const operator = await start();
  expect(await operator.exit).toMatchObject({ code: 1, signal: null });
  // One line for each problem, beside the one for the AddonOperator's Event.
  const errors = operator.lines.filter((line) => line.includes(" ERROR ") && !line.includes("reason="));
  for (const words of [
    /app\/size.*integer/,
    /app\/password.*3/,
    /app\/more.*not declared/,
    /global\/zone.*"a"/,
  ])
    expect(errors.filter((line) => words.test(line))).toHaveLength(1);
  expect(operator.log()).not.toMatch(/large|x1/);
  expect(lab.runs("never")).toEqual([]);
  await stalled();
});

test("an invalid ConfigMap at a start with last-good: what was accepted last is in force, and a person is informed", async () => {
  const { start, stalled, edit, namespace, lab } = await world({ app: "size: 1\npassword: hunter2" });
  lab.hook("modules/010-app/hooks/values.sh", { configVersion: "v1", onStartup: 1 }, 'cat "$VALUES_PATH"');
  const lastGood = ["--invalid-config=last-good"];
  const first = await start(lastGood);
  await first.waitReady();
  const secret = ["get", "secret", "addon-operator-addon-operator-accepted", "-n", namespace];
  await eventually(() => cluster().kubectl(secret), "the content is kept");
  // Rules in CEL, as in the Go operator: also about changes.
  const isRefused = (message: string): Promise<unknown> =>
    eventually(async () => first.log().includes(message), message, { context: first.log });
  await edit({ app: "size: 200\npassword: hunter2\nfrozen: a" });
  await isRefused("size must be less than 100");
  await edit({ app: "size: 1\npassword: hunter2\nfrozen: a" });
  const values = ["module", "values", "app"];
  await eventually(async () => (await first.cli(values)).stdout.includes("frozen: a"), "the first value");
  await edit({ app: "size: 1\npassword: hunter2\nfrozen: b" });
  await isRefused("frozen is immutable");
  expect((await first.cli(values)).stdout).toContain("frozen: a");
  await edit({ app: "size: 1\npassword: hunter2" });
  await eventually(async () => !(await first.cli(values)).stdout.includes("frozen"), "it is removed");
  expect(await first.stop()).toMatchObject({ code: 0 });
  await edit({ app: "size: large\npassword: hunter2" });
  const refused = await start();
  expect(await refused.exit).toMatchObject({ code: 1 });
  expect(refused.log()).toContain("does not start with an invalid ConfigMap (--invalid-config=stop)");
  const second = await start(lastGood);
  await second.waitReady();
  await stalled();
  const path = '{.status.conditions[?(@.type=="Stalled")].message}';
  const message = () =>
    cluster().kubectl(["get", "aop/addon-operator", "-n", namespace, "-o", `jsonpath=${path}`]);
  const inForce =
    /app\/size.*what was accepted last stays in force until then, also over restarts \(docs\/guides\/on-call\.md#the-configmap-is-invalid\)$/;
  await eventually(async () => inForce.test(await message()), "the message says what is in force");
  expect((await second.cli(["module", "values", "app"])).stdout).toContain("size: 1");
  expect(second.log()).not.toMatch(/hunter2|does not start: no content/);
  await edit({ app: "size: 2" });
  await cluster().kubectl([
    "wait",
    "--for=condition=Ready",
    "aop/addon-operator",
    "-n",
    namespace,
    "--timeout=120s",
  ]);
  expect((await second.cli(["module", "values", "app"])).stdout).toContain("size: 2");
});

test("a section that the schema of a team's own module refuses stops neither the start nor edits of others", async () => {
  const { namespace, start, lab, edit } = await world({
    off: "size: large",
    offEnabled: "true",
    app: "size: 1",
  });
  lab.file("modules/020-off/addon.yaml", "serviceAccountName: team\n");
  lab.hook("modules/010-app/hooks/run.sh", { configVersion: "v1", beforeHelm: 1 });
  const operator = await start();
  const { json } = cluster();
  const readModule = (name: string) =>
    json<{ status?: { state?: string; conditions?: { type: string; message: string }[] } }>([
      "get",
      "addonmodule",
      name,
      "-n",
      namespace,
      "--ignore-not-found",
    ]);
  const stateOf = async (name: string) => (await readModule(name)).status?.state;
  const context = () => operator.log().slice(-3000);
  await eventually(async () => (await stateOf("off")) === "Invalid", "the team's module is Invalid", {
    context,
  });
  await eventually(async () => (await stateOf("app")) === "Ready", "the other one is Ready", { context });
  const { conditions } = (await readModule("off")).status ?? {};
  expect(conditions?.find(({ type }) => type === "Ready")?.message).toMatch(/size.*integer/);
  const runs = () => lab.runs("run").length;
  const before = runs();
  await edit({ app: "size: 2" });
  await eventually(async () => runs() > before, "an edit of the other one runs", { context });
  await edit({ off: "size: wrong" });
  await eventually(async () => operator.log().includes("off/size"), "an edit of the section is refused", {
    context,
  });
  await edit({ off: "size: 3" });
  await eventually(async () => (await stateOf("off")) !== "Invalid", "the section is corrected", { context });
});

test("sections of modules that are off only warn, until they are switched on", async () => {
  const { start, stalled, edit } = await world({ off: "size: large" });
  const operator = await start();
  await operator.waitReady();
  const warnings = () => operator.lines.filter((line) => /WARN .*off\/size.*integer.*enable it/.test(line));
  expect(warnings()).toHaveLength(1);
  await edit({ unrelated: "x" });
  await edit({ offEnabled: "true" });
  await stalled();
  expect(operator.log()).toMatch(/ERROR.*off\/size.*integer/);
  expect(warnings()).toHaveLength(1);
});

test("a config patch fails while its own key does not parse, and is saved when that was mended", async () => {
  const { start, stalled, edit, lab, read } = await world({ app: "size: 1" });
  const patch = '{"op":"add","path":"/app/password","value":"abcdef-1"}';
  lab.hook(
    "modules/010-app/hooks/writes.sh",
    { configVersion: "v1", schedule: [{ crontab: "* * * * * *", queue: "writes" }] },
    `[ -e "$RECORDS/go-now" ] || exit 0\necho '${patch}' >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
  );
  const operator = await start();
  await operator.waitReady();
  await edit({ app: "size: [" });
  await stalled();
  lab.release("now");
  const isReported = () => expect(operator.log()).toMatch(/writes\.sh.*app.*YAML/);
  await eventually(isReported, "the failed hook", { context: () => operator.log().slice(-3000) });
  expect((await read()).data).toEqual({ app: "size: [" });
  await edit({ app: "size: 2" });
  const isSaved = async () => expect((await read()).data).toEqual({ app: "size: 2\npassword: abcdef-1\n" });
  await eventually(isSaved, "the patch", { context: () => operator.log().slice(-3000) });
});

test("a ConfigMap made at a first start: what hooks write into it later belongs to addon-operator", async () => {
  const { start, lab, read, edit } = await world(undefined);
  lab.hook(
    "modules/010-app/hooks/writes.sh",
    { configVersion: "v1", onStartup: 1 },
    `echo '{"op":"add","path":"/app/size","value":1}' >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
  );
  const operator = await start();
  await operator.waitReady();
  await edit({ note: "by hand" });
  const { data, metadata } = await read("--show-managed-fields");
  expect(data).toEqual({ app: "size: 1\n", note: "by hand" });
  const ownedBy = (name: string) =>
    metadata.managedFields
      .filter(({ manager }) => manager === name)
      .flatMap(({ fieldsV1 }) => Object.keys(fieldsV1["f:data"] ?? {}).filter((key) => key !== "."));
  expect(ownedBy("addon-operator")).toEqual(["f:app"]);
  expect(ownedBy("kubectl-patch")).toEqual(["f:note"]);
});
