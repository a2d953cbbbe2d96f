import { expect, test } from "vitest";

import type { JsonObject } from "../../src/model/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/MODULES.md, "CRDs that change".

const { kubectl, json, apply } = cluster();

interface AddonModule {
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { readonly type: string; readonly message: string }[];
  };
}

test(
  "a CRD that would break an object makes its module Invalid, until a person confirms it",
  { timeout: 120_000 },
  async () => {
    const namespace = await freshNamespace("crd-changes");
    const group = `${namespace}.example.org`;
    const definition = (size: string): string =>
      JSON.stringify({
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: `things.${group}` },
        spec: {
          group,
          names: { kind: "Thing", plural: "things" },
          scope: "Cluster",
          versions: [
            {
              name: "v1",
              served: true,
              storage: true,
              schema: {
                openAPIV3Schema: { type: "object", properties: { size: JSON.parse(size) as object } },
              },
            },
          ],
        },
      });
    const lab = hookLab("crd-changes");
    lab.file("modules/010-things/Chart.yaml", "apiVersion: v2\nname: things\nversion: 1.0.0\n");
    lab.file("modules/010-things/values.yaml", "thingsEnabled: true\n");
    lab.file("modules/010-things/crds/things.yaml", definition('{"type": "string"}'));
    lab.file(
      "modules/010-things/templates/map.yaml",
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: things}\n",
    );
    await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    const status = async (): Promise<AddonModule["status"]> =>
      (await json<AddonModule>(["get", "addonmodule", "things", "-n", namespace, "--ignore-not-found"]))
        .status;
    await eventually(async () => (await status())?.state === "Ready", "the module is Ready");
    await apply({ apiVersion: `${group}/v1`, kind: "Thing", metadata: { name: "one" }, size: "large" });

    const diff = (): Promise<{ code: number | null; stdout: string }> =>
      operator.cli(["module", "diff", "things"]);
    const plan = async (): Promise<JsonObject> =>
      JSON.parse((await operator.cli(["plan", "-o", "json"])).stdout) as JsonObject;
    expect(await diff()).toMatchObject({ code: 0, stdout: "No differences\n" });
    expect(await plan()).not.toHaveProperty("crds");

    // One that breaks nobody is told as a change.
    lab.file("modules/010-things/crds/things.yaml", definition('{"type": "string", "maxLength": 9}'));
    const changes = await diff();
    expect(changes.code).toBe(10);
    expect(changes.stdout).toContain(
      `# apiextensions.k8s.io/v1 CustomResourceDefinition things.${group}: changes\n`,
    );
    expect(changes.stdout).toContain("+              maxLength: 9\n");
    expect(changes.stdout).not.toContain("refused");
    expect(await plan()).toMatchObject({
      unchanged: { things: "inputs changed; the manifest stays the same" },
      crds: { things: `changes things.${group}` },
    });

    lab.file("modules/010-things/crds/things.yaml", definition('{"type": "string", "maxLength": 2}'));
    const told = `things.${group} has a stricter schema in version v1: Thing one (/size must`;
    const refused = await diff();
    expect([refused.code, refused.stdout.split("\n")[0]]).toEqual([
      10,
      expect.stringContaining(`# apiextensions.k8s.io/v1 CustomResourceDefinition: refused: `),
    ]);
    expect(refused.stdout).toContain(told);
    expect(await plan()).toMatchObject({ invalid: { things: expect.stringContaining(told) } });
    const ask = "reconcile.addon-operator.io/requestedAt";
    await kubectl(["annotate", "addonmodule/things", "-n", namespace, `${ask}=1`]);
    await kubectl(["annotate", "addonoperator/addon-operator", "-n", namespace, `${ask}=1`]);
    await eventually(async () => (await status())?.state === "Invalid", "the module is Invalid");
    const message = (await status())?.conditions?.find(({ type }) => type === "Ready")?.message ?? "";
    expect(message).toContain(told);
    const [confirmation = ""] = /addon-operator\.io\/confirm-crds=[0-9a-f]+/.exec(message) ?? [];
    await eventually(async () => {
      const events = await json<{ items: { reason: string; type: string; note: string }[] }>([
        "get",
        "events.v1.events.k8s.io",
        "-n",
        namespace,
      ]);
      const event = events.items.find(({ reason }) => reason === "CrdRefused");
      return event?.type === "Warning" && event.note.includes(told);
    }, "an Event names module, definition and object");
    const sizeIn = (): Promise<string> =>
      kubectl([
        "get",
        "crd",
        `things.${group}`,
        "-o",
        "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.size}",
      ]);
    expect(await sizeIn()).toBe('{"type":"string"}');

    const at = ["annotate", "--overwrite", "addonmodule/things", "-n", namespace];
    await kubectl([...at, confirmation, `${ask}=2`]);
    await eventually(async () => (await status())?.state === "Ready", "the module is Ready again");
    expect(await sizeIn()).toBe('{"maxLength":2,"type":"string"}');
    await kubectl(["delete", "crd", `things.${group}`]);
  },
);
