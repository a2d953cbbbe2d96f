import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { hookLab, type Context, type Lab } from "../support/hook-files.ts";
import { launchOperator, type OperatorProcess } from "../support/operator.ts";

// Webhook bindings of hooks (docs/reference/hooks.md, "Webhooks") with the whole operator and the real API server.

const { kubectl, json, apply } = cluster();

let lab: Lab;
let ns: string;
let covered: string;
let port: number;
let operator: OperatorProcess;

const NAME = "webhook-test";
const GROUP = "webhooks.example.com";
const CRD = `crontabs.${GROUP}`;

const binding = (name: string, more: object = {}) => ({
  name,
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  namespace: { labelSelector: { matchLabels: { "kubernetes.io/metadata.name": covered } } },
  ...more,
});

/** What a hook does for objects of a name: the text of one branch of a shell `case`. */
const CASES: Readonly<Record<string, string>> = {
  allow: `answer '{"allowed":true,"warnings":["careful"]}'`,
  deny: `answer '{"allowed":false,"message":"not this one"}'`,
  "any-case": `answer '{"Allowed":true,"other":1} and more'`,
  bare: "answer '{}'",
  nothing: ":",
  failing: `answer '{"allowed":true}'; exit 1`,
  unpadded: `answer '{"allowed":true,"patch":"YWI"}'`,
  patching: `answer '{"allowed":true,"patch":"W10="}'`,
  "list-of-operations": `answer '[{"op":"add"}]'`,
  malformed: `answer '{"allowed":'`,
  blank: "answer ' '",
  huge: `head -c 104857600 /dev/zero > "$ADMISSION_RESPONSE_PATH"`,
  values: `answer '{"allowed":true}'; echo '{"op":"add","path":"/global/x","value":1}' > "$VALUES_JSON_PATCH_PATH"`,
  "same-file": `[ "$VALIDATING_RESPONSE_PATH" = "$ADMISSION_RESPONSE_PATH" ]; answer '{"allowed":true}'`,
  "par-1": meet("par-1", "par-2"),
  "par-2": meet("par-2", "par-1"),
};

/** Waits until the other one runs, too. */
function meet(own: string, other: string): string {
  return `touch "$RECORDS/${own}"; wait_until [ -e "$RECORDS/${other}" ]; answer '{"allowed":true}'`;
}

const branches = Object.entries(CASES).map(([name, text]) => `*'"name":"${name}"'*) ${text};;`);
const ADMIT = `
answer() { printf '%s' "$1" > "$ADMISSION_RESPONSE_PATH"; }
case "$(cat "$BINDING_CONTEXT_PATH")" in
${branches.join("\n")}
*) answer '{"allowed":true}';;
esac
`;

/** Writes each object in the other version; what is told by its name fails. */
const CONVERT = `
part() { sed -E 's#.*"'"$1"'":"([^"]*/)?([^"]*)".*#\\2#' "$BINDING_CONTEXT_PATH"; }
case "$(cat "$BINDING_CONTEXT_PATH")" in
*'"name":"refused"'*) echo '{"failedMessage":"refused by the hook","convertedObjects":[]}' > "$CONVERSION_RESPONSE_PATH";;
*'"name":"lost"'*) echo '{"convertedObjects":[]}' > "$CONVERSION_RESPONSE_PATH";;
*) sed -e 's#.*"objects":#{"convertedObjects":#; s#}},"toVersion":"[^"]*","type":"Conversion"}]$#}#' \
  -e 's#${GROUP}/'"$(part fromVersion)"'"#${GROUP}/'"$(part toVersion)"'"#g' "$BINDING_CONTEXT_PATH" > "$CONVERSION_RESPONSE_PATH";;
esac
`;

/** A hook that converts both ways. */
const between = (crdName: string, a: string, b: string) => ({
  configVersion: "v1",
  kubernetesCustomResourceConversion: [
    {
      name: "crontabs",
      crdName,
      conversions: [
        { fromVersion: a, toVersion: b },
        { fromVersion: b, toVersion: a },
      ],
    },
  ],
});

const start = () =>
  launchOperator({
    namespace: ns,
    modulesDir: lab.modulesDir,
    globalHooksDir: lab.globalHooksDir,
    env: {
      WEBHOOK_URL: `https://127.0.0.1:${port}`,
      WEBHOOK_PORT: String(port),
      WEBHOOK_LISTEN_ADDRESS: "127.0.0.1",
      WEBHOOK_CONFIGURATION_NAME: NAME,
    },
  });

const version = (name: string, storage = false) => ({
  name,
  served: true,
  storage,
  schema: {
    openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
  },
});

const crd = (name: string) => ({
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `${name}s.${GROUP}` },
  spec: {
    group: GROUP,
    scope: "Namespaced",
    names: { plural: `${name}s`, singular: name, kind: name.replace(/^./, (c) => c.toUpperCase()) },
    versions: [version("v1alpha1"), version("v1beta1"), version("v1", true)],
  },
});

const webhooks = async (kind: "validating" | "mutating") =>
  (
    await json<{ webhooks: Record<string, unknown>[] }>([
      "get",
      `${kind}webhookconfiguration`,
      `${NAME}-hooks`,
    ])
  ).webhooks;

const labelled = (name: string, label: string, value: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace: covered, labels: { [label]: value } },
});

const create = (name: string) => kubectl(["create", "configmap", name, "-n", covered]);

beforeAll(async () => {
  lab = hookLab("webhooks");
  ns = await makeNamespace("webhooks");
  covered = await makeNamespace("covered");
  [port = 0] = await freePorts(1);
  await apply(crd("crontab"), crd("foreign"));
  lab.hook(
    "global-hooks/admit.sh",
    {
      configVersion: "v1",
      kubernetes: [
        {
          name: "maps",
          group: "g",
          kind: "ConfigMap",
          namespace: { nameSelector: { matchNames: [covered] } },
          nameSelector: { matchNames: ["seed"] },
          executeHookOnSynchronization: false,
          executeHookOnEvent: [],
        },
      ],
      kubernetesValidating: [binding("maps.admit.example.com", { group: "g" })],
    },
    ADMIT,
  );
  lab.hook(
    "global-hooks/change.sh",
    {
      configVersion: "v1",
      kubernetesMutating: [
        binding("maps.change.example.com", { labelSelector: { matchLabels: { change: "me" } } }),
      ],
    },
    `printf '{"allowed":true,"patch":"%s"}' "$(printf '%s' '[{"op":"add","path":"/data","value":{"a":"1"}}]' | base64 -w0)" > "$ADMISSION_RESPONSE_PATH"`,
  );
  lab.hook(
    "global-hooks/slow.sh",
    {
      configVersion: "v1",
      kubernetesValidating: [
        binding("maps.slow.example.com", {
          timeoutSeconds: 1,
          labelSelector: { matchLabels: { slow: "yes" } },
        }),
      ],
    },
    `echo $$ > "$RECORDS/slow-pid"; sleep 600`,
  );
  const page = readFileSync(join(import.meta.dirname, "../../docs/guides/webhooks.md"), "utf8");
  const [, example = ""] = /^```bash hooks\/image-pull-secret\.sh\n([^]*?)^```$/m.exec(page) ?? [];
  lab.file("modules/010-web/hooks/image-pull-secret.sh", example);
  await kubectl(["label", "namespace", covered, "image-pull-secret=true"]);
  // What they write matches a webhook of the operator, which is registered already at the second start.
  const started = (name: string): string =>
    `echo '{"operation":"Create","object":${JSON.stringify(labelled("NAME", "started", name))}}' | sed "s/NAME/${name}-$$/" > "$KUBERNETES_PATCH_PATH"`;
  lab.hook("global-hooks/start.sh", { configVersion: "v1", onStartup: 1 }, started("global"));
  lab.hook("modules/030-late/hooks/start.sh", { configVersion: "v1", onStartup: 1 }, started("late"));
  lab.hook(
    "modules/030-late/hooks/late.sh",
    {
      configVersion: "v1",
      kubernetesValidating: [
        binding("maps.late.example.com", { labelSelector: { matchLabels: { started: "late" } } }),
      ],
    },
    `echo '{"allowed":true}' > "$ADMISSION_RESPONSE_PATH"`,
  );
  lab.hook("global-hooks/to-beta.sh", between(CRD, "v1alpha1", "v1beta1"), CONVERT);
  lab.hook("global-hooks/to-stable.sh", between(CRD, `${GROUP}/v1beta1`, `${GROUP}/v1`), CONVERT);
  lab.hook("global-hooks/foreign.sh", between(`foreigns.${GROUP}`, "v1", "v1beta1"), CONVERT);
  lab.hook(
    "global-hooks/blocked.sh",
    {
      configVersion: "v1",
      kubernetes: [
        {
          name: "block",
          kind: "ConfigMap",
          namespace: { nameSelector: { matchNames: [ns] } },
          nameSelector: { matchNames: ["block"] },
          executeHookOnSynchronization: false,
        },
      ],
    },
    "wait_for block",
  );
  lab.file("modules/values.yaml", "webEnabled: true\nlateEnabled: true\n");
  lab.file("modules/010-web/Chart.yaml", "name: web\nversion: 0.1.0\napiVersion: v2\n");
  lab.file(
    "modules/010-web/templates/map.yaml",
    `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web, namespace: ${ns}}\n`,
  );
  lab.hook(
    "modules/010-web/hooks/web.sh",
    {
      configVersion: "v1",
      kubernetesValidating: [
        binding("maps.web.example.com", { labelSelector: { matchLabels: { web: "yes" } } }),
      ],
    },
    `echo '{"allowed":false,"message":"by the module"}' > "$ADMISSION_RESPONSE_PATH"`,
  );
  const foreign = {
    strategy: "Webhook",
    webhook: {
      conversionReviewVersions: ["v1"],
      clientConfig: { url: "https://127.0.0.1:1/x" },
    },
  };
  await kubectl([
    "patch",
    "crd",
    `foreigns.${GROUP}`,
    "--type=merge",
    "-p",
    JSON.stringify({ spec: { conversion: foreign } }),
  ]);
  operator = await start();
  await operator.waitReady();
}, 240_000);

test("the webhooks of global hooks and of a module are in force", async () => {
  await eventually(
    async () => {
      expect((await webhooks("validating")).length).toBe(4);
      await expect(create("deny")).rejects.toThrow(/not this one/);
      await expect(apply(labelled("m", "web", "yes"))).rejects.toThrow(/by the module/);
    },
    "the webhooks are in force",
    { context: () => operator.log().slice(-3000) },
  );
});

afterAll(async () => {
  await operator?.kill9();
  for (const kind of ["validating", "mutating"])
    await kubectl(["delete", `${kind}webhookconfiguration`, `${NAME}-hooks`, "--ignore-not-found"]);
  await kubectl(["delete", "crd", CRD, `foreigns.${GROUP}`, "--wait=false", "--ignore-not-found"]);
  await Promise.all([ns, covered].map(deleteNamespace));
  rmSync(lab.dir, { recursive: true, force: true });
});

/** The last context of a hook whose request is about an object of that name. */
const contextOf = (hook: string, name: string): Context => {
  const found = lab.contexts(hook).filter((each) => JSON.stringify(each).includes(`"name":"${name}"`));
  const last = found.at(-1);
  if (last === undefined) throw new Error(`${hook} did not run for ${name}`);
  return last;
};

describe("a binding with only the required fields", () => {
  test("is registered with the defaults, without the operator's namespace", async () => {
    const [first] = await webhooks("validating");
    expect(first).toMatchObject({
      name: "maps.admit.example.com",
      failurePolicy: "Fail",
      sideEffects: "None",
      timeoutSeconds: 10,
      matchPolicy: "Equivalent",
      admissionReviewVersions: ["v1", "v1beta1"],
      namespaceSelector: {
        matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "NotIn", values: [ns] }],
      },
    });
    expect((await webhooks("mutating")).map(({ name }) => name)).toEqual([
      "maps.change.example.com",
      "image-pull-secret.example.com",
    ]);
  });
});

describe("the answer of a hook", () => {
  test.each(["allow", "any-case", "same-file"])("%s: the object is stored", async (name) => {
    await create(name);
  });

  test.each([
    ["deny", /denied the request: not this one/],
    ["bare", /denied the request without explanation/],
    ["nothing", /wrote no response: the file at ADMISSION_RESPONSE_PATH is empty/],
    ["failing", /Hook failed/],
    ["unpadded", /Hook failed/],
    ["patching", /Hook failed/],
    ["list-of-operations", /Hook failed/],
    ["malformed", /Hook failed/],
    ["blank", /Hook failed/],
    ["huge", /Hook failed/],
    ["values", /Hook failed/],
  ])("%s: the object is refused", async (name, message) => {
    await expect(create(name)).rejects.toThrow(message);
  });

  test("the log says why a validating hook must not patch", async () => {
    await eventually(() => expect(operator.log()).toMatch(/must not answer with a patch/), "it is logged");
  });

  test("a warning reaches the user", async () => {
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "allow", namespace: covered } };
    const body = JSON.stringify({ ...reviewOf(object), request: { ...reviewOf(object).request } });
    const answer = await post("/hooks/validating/maps.admit.example.com", body);
    expect(JSON.parse(answer.body)).toMatchObject({ response: { allowed: true, warnings: ["careful"] } });
  });

  test("a patch changes the object", async () => {
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "changed", namespace: covered, labels: { change: "me" } },
    });
    const made = await json<{ data: unknown }>(["get", "configmap", "changed", "-n", covered]);
    expect(made.data).toEqual({ a: "1" });
  });

  test("the mutating hook of the guide gives a Pod its Secret", async () => {
    const run = ["run", "web", "--image=example.com/web", "-n", covered, "--dry-run=server"];
    const made = await json<{ spec: { imagePullSecrets: unknown } }>(run);
    expect(made.spec.imagePullSecrets).toEqual([{ name: "registry" }]);
  });
});

describe("the run", () => {
  test("of a binding with a group gets its snapshots, and is of its own type; without a list there are none", async () => {
    await create("seed");
    await eventually(async () => {
      await kubectl(["create", "configmap", "probe", "-n", covered, "--dry-run=server"]);
      const snapshots = contextOf("admit", "probe")["snapshots"] as { maps: unknown[] };
      expect(snapshots.maps).toHaveLength(1);
    }, "the snapshot has the object");
    const context = contextOf("admit", "probe");
    expect(context).toMatchObject({ binding: "maps.admit.example.com", type: "Validating" });
    expect(context["review"]).toMatchObject({
      request: { operation: "CREATE", name: "probe", namespace: covered, dryRun: true, oldObject: null },
    });
    expect(contextOf("change", "changed")).toMatchObject({ type: "Mutating" });
    expect(contextOf("change", "changed")).not.toHaveProperty("snapshots");
  });

  test("of two calls goes on at the same time, while the queue main is blocked", async () => {
    await kubectl(["create", "configmap", "block", "-n", ns]);
    await eventually(() => expect(lab.runs("blocked")).toHaveLength(1), "main is blocked");
    await Promise.all([create("par-1"), create("par-2")]);
    lab.release("block");
  });

  test("is killed when its time is over, with what it started", async () => {
    await expect(
      apply({
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "slow", namespace: covered, labels: { slow: "yes" } },
      }),
    ).rejects.toThrow(/deadline|time allotted|no answer in time/i);
    const pid = readFileSync(join(lab.dir, "records", "slow-pid"), "utf8").trim();
    await eventually(() => expect(existsSync(`/proc/${pid}`)).toBe(false), "the process is gone");
  });
});

const reviewOf = (object: object, apiVersion = "admission.k8s.io/v1") => ({
  apiVersion,
  kind: "AdmissionReview",
  request: { uid: "u1", operation: "CREATE", kind: {}, resource: {}, userInfo: {}, name: "allow", object },
});

function post(
  path: string,
  body: string,
  type = "application/json",
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port, path, method: "POST", rejectUnauthorized: false, agent: false },
      (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => (text += part));
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body: text }));
      },
    );
    sent.setHeader("content-type", type);
    sent.on("error", reject).end(body);
  });
}

describe("the server", () => {
  test("answers in the version of the review, and refuses what is none", async () => {
    const path = "/hooks/validating/maps.admit.example.com";
    const answer = await post(path, JSON.stringify(reviewOf({}, "admission.k8s.io/v1beta1")));
    expect(JSON.parse(answer.body)).toMatchObject({
      apiVersion: "admission.k8s.io/v1beta1",
      kind: "AdmissionReview",
      response: { uid: "u1", allowed: true },
    });
    expect((await post("/hooks/validating/unknown", JSON.stringify(reviewOf({})))).status).toBe(404);
    expect((await post(path, "{}", "text/plain")).status).toBe(415);
    expect((await post(path, "{")).status).toBe(400);
    expect((await post(path, "{}")).status).toBe(400);
  });
});

describe("conversion", () => {
  const cronTab = (name: string) => ({
    apiVersion: `${GROUP}/v1alpha1`,
    kind: "Crontab",
    metadata: { name, namespace: covered },
    spec: { a: 1 },
  });

  test("goes step by step: the second step gets the output of the first", async () => {
    await apply(cronTab("stepwise"));
    const { spec } = await json<{ spec: unknown }>([
      "get",
      `crontabs.v1.${GROUP}`,
      "stepwise",
      "-n",
      covered,
    ]);
    expect(spec).toEqual({ a: 1 });
    const contexts = lab.contexts("to-stable").filter((each) => JSON.stringify(each).includes("stepwise"));
    const first = contexts.find((each) => each["toVersion"] === `${GROUP}/v1`);
    expect(first).toMatchObject({
      type: "Conversion",
      fromVersion: `${GROUP}/v1beta1`,
      toVersion: `${GROUP}/v1`,
      review: {
        request: { desiredAPIVersion: `${GROUP}/v1`, objects: [{ apiVersion: `${GROUP}/v1beta1` }] },
      },
    });
  });

  test.each([
    ["refused", /refused by the hook/],
    ["lost", /returned 0 objects instead of 1/],
  ])("an object that is %s is not stored", async (name, message) => {
    await expect(apply(cronTab(name))).rejects.toThrow(message);
  });

  test("that someone else configured stays, and the log says so", async () => {
    const { spec } = await json<{ spec: { conversion: unknown } }>(["get", "crd", `foreigns.${GROUP}`]);
    expect(JSON.stringify(spec.conversion)).toContain("https://127.0.0.1:1/x");
    expect(operator.log()).toContain("has a conversion webhook that is not of this operator");
  });
});

describe("the life of a module", () => {
  test("its webhook is removed with it, before its release is", async () => {
    await kubectl([
      "patch",
      "configmap",
      "addon-operator",
      "-n",
      ns,
      "--type=merge",
      "-p",
      '{"data":{"webEnabled":"false"}}',
    ]);
    await eventually(
      async () => {
        const names = (await webhooks("validating")).map(({ name }) => name);
        expect(names).not.toContain("maps.web.example.com");
        expect(operator.log()).toContain("Module deleted");
      },
      "the module is removed",
      { timeoutMs: 60_000 },
    );
    const log = operator.log();
    expect(log.lastIndexOf("Webhooks are registered")).toBeLessThan(log.indexOf("Module deleted"));
  });

  test("when the operator is killed, everything stays registered; the next one serves it again", async () => {
    await operator.kill9();
    expect((await webhooks("validating")).length).toBe(3);
    await expect(create("while-down")).rejects.toThrow(/failed calling webhook|connection refused/i);
    operator = await start();
    await operator.waitReady();
    await eventually(
      () => expect(operator.log()).toContain("Module run succeeded module=late"),
      "late has run",
      {
        context: () => operator.log().slice(-3000),
      },
    );
    // The onStartup hooks have run once for each start, although their objects match webhooks that fail closed.
    const made = await kubectl(["get", "configmap", "-n", covered, "-l", "started", "-o", "name"]);
    expect(
      made
        .trim()
        .split("\n")
        .map((name) => name.replace(/-\d+$/, ""))
        .sort(),
    ).toEqual(["configmap/global", "configmap/global", "configmap/late", "configmap/late"]);
    await eventually(() => create("after-restart"), "the webhook answers again");
  });
});

describe("equal names", () => {
  test("of webhooks of two hooks are an error of the module", async () => {
    lab.hook("modules/020-twin/hooks/twin.sh", {
      configVersion: "v1",
      kubernetesValidating: [binding("maps.admit.example.com")],
    });
    lab.file("modules/020-twin/Chart.yaml", "name: twin\nversion: 0.1.0\napiVersion: v2\n");
    writeFileSync(join(lab.modulesDir, "values.yaml"), "twinEnabled: true\nlateEnabled: true\n");
    await operator.stop();
    operator = await start();
    await eventually(
      () =>
        expect(operator.log()).toMatch(/declares the validating webhook maps.admit.example.com, and so does/),
      "the problem is reported",
    );
  });
});
