import { join } from "node:path";
import { expect, test } from "vitest";

import type { JsonObject } from "../../src/base/model/index.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { hookLab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";

// docs/reference/modules.md, "CRDs that change".

const { kubectl, json, apply } = cluster();

interface AddonModule {
  readonly status?: {
    readonly state?: string;
    readonly conditions?: readonly { readonly type: string; readonly message: string }[];
  };
}

test(
  "a CRD that would break an object makes its module Invalid, until a person confirms it",
  { timeout: 240_000 },
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

    // One that breaks nobody is reported as a change.
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
    const reported = `things.${group} has a stricter schema in version v1: Thing one (/size must`;
    const refused = await diff();
    expect([refused.code, refused.stdout.split("\n")[0]]).toEqual([
      10,
      expect.stringContaining(`# apiextensions.k8s.io/v1 CustomResourceDefinition: refused: `),
    ]);
    expect(refused.stdout).toContain(reported);
    expect(await plan()).toMatchObject({ invalid: { things: expect.stringContaining(reported) } });
    const ask = "reconcile.addon-operator.io/requestedAt";
    await kubectl(["annotate", "addonmodule/things", "-n", namespace, `${ask}=1`]);
    await kubectl(["annotate", "addonoperator/addon-operator", "-n", namespace, `${ask}=1`]);
    await eventually(async () => (await status())?.state === "Invalid", "the module is Invalid");
    const message = (await status())?.conditions?.find(({ type }) => type === "Ready")?.message ?? "";
    expect(message).toContain(reported);
    const [confirmation = ""] = /addon-operator\.io\/confirm-crds=[0-9a-f]+/.exec(message) ?? [];
    await eventually(async () => {
      const events = await json<{ items: { reason: string; type: string; note: string }[] }>([
        "get",
        "events.v1.events.k8s.io",
        "-n",
        namespace,
      ]);
      const event = events.items.find(({ reason }) => reason === "CrdRefused");
      return event?.type === "Warning" && event.note.includes(reported);
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

test(
  "a CRD that the API server refuses stops its own module and those that require it, until it is fixed",
  { timeout: 240_000 },
  async () => {
    const namespace = await freshNamespace("crd-refused");
    const group = `${namespace}.example.org`;
    const definition = (plural: string, second: object): string => {
      const version = {
        name: "v1",
        served: true,
        schema: { openAPIV3Schema: { type: "object", "x-doc-a": "b" } },
      };
      const versions = [
        { ...version, storage: true },
        { ...version, storage: false, name: "v2", schema: { openAPIV3Schema: second } },
      ];
      const names = { kind: plural, plural: plural.toLowerCase() };
      return JSON.stringify({
        apiVersion: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        metadata: { name: `${names.plural}.${group}` },
        spec: { group, names, scope: "Cluster", versions },
      });
    };
    const lab = hookLab("crd-refused");
    for (const name of ["010-bad", "020-good", "030-user"]) {
      const camel = name.slice(4);
      lab.file(`modules/${name}/values.yaml`, `${camel}Enabled: true\n`);
      lab.file(
        `modules/${name}/templates/map.yaml`,
        `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: crd-${camel}}\n`,
      );
    }
    lab.file("modules/030-user/addon.yaml", 'requires: {modules: {bad: "*"}}\n');
    lab.file("modules/010-bad/crds/sub/a.yaml", definition("Bads", { type: "objekt" }));
    lab.file("modules/010-bad/crds/b.yaml", `# nothing\n---\n${definition("Others", { type: "object" })}`);
    lab.file("modules/010-bad/crds/doc-ru-a.yaml", "spec: {}\n");
    // A chart of helm, which would refuse the unknown field in its crds/.
    lab.file("modules/020-good/Chart.yaml", "apiVersion: v2\nname: good\nversion: 1.0.0\n");
    lab.file("modules/020-good/crds/a.yaml", definition("Goods", { type: "object" }));
    await kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
    await operator.waitReady();

    interface Listed extends AddonModule {
      readonly metadata: { readonly name: string };
    }
    const states = async (): Promise<Record<string, string | undefined>> => {
      const { items } = await json<{ items: Listed[] }>(["get", "addonmodules", "-n", namespace]);
      return Object.fromEntries(items.map(({ metadata, status }) => [metadata.name, status?.state]));
    };
    const reach = async (wanted: Record<string, string>): Promise<void> => {
      const isReached = async (): Promise<boolean> =>
        JSON.stringify(await states()) === JSON.stringify(wanted);
      await eventually(isReached, `the states are ${JSON.stringify(wanted)}`);
    };
    await reach({ bad: "Invalid", good: "Ready", user: "Pending" });
    const owners = "jsonpath={.metadata.managedFields[?(@.operation=='Apply')].manager}";
    expect(await kubectl(["get", "crd", `goods.${group}`, "--show-managed-fields", "-o", owners])).toBe(
      "addon-operator",
    );
    const file = join(lab.dir, "modules/010-bad/crds/sub/a.yaml");
    const why = JSON.stringify(await json(["get", "addonmodule", "bad", "-n", namespace]));
    expect(why).toContain(`${file}: the API server refuses CRD bads.${group}: `);
    expect(why).toContain("versions[1]");
    expect(why).toContain("(correct the definition, then request a converge)");
    expect(await kubectl(["get", "crd", "-o", "name"])).toContain(`/others.${group}\n`);
    const plan = JSON.parse((await operator.cli(["plan", "-o", "json"])).stdout) as JsonObject;
    expect(plan).toMatchObject({ invalid: { bad: expect.stringContaining("versions[1]") as string } });
    expect((await operator.cli(["module", "diff", "bad"])).stdout).toMatch(/refused: .*versions\[1\]/);
    const dropped = operator
      .log()
      .split("\n")
      .filter((line) => line.includes("CRDs have unknown fields"));
    expect(dropped).toHaveLength(2);

    lab.file("modules/010-bad/crds/sub/a.yaml", definition("Bads", { type: "object" }));
    const ask = "reconcile.addon-operator.io/requestedAt=1";
    await kubectl(["annotate", "addonoperator/addon-operator", "-n", namespace, ask]);
    await reach({ bad: "Ready", good: "Ready", user: "Ready" });
    await kubectl(["delete", "crd", ...["bads", "others", "goods"].map((plural) => `${plural}.${group}`)]);
  },
);
