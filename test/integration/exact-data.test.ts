// Run with helm 3 as well.
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { crdOfThings } from "../support/crds.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// Numbers and texts come out of every path as kubectl and the API server give them.

const SEED = Number(process.env["SEED"] ?? Date.now() % 1_000_000);

/** Random numbers from 0 to `bound`, the same for the same seed. */
function createRandom(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * bound);
  };
}

const NUMBERS = [
  "9007199254740993",
  "-9223372036854775808",
  "9223372036854775807",
  "1e21",
  "-0",
  "1.0",
  "1.50",
];
const CHARACTERS =
  "ab 0:#'\"\\t\\n\\u0001\\u007f\\u0085\\u0097\\u00a0é\\u2028\\u2029\\ufeff\\ufffe\\uffff\\ufffd😀-~".match(
    /\\u.{4}|\\.|./gu,
  ) ?? [];

/** The JSON text of a random value. Its keys are sorted, as those of the API server's answers. */
function randomJson(random: (bound: number) => number, depth: number): string {
  const many = <T>(bound: number, make: (index: number) => T): T[] =>
    Array.from({ length: random(bound) }, (_, index) => make(index));
  const pick = <T>(list: readonly T[]): T => list[random(list.length)] as T;
  const digits = (): string => `${1 + random(9)}${many(18, () => random(10)).join("")}`;
  switch (random(depth > 0 ? 8 : 6)) {
    case 0:
      return pick(NUMBERS);
    case 1:
      return `${pick(["", "-"])}${digits()}`;
    case 2:
      return `${random(100)}.${digits()}`;
    case 3:
      return pick(["true", "false", `"${digits()}"`]);
    case 4:
    case 5: {
      const text = many(12, () => `${pick(CHARACTERS)}${pick(["", "  "])}`).join("");
      return `"${text.replaceAll('"', String.raw`\"`)}"`;
    }
    case 6:
      return `[${many(6, () => randomJson(random, depth - 1)).join(",")}]`;
    default: {
      const keys = ["1", "<", "=", "a/b~", "n", "yes"].filter(() => random(2) > 0);
      return `{${keys.map((key) => `"${key}":${randomJson(random, depth - 1)}`).join(",")}}`;
    }
  }
}

const version = (name: string, storage = false) => ({
  name,
  served: true,
  storage,
  schema: {
    openAPIV3Schema: {
      type: "object",
      properties: { spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
    },
  },
});

/** The text that JavaScript writes for the same value: Go escapes some characters that JSON need not escape. */
const unescaped = (text: string): string =>
  text.replaceAll(/\\u(2028|2029|003c|003e|0026)/g, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );

test("objects keep numbers and texts on each path through the operator", { timeout: 300_000 }, async () => {
  const { kubectl, apply } = cluster();
  const namespace = await freshNamespace("exact");
  const other = await freshNamespace("exact-other");
  const lab = hookLab("exact");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  const group = `${namespace}.example.com`;
  await apply(crdOfThings(group, [version("v1beta1"), version("v1", true)]));
  onTestFinished(async () => {
    const names = [`things.${group}`, `others.${group}`];
    await kubectl(["delete", "crd", ...names, "--wait=false", "--ignore-not-found"], "");
  });
  // With an input, kubectl itself runs.
  const own = (...args: readonly string[]) => kubectl([...args, "-n", namespace], "");
  const random = createRandom(SEED);
  const values = Array.from({ length: 40 }, (_, index) => `"v${index}":${randomJson(random, 3)}`);
  const spec = `{"accountId":1234567890123456789,"colour":"red",${values.sort().join(",")}}`;
  // Helm 4 itself applies these characters in another way, or not at all.
  const isHelm3 = helmUnderTest() === cluster().bin.helm3;
  const chartSpec = isHelm3 ? spec : spec.replaceAll(/\\u(?:007f|0085|0097|fffe|ffff)/g, "-");
  const thing = (name: string, more = "", withSpec = spec) =>
    `{"apiVersion":"${group}/v1","kind":"Thing","metadata":{"name":"${name}","namespace":"${namespace}"${more}},"spec":${withSpec}}`;
  /** The text of the spec in the answer of the API server; "" if there is no such object. */
  const specOf = async (name: string, of = "v1", where = namespace): Promise<string> => {
    const path = `/apis/${group}/${of}/namespaces/${where}/things/${name}`;
    const text = await kubectl(["get", "--raw", path], "").catch(() => "");
    return text.slice(text.lastIndexOf(',"spec":{"accountId"') + 1).trimEnd();
  };
  await eventually(
    async () => void (await kubectl(["create", "-f", "-"], thing("reference"))),
    "the kind is served",
  );
  await kubectl(["create", "-f", "-"], thing("chart-reference", "", chartSpec));
  const [expected, expectedOfChart] = [await specOf("reference"), await specOf("chart-reference")];
  expect(expected).toContain('"accountId":1234567890123456789,');
  const hint = `SEED=${SEED}`;
  const becomes = (name: string, text: string, what: string) =>
    eventually(async () => expect(await specOf(name), `${what}, ${hint}`).toBe(text), `${what} of ${name}`);

  lab.file("modules/values.yaml", "webEnabled: true\n");
  lab.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
  lab.file("modules/010-web/templates/all.yaml", thing("web", "", chartSpec));
  const loose = thing("loose", "", chartSpec).replace(`,"namespace":"${namespace}"`, "");
  lab.file("modules/010-web/templates/loose.yaml", loose);
  const definition = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `others.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { plural: "others", singular: "other", kind: "Other" },
      versions: [
        {
          ...version("v1", true),
          schema: {
            openAPIV3Schema: {
              type: "object",
              description: "two\u2028  lines",
              properties: { id: { type: "integer", format: "int64", default: "ID" } },
            },
          },
        },
      ],
    },
  };
  const definitionText = JSON.stringify(definition).replace('"ID"', "1234567890123456789");
  lab.file("modules/010-web/crds/others.yaml", definitionText.replaceAll("\u2028", String.raw`\u2028`));
  const binding = { apiVersion: `${group}/v1`, kind: "Thing" };
  lab.hook("global-hooks/see.sh", {
    configVersion: "v1",
    kubernetes: [
      { ...binding, name: "whole" },
      { ...binding, name: "filtered", jqFilter: "{spec} | select(true)", keepFullObjectsInMemory: false },
    ],
  });
  lab.hook(
    "global-hooks/review.sh",
    {
      configVersion: "v1",
      kubernetesValidating: [
        {
          name: "things.review.example.com",
          rules: [{ apiGroups: [group], apiVersions: ["v1"], resources: ["things"], operations: ["CREATE"] }],
          labelSelector: { matchLabels: { reviewed: "yes" } },
        },
      ],
    },
    `echo '{"allowed":true}' > "$VALIDATING_RESPONSE_PATH"`,
  );
  lab.hook(
    "global-hooks/convert.sh",
    {
      configVersion: "v1",
      kubernetesCustomResourceConversion: [
        {
          name: "things",
          crdName: `things.${group}`,
          conversions: [
            { fromVersion: "v1", toVersion: "v1beta1" },
            { fromVersion: "v1beta1", toVersion: "v1" },
          ],
        },
      ],
    },
    `part() { sed -E 's#.*"'"$1"'":"([^"]*/)?([^"]*)".*#\\2#' "$BINDING_CONTEXT_PATH"; }
sed -e 's#.*"objects":#{"convertedObjects":#; s#}},"toVersion":"[^"]*","type":"Conversion"}]$#}#' \\
  -e 's#"${group}/'"$(part fromVersion)"'"#"${group}/'"$(part toVersion)"'"#g' "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH"`,
  );
  const patched = (name: string) =>
    `"apiVersion":"${group}/v1","kind":"Thing","namespace":"${namespace}","name":"${name}"`;
  lab.file(
    "patches.json",
    `{"operation":"Create","object":${thing("created")}}
{"operation":"MergePatch",${patched("merged")},"mergePatch":{"spec":${spec}}}
{"operation":"JSONPatch",${patched("patched")},"jsonPatch":[{"op":"replace","path":"/spec","value":${spec}}]}
{"operation":"JQPatch",${patched("labelled")},"jqFilter":".metadata.labels.seen = \\"yes\\""}
{"operation":"MergePatch",${patched("labelled")},"mergePatch":{"spec":{"colour":1e999}}}
`,
  );
  lab.hook(
    "global-hooks/write.sh",
    {
      configVersion: "v1",
      kubernetes: [
        {
          kind: "ConfigMap",
          namespace: { nameSelector: { matchNames: [namespace] } },
          nameSelector: { matchNames: ["go"] },
          executeHookOnSynchronization: false,
          allowFailure: true,
        },
      ],
    },
    `cat "$RECORDS/../patches.json" > "$KUBERNETES_PATCH_PATH"`,
  );
  for (const name of ["merged", "patched"])
    await kubectl(["create", "-f", "-"], thing(name).replace(spec, '{"accountId":1,"colour":"blue"}'));
  await kubectl(["create", "-f", "-"], thing("labelled"));
  const [port] = await freePorts(1);
  await own("create", "configmap", "addon-operator");
  const settings = {
    namespace,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
    helm: helmUnderTest(),
    env: {
      DRIFT: "repair",
      WEBHOOK_URL: `https://127.0.0.1:${port}`,
      WEBHOOK_PORT: String(port),
      WEBHOOK_LISTEN_ADDRESS: "127.0.0.1",
      WEBHOOK_CONFIGURATION_NAME: namespace,
    },
  };
  const operator = await startOperator(settings);
  await operator.waitReady();
  expect(await specOf("web"), `installed, ${hint}`).toBe(expectedOfChart);
  const schema = await own("get", "crd", `others.${group}`, "-o", "jsonpath={.spec.versions[0].schema}");
  expect(schema).toContain('"default":1234567890123456789');
  expect(
    (JSON.parse(schema) as (typeof definition.spec.versions)[0]["schema"]).openAPIV3Schema.description,
  ).toBe("two\u2028  lines");

  // What hooks get: the whole object, the result of jq, and the object of a review.
  const contextsOf = (hook: string): string => {
    const folder = join(lab.dir, "records", hook);
    if (!existsSync(folder)) return "";
    return readdirSync(folder)
      .map((file) => readFileSync(join(folder, file), "utf8"))
      .join("");
  };
  const shown = unescaped(expected).slice(0, -1);
  expect(contextsOf("see")).toContain(`"name":"reference","namespace":"${namespace}"`);
  expect(contextsOf("see").split(shown).length, `contexts, ${hint}`).toBeGreaterThan(4);
  expect(contextsOf("see"), `filtered, ${hint}`).toContain(`"filterResult":{${shown}}`);
  let reviews = 0;
  await eventually(async () => {
    const reviewed = thing(`reviewed-${reviews++}`, ',"labels":{"reviewed":"yes"}');
    // The webhooks of hooks exclude the namespace of the operator.
    await kubectl(["create", "-f", "-"], reviewed.replace(`"${namespace}"`, `"${other}"`));
    expect(contextsOf("review").includes(shown), `review, ${hint}`).toBe(true);
  }, "the API server calls the webhook");

  // What hooks write. The API server refuses a number that no float can have.
  await own("create", "configmap", "go");
  for (const name of ["created", "merged", "patched"]) await becomes(name, expected, "object patch");
  await eventually(
    async () =>
      expect(
        await own("get", `things.v1.${group}`, "labelled", "-o", "jsonpath={.metadata.labels.seen}"),
      ).toBe("yes"),
    "the filter of a JQPatch took effect",
  );
  expect(await specOf("labelled"), `JQPatch, ${hint}`).toBe(expected);
  await eventually(
    () => expect(operator.log()).toMatch(/MergePatch Thing labelled: .*1e999/),
    "1e999 is refused",
  );

  expect(await specOf("reference", "v1beta1"), `converted, ${hint}`).toBe(expected);
  await kubectl(["create", "-f", "-"], thing("beta").replace(`${group}/v1"`, `${group}/v1beta1"`));
  expect(await specOf("beta"), `stored after a conversion, ${hint}`).toBe(expected);

  await own("delete", `things.v1.${group}`, "web");
  await becomes("web", expectedOfChart, "restored");
  // Only the last digits: drift is found, and the repair writes all other values exactly.
  const edit = '{"spec":{"accountId":1234567890123456790}}';
  const options = ["--type=merge", "--field-manager=someone", "-o", "jsonpath={.spec.accountId}"];
  expect(await own("patch", `things.v1.${group}`, "web", ...options, "-p", edit)).toBe("1234567890123456790");
  await becomes("web", expectedOfChart, "repaired");

  // The release moves: one object stays, the other follows.
  const uid = () => own("get", `things.v1.${group}`, "web", "-o", "jsonpath={.metadata.uid}");
  const uidBefore = await uid();
  await operator.stop();
  lab.file("modules/010-web/addon.yaml", `namespace: ${other}\n`);
  const second = await startOperator({ ...settings, args: ["--delete-brake=off"] });
  await second.waitReady();
  const owner = String.raw`jsonpath={.metadata.annotations.meta\.helm\.sh/release-namespace}`;
  expect(await own("get", `things.v1.${group}`, "web", "-o", owner)).toBe(other);
  expect([await specOf("web"), await uid()], `stayed, ${hint}`).toEqual([expectedOfChart, uidBefore]);
  expect(await specOf("loose", "v1", other), `moved, ${hint}`).toBe(expectedOfChart);
  await becomes("loose", "", "removed");
  // The record that moved along names the old namespace.
  expect((await second.cli(["module", "rollback", "web"])).code).toBe(0);
  await becomes("loose", expectedOfChart, "rolled back");
});
