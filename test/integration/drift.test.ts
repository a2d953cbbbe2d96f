// Run with helm 3 as well.
import { rmSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";

import { cluster, eventually, freshNamespace, helmUnderTest } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// What others change of what helm set.

const WEB = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {tier: front}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "example.com/web:1", args: [a, b], ports: [{name: http, containerPort: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beside}
data: {size: "{{ .Values.web.size }}", kept: "yes"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {password: correct-horse}
{{ if lt (int .Values.web.size) 5 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
{{ end }}
`;

interface Status {
  readonly state?: string;
  readonly conditions?: readonly Record<"type" | "status" | "reason" | "message", string>[];
  readonly drift?: readonly Record<"object" | "field" | "manager" | "since", string>[];
  readonly release?: { readonly revision: number };
}

/** A namespace and one module, `web`, with an operator that does `mode` about drift. */
async function prepare(mode: string, terms = "") {
  const namespace = await freshNamespace("drift");
  const lab = hookLab("drift");
  onTestFinished(() => rmSync(lab.dir, { recursive: true, force: true }));
  lab.file("modules/values.yaml", "webEnabled: true\nweb: {size: 1}\n");
  lab.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n");
  lab.file("modules/010-web/templates/all.yaml", WEB);
  if (terms !== "") lab.file("modules/010-web/addon.yaml", terms);
  const own = (...args: readonly string[]) => cluster().kubectl([...args, "-n", namespace]);
  await own("create", "configmap", "addon-operator");
  const start = () =>
    startOperator({ namespace, modulesDir: lab.modulesDir, helm: helmUnderTest(), env: { DRIFT: mode } });
  const operator = await start();
  await operator.waitReady();
  const status = async (): Promise<Status> =>
    (await cluster().json<{ status?: Status }>(["get", "addonmodule", "web", "-n", namespace])).status ?? {};
  const drifted = async () => (await status()).conditions?.find(({ type }) => type === "Drifted");
  const ready = async () => {
    const { state, conditions } = await status();
    return { state, message: conditions?.find(({ type }) => type === "Ready")?.message };
  };
  const at = (object: string, path: string): Promise<string> =>
    own("get", object, "-o", `jsonpath={${path}}`);
  // Its objects are watched once the first reload is over.
  await eventually(
    async () => expect((await status()).conditions?.some(({ type }) => type === "Healthy")).toBe(true),
    "the objects are watched",
  );
  return {
    namespace,
    operator,
    start,
    own,
    status,
    ready,
    at,
    image: () => at("deployment/web", ".spec.template.spec.containers[0].image"),
    patch: (object: string, patch: object, ...more: readonly string[]) =>
      own("patch", object, "--type=merge", "-p", JSON.stringify(patch), ...more),
    edit: (data: object) =>
      own("patch", "configmap", "addon-operator", "--type=merge", "-p", JSON.stringify({ data })),
    says: (message: unknown) =>
      eventually(
        async () => expect(await drifted()).toMatchObject({ status: "True", reason: "Drifted", message }),
        `Drifted is ${String(message)}`,
      ),
    saysNothing: () => eventually(async () => expect(await drifted()).toBeUndefined(), "nothing has drifted"),
    events: (reason: string) =>
      eventually(
        async () =>
          expect(await own("get", "events", "-o", "name", "--field-selector", `reason=${reason}`)).not.toBe(
            "",
          ),
        `an Event ${reason}`,
      ),
  };
}

/** As a person edits it: the item gets another key, and keeps its name. */
const edited = (path: string, port: string): string =>
  JSON.stringify([{ op: "replace", path: `${path}/0/${port}`, value: 81 }]);
const SERVICE_EDIT = edited("/spec/ports", "port");
const DEPLOYMENT_EDIT = edited("/spec/template/spec/containers/0/ports", "containerPort");

const IMAGE = 'spec.template.spec.containers[name="web"].image';
/** As an autoscaler does it. */
const AUTOSCALER = ["--subresource=scale", "--field-manager=kube-controller-manager"];

test("a field that somebody else changes is reported with who and what, until it is as before", async () => {
  const { namespace, own, at, status, image, patch, says, saysNothing, events, edit } = await prepare("warn");
  const title = `Deployment ${namespace}/web`;
  await own("set", "image", "deployment/web", "web=example.com/web:2");
  await says(`kubectl-set changed ${IMAGE} of ${title}`);
  const object = `${namespace}/Deployment/web`;
  expect((await status()).drift).toEqual([
    { object, field: IMAGE, manager: "kubectl-set", since: expect.any(String) },
  ]);
  await events("Drifted");
  // Nobody's image is put back.
  expect(await image()).toBe("example.com/web:2");
  expect((await status()).state).toBe("Ready");

  await own("set", "image", "deployment/web", "web=example.com/web:1");
  await saysNothing();
  await own("set", "image", "deployment/web", "web=example.com/web:3");
  await says(`kubectl-set changed ${IMAGE} of ${title}`);
  await patch("configmap/beside", { data: { kept: null } }, "--field-manager=someone");
  await says(expect.stringContaining(", and 1 more object"));

  // An item of a list gets another key.
  await patch("configmap/beside", { data: { kept: "yes" } }, "--field-manager=someone");
  await own("set", "image", "deployment/web", "web=example.com/web:1");
  await own("patch", "service/web", "--type=json", "--field-manager=editor", "-p", SERVICE_EDIT);
  await says(expect.stringMatching(/^editor changed spec\.ports\[port=80\] of Service .*\/web$/));
  await edit({ web: "size: 3" });
  await eventually(async () => expect(await at("configmap/beside", ".data.size")).toBe("3"), "upgraded");
  await saysNothing();
  expect(await at("service/web", ".spec.ports[*].port")).toBe("80");
  await own("set", "image", "deployment/web", "web=example.com/web:3");
  await says(`kubectl-set changed ${IMAGE} of ${title}`);
  await edit({ webDrift: "off" });
  await saysNothing();
});

test("what an autoscaler does, and what the chart does not set, is no drift", async () => {
  const terms = "drift: {ignore: [{kind: ConfigMap, paths: [/data/size]}]}\n";
  const { own, patch, status, at } = await prepare("repair", terms);
  // Nothing scales the Deployment but somebody who says so.
  await patch("deployment/web", { spec: { replicas: 2 } }, ...AUTOSCALER);
  await eventually(
    async () => expect(await at("deployment/web", ".spec.replicas")).toBe("1"),
    "the replicas are back",
  );
  await own("autoscale", "deployment/web", "--min=1", "--max=5");
  await patch("deployment/web", { spec: { replicas: 3 } }, ...AUTOSCALER);
  await own("label", "deployment/web", "team=blue");
  await own("annotate", "configmap/beside", "note=seen");
  await patch("configmap/beside", { data: { size: "9" } }, "--field-manager=sizer");
  // What comes after them is put back, so they have been looked at.
  await own("set", "image", "deployment/web", "web=example.com/web:2");
  await patch("configmap/beside", { data: { kept: "no" } }, "--field-manager=sizer");
  await eventually(
    async () => expect(await at("deployment/web", IMAGES)).toBe("example.com/web:1"),
    "the image is back",
  );
  await eventually(
    async () => expect(await at("configmap/beside", ".data.kept")).toBe("yes"),
    "the data is back",
  );
  expect(await at("deployment/web", ".spec.replicas")).toBe("3");
  expect(await at("deployment/web", ".metadata.labels.team")).toBe("blue");
  expect(await at("configmap/beside", ".data.size")).toBe("9");
  await eventually(async () => expect((await status()).drift).toBeUndefined(), "no drift is told");
});

const IMAGES = ".spec.template.spec.containers[0].image";

test("what others change is put back, that object alone, and the next upgrade meets no conflict", async () => {
  const { own, patch, status, at, events, edit, saysNothing, operator } = await prepare("repair");
  const back = (object: string, path: string, value: string) =>
    eventually(async () => expect(await at(object, path)).toBe(value), `${object} ${path} is back`);
  await own("set", "image", "deployment/web", "web=example.com/web:2");
  await back("deployment/web", IMAGES, "example.com/web:1");
  await events("Repaired");
  await own("scale", "deployment/web", "--replicas=0");
  await back("deployment/web", ".spec.replicas", "1");
  await own("patch", "service/web", "--type=json", "-p", SERVICE_EDIT);
  await back("service/web", ".spec.ports[*].port", "80");
  await own("patch", "deployment/web", "--type=json", "-p", DEPLOYMENT_EDIT);
  await back("deployment/web", ".spec.template.spec.containers[0].ports[*].containerPort", "80");
  await own("label", "deployment/web", "tier=back", "--overwrite");
  await back("deployment/web", ".metadata.labels.tier", "front");
  await patch("configmap/beside", { data: { kept: null } });
  await back("configmap/beside", ".data.kept", "yes");
  const password = await at("secret/hidden", ".data.password");
  await patch("secret/hidden", { data: { password: "d3Jvbmc=" } });
  await back("secret/hidden", ".data.password", password);
  await saysNothing();
  expect((await status()).release?.revision).toBe(1);
  expect(operator.log()).not.toContain("correct-horse");

  await edit({ web: "size: 2" });
  await eventually(
    async () => expect(await status()).toMatchObject({ state: "Ready", release: { revision: 2 } }),
    "upgraded",
  );
  expect(await at("configmap/beside", ".data.size")).toBe("2");
  await saysNothing();
});

test("of a module that is left alone drift is reported and not put back, and found after a restart", async () => {
  const { namespace, own, image, says, edit, patch, ready, status, operator, start } =
    await prepare("repair");
  await edit({ webMaintenance: "NoResourceReconciliation" });
  await eventually(async () => expect((await status()).state).toBe("Suspended"), "suspended");
  await own("set", "image", "deployment/web", "web=example.com/web:2");
  await says(expect.stringContaining(`kubectl-set changed ${IMAGE}`));
  expect(await image()).toBe("example.com/web:2");
  await edit({ webMaintenance: null });
  await eventually(async () => expect(await image()).toBe("example.com/web:1"), "the image is back");

  await operator.stop();
  await own("set", "image", "deployment/web", "web=example.com/web:2");
  await start();
  await eventually(async () => expect(await image()).toBe("example.com/web:1"), "the image is back again");

  // What others keep although helm has deleted it is named, with a new chart and without the module.
  const keep = (finalizers: readonly string[] | null) =>
    Promise.all(["extra", "beside"].map((name) => patch(`configmap/${name}`, { metadata: { finalizers } })));
  const explained = (state: string, message: unknown) =>
    eventually(
      async () => expect(await ready()).toMatchObject({ state, message }),
      `${state}: ${String(message)}`,
    );
  await keep(["example.org/keep"]);
  const kept = (name: string) => `${namespace}/ConfigMap/${name} (finalizer example.org/keep)`;
  await edit({ web: "size: 5" });
  await explained("Ready", expect.stringContaining(`; still being deleted: ${kept("extra")}`));
  await edit({ webEnabled: "false" });
  await explained("Disabled", expect.stringContaining(`: ${kept("beside")}, ${kept("extra")}`));
  await keep(null);
  await explained("Disabled", expect.not.stringContaining("still being deleted"));
});
