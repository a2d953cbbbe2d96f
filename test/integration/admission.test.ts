import { readFileSync } from "node:fs";
import https from "node:https";
import { text as readText } from "node:stream/consumers";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePorts } from "../../scripts/control-plane/ports.mjs";
import { cluster, deleteNamespace, eventually, makeNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import type { Lab } from "../support/hook-files.ts";
import { launchOperator } from "../support/operator.ts";
import type { OperatorProcess } from "../support/operator.ts";

// docs/guides/webhooks.md: wrong edits are refused by a real API server, with kubectl as people use it.

interface Result {
  readonly failed: boolean;
  /** What kubectl prints, warnings included. */
  readonly text: string;
}

interface Mirror {
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { readonly type: string; readonly message: string }[];
  };
}

/** Its sessions have the output of these tests. */
const GUIDE = readFileSync(join(import.meta.dirname, "../../docs/guides/webhooks.md"), "utf8");
const NAMES = ["web", "db", "cache", "queue", "mail"];
const SCHEMA = "type: object\nadditionalProperties: false\nproperties: {size: {type: integer}}\n";
const CONFIG = {
  ...Object.fromEntries(NAMES.map((name) => [`${name}Enabled`, "true"])),
  web: "size: 1\n",
  mailEnabled: "false",
  dbProtected: "true",
};

describe("edits that are refused before they are stored", { timeout: 240_000 }, () => {
  let lab: Lab;
  let ns = "";
  let operator: OperatorProcess;
  let port = 0;
  const { json, apply, bin, kubeconfig } = cluster();

  /** kubectl itself, with what it prints for people. */
  async function kubectl(args: readonly string[], { input = "", env = {} } = {}): Promise<Result> {
    const all = [...args, "-n", ns, `--kubeconfig=${kubeconfig}`];
    const { failed, stdout, stderr } = await execa(bin.kubectl, all, { input, env, reject: false });
    return { failed, text: `${stdout}\n${stderr}` };
  }
  const patch = (data: Record<string, string | null>, ...flags: string[]) =>
    kubectl([
      "patch",
      "configmap",
      "addon-operator",
      "--type=merge",
      "-p",
      JSON.stringify({ data }),
      ...flags,
    ]);
  const dryRun = (data: Record<string, string>) => {
    const metadata = { name: "addon-operator" };
    const input = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata, data });
    return kubectl(["apply", "--dry-run=server", "-f", "-"], { input });
  };
  const annotate = (object: string, annotation: string) =>
    kubectl(["annotate", "--overwrite", object, annotation]);
  const stored = async () =>
    (await json<{ data: Record<string, string> }>(["get", "configmap", "addon-operator", "-n", ns])).data;
  const mirror = (kind: string, name: string) => json<Mirror>(["get", kind, name, "-n", ns]);
  const until = (check: () => Promise<boolean>, what: string) =>
    eventually(check, what, { context: () => operator.log().slice(-4000) });

  beforeAll(async () => {
    lab = hookLab("admission");
    ns = await makeNamespace("admission");
    for (const name of NAMES) {
      lab.file(`modules/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
      lab.file(
        `modules/${name}/templates/map.yaml`,
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\ndata: {size: "{{ .Values.${name}.size }}"}\n`,
      );
      lab.file(`modules/${name}/openapi/config-values.yaml`, SCHEMA);
    }
    lab.hook(
      "modules/web/hooks/grow.sh",
      {
        configVersion: "v1",
        kubernetes: [
          {
            kind: "ConfigMap",
            namespace: { nameSelector: { matchNames: [ns] } },
            labelSelector: { matchLabels: { grow: "web" } },
            executeHookOnSynchronization: false,
            executeHookOnEvent: ["Added"],
          },
        ],
      },
      `echo '{"op":"add","path":"/web/size","value":7}' >"$CONFIG_VALUES_JSON_PATCH_PATH"`,
    );
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace: ns },
      data: CONFIG,
    });
    [port = 0] = await freePorts(1);
    const url = `--webhook-url=https://127.0.0.1:${port}`;
    const listen = ["--webhook-listen-address=127.0.0.1", `--webhook-port=${port}`];
    operator = await launchOperator({
      namespace: ns,
      modulesDir: lab.modulesDir,
      args: ["--webhooks", url, ...listen],
    });
    await operator.waitReady();
    // The API server learns of a registration through a watch of its own.
    const isRefused = async () => (await patch({ web: "size: big" }, "--dry-run=server")).failed;
    await until(isRefused, "the API server asks");
  }, 120_000);

  afterAll(async () => {
    await operator?.stop();
    const name = `addon-operator-${ns}-addon-operator-operator`;
    await kubectl(["delete", "validatingwebhookconfiguration", name, "--ignore-not-found"]);
    await deleteNamespace(ns);
  });

  test("kubectl patch and kubectl edit get the message that ConfigMapInvalid would have", async () => {
    const message = "ConfigMap addon-operator: web/size: must be integer";
    const patched = await patch({ web: "size: big" });
    expect(patched).toMatchObject({ failed: true, text: expect.stringContaining(message) });
    expect(GUIDE).toContain(patched.text.trim());
    const tmp = join(lab.dir, "edits");
    lab.file("edits/none", "");
    const env = { KUBE_EDITOR: "sed -i 's/size: 1/size: big/'", TMPDIR: tmp };
    const edited = await kubectl(["edit", "configmap", "addon-operator"], { env });
    expect(edited).toMatchObject({ failed: true, text: expect.stringContaining(message) });
    expect((await stored())["web"]).toBe(CONFIG.web);
  });

  test("the operator's own writes pass, even while what is stored is invalid", async () => {
    // As the operator's user, and as its field manager: what it would not do itself.
    const wrong = await patch({ web: "size: big", cache: "size: huge" }, "--field-manager=addon-operator");
    expect(wrong.failed).toBe(false);
    const [refused] = (await patch({ cache: "size: giant" })).text.split("\n").filter((line) => line !== "");
    const [, message = "nothing"] = /denied the request: (.*?)$/.exec(refused ?? "") ?? [];
    const stalled = async () =>
      (await mirror("addonoperator", "addon-operator")).status?.conditions?.find(
        ({ type }) => type === "Stalled",
      );
    await until(
      async () => (await stalled())?.message.includes(message) === true,
      "the same message in the status",
    );
    const labels = { grow: "web" };
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "grow", namespace: ns, labels } });
    await until(async () => (await stored())["web"] === "size: 7\n", "the hook's write");
    expect((await stored())["cache"]).toBe("size: huge");
    expect(await patch({ web: "size: 1\n", cache: null })).toMatchObject({ failed: false });
    await until(async () => (await stalled())?.message.includes("cache/size") !== true, "all is valid again");
  });

  test("a dry run says what an edit would do, and stores nothing", async () => {
    const before = await stored();
    const { failed, text } = await dryRun({
      ...before,
      mailEnabled: "true",
      cacheEnabled: "false",
      webb: "1",
    });
    expect(failed).toBe(false);
    expect(text).toContain("Warning: webb (did you mean web?): this key matches no module and has no effect");
    expect(text).toContain("Warning: would install mail");
    expect(text).toContain("Warning: would delete cache");
    expect(text).toContain("Warning: would run db, queue, web");
    for (const line of text.trim().split("\n")) expect(GUIDE).toContain(`\n${line}\n`);
    expect(await stored()).toEqual(before);
    expect((await dryRun({ ...before, web: "size: 2" })).text).toContain("Warning: would run web");
  });

  test("too many removals, and a protected module without its flag, are refused", async () => {
    const off = await patch({ webEnabled: null, cacheEnabled: null, queueEnabled: null, dbEnabled: null });
    expect(off.text).toContain("the module is protected but disabled (remove dbProtected from the ConfigMap");
    const all = {
      webEnabled: null,
      cacheEnabled: null,
      queueEnabled: null,
      dbEnabled: null,
      dbProtected: null,
    };
    const { failed, text } = await patch(all);
    expect(failed).toBe(true);
    expect(text).toContain(
      "not deleted: cache, db, queue, web: 4 of 4 modules at once are more than --delete-brake",
    );
    expect(text).toContain(`addonoperator/addon-operator addon-operator.io/confirm-delete=`);
    expect((await stored())["webEnabled"]).toBe("true");
  });

  test("malformed requests and stale confirmations are refused with the right command", async () => {
    const malformed = await annotate("addonmodule/web", "reconcile.addon-operator.io/requestedAt=später");
    expect(malformed.failed).toBe(true);
    const command = `kubectl annotate --overwrite -n ${ns} addonmodule/web reconcile.addon-operator.io/requestedAt="$(date +%s)"`;
    expect(malformed.text).toContain(command);
    const useless = await annotate("addonmodule/web", "addon-operator.io/confirm-crds=0123456789ab");
    expect(useless).toMatchObject({ failed: true, text: expect.stringContaining("confirms nothing") });
    const typo = await annotate("addonmodule/web", "addon-operator.io/confirm-crd=0123456789ab");
    expect(typo.failed).toBe(false);
    expect(typo.text).toContain(
      "Warning: annotation addon-operator.io/confirm-crd has no effect on an AddonModule",
    );
    expect(await annotate("addonmodule/web", "reconcile.addon-operator.io/requestedAt=now")).toMatchObject({
      failed: false,
    });
  });

  test("a stale confirmation of a takeover gets the token of now", async () => {
    const metadata = { name: "mail", namespace: ns };
    await apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { size: "mine" } });
    await patch({ mailEnabled: "true" });
    await until(
      async () => (await mirror("addonmodule", "mail")).status?.state === "Retrying",
      "the question",
    );
    const key = "addon-operator.io/confirm-takeover";
    const { failed, text } = await annotate("addonmodule/mail", `${key}=0123456789ab`);
    expect(failed).toBe(true);
    expect(GUIDE).toContain(text.trim().split(" kubectl annotate", 1)[0]);
    const [, token = ""] = new RegExp(`addonmodule/mail ${key}=(\\w{12})`).exec(text) ?? [];
    expect(await annotate("addonmodule/mail", `${key}=${token}`)).toMatchObject({ failed: false });
    await until(async () => (await mirror("addonmodule", "mail")).status?.state === "Ready", "the takeover");
  });

  test("a request that the API server did not send is refused before it is read", async () => {
    const request = {
      uid: "1",
      operation: "UPDATE",
      kind: { kind: "ConfigMap" },
      namespace: ns,
      dryRun: true,
    };
    const object = { data: { ...(await stored()), web: "size: 1" } };
    const review = { request: { ...request, name: "addon-operator", object, oldObject: {} } };
    const body = JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", ...review });
    const send = async (path: string, text: string): Promise<[number, string]> => {
      const { promise, resolve, reject } = Promise.withResolvers<[number, string]>();
      const sent = https.request(
        `https://127.0.0.1:${port}${path}`,
        { method: "POST", rejectUnauthorized: false, headers: { "content-type": "application/json" } },
        (answer) =>
          void readText(answer).then((answered) => resolve([answer.statusCode ?? 0, answered]), reject),
      );
      sent.on("error", reject).end(text);
      return promise;
    };
    for (const path of ["/admit", "/admit/", `/admit/${"0".repeat(32)}`])
      for (const text of [body, "no JSON"])
        expect(await send(path, text)).toEqual([404, `no webhook is served at ${path}\n`]);
    // Only who may read webhook configurations knows the path.
    const { webhooks } = await json<{ webhooks: { clientConfig: { url: string } }[] }>([
      "get",
      "validatingwebhookconfiguration",
      `addon-operator-${ns}-addon-operator-operator`,
    ]);
    const { pathname } = new URL(webhooks[0]?.clientConfig.url ?? "");
    expect((await send(pathname, body))[0]).toBe(200);
  });

  test("an operator that is down blocks nothing", async () => {
    await operator.stop();
    const from = performance.now();
    expect(await patch({ web: "size: big" })).toMatchObject({ failed: false });
    expect(performance.now() - from).toBeLessThan(5000);
    expect((await stored())["web"]).toBe("size: big");
  });
});
