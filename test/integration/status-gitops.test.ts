import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";

import { CONFIG_MAPS, connect, mergePatch } from "../../src/kube/index.ts";
import { silentLogger } from "../../src/base/index.ts";
import { cluster, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";

// docs/guides/gitops.md, "Who owns the ConfigMap?": each recipe with the field managers that the tools really use.

beforeAll(installCrds);

interface Live {
  readonly data?: Readonly<Record<string, string>>;
  readonly metadata: {
    readonly managedFields?: readonly {
      readonly manager: string;
      readonly fieldsV1?: { "f:data"?: object };
    }[];
  };
}

interface World {
  readonly namespace: string;
  /** Applies a ConfigMap as a GitOps tool does. */
  readonly git: (manager: string, data: object, ...flags: readonly string[]) => Promise<string>;
  /** Writes one key as the operator does for a hook. */
  readonly hook: (data: object, name?: string) => Promise<void>;
  readonly live: (name?: string) => Promise<Live>;
  /** Data keys that a manager owns. */
  readonly owned: (manager: string) => Promise<string[]>;
}

async function world(): Promise<World> {
  const namespace = await freshNamespace("gitops");
  const client = connect({ kubeConfig: cluster().kubeconfig, userAgent: "test", logger: silentLogger });
  onTestFinished(() => client.close());
  const live = (name = "addon-operator") =>
    cluster().json<Live>(["get", "configmap", name, "-n", namespace, "--show-managed-fields"]);
  return {
    namespace,
    live,
    git: (manager, data, ...flags) => {
      const object = {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name: "addon-operator", namespace },
        data,
      };
      const args = ["apply", "--server-side", `--field-manager=${manager}`, ...flags, "-f", "-"];
      return cluster().kubectl(args, JSON.stringify(object));
    },
    hook: async (data, name = "addon-operator") => {
      await mergePatch(client, { resource: CONFIG_MAPS, namespace, name }, { body: { data } });
    },
    owned: async (manager) => {
      const { metadata } = await live();
      const fields = (metadata.managedFields ?? []).filter((entry) => entry.manager === manager);
      const keys = fields.flatMap((entry) => Object.keys(entry.fieldsV1?.["f:data"] ?? {}));
      return keys
        .filter((key) => key !== ".")
        .map((key) => key.slice(2))
        .toSorted();
    },
  };
}

const fromGit = { fooEnabled: "true", foo: "replicas: 1\n" };
const fromHook = { foo: "replicas: 1\ncert: x\n" };

describe("who owns the ConfigMap", () => {
  test("the trap: without force, the next apply of a key that a hook wrote is a conflict", async () => {
    const { git, hook } = await world();
    await git("helm", fromGit);
    await hook(fromHook);
    await expect(git("helm", fromGit)).rejects.toThrow(/conflict with "addon-operator"/);
  });

  test("the other trap: with force, the hook's value is lost at each sync", async () => {
    const { git, hook, live } = await world();
    await git("argocd-controller", fromGit, "--force-conflicts");
    await hook(fromHook);
    await git("argocd-controller", fromGit, "--force-conflicts");
    expect((await live()).data).toEqual(fromGit);
  });

  test("helm 3 overwrites a hook's value without a word, helm 4 fails", async () => {
    const { hook, live, namespace } = await world();
    const dir = mkdtempSync(join(tmpdir(), "gitops-"));
    onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
    mkdirSync(join(dir, "templates"));
    writeFileSync(join(dir, "Chart.yaml"), "apiVersion: v2\nname: own\nversion: 1.0.0\n");
    const data = "data: {fooEnabled: {{ .Values.on | quote }}, foo: 'replicas: 1'}";
    const map = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: addon-operator}\n${data}\n`;
    writeFileSync(join(dir, "templates", "map.yaml"), map);
    const helm = (which: "helm" | "helm3", on: boolean) =>
      promisify(execFile)(cluster().bin[which], [
        "upgrade",
        "--install",
        "own",
        dir,
        "-n",
        namespace,
        "--set",
        `on=${on}`,
        "--kubeconfig",
        cluster().kubeconfig,
      ]);
    await helm("helm3", true);
    await hook(fromHook);
    await helm("helm3", false);
    expect((await live()).data).toEqual({ fooEnabled: "false", foo: "replicas: 1" });

    await cluster().kubectl(["delete", "configmap,secret", "--all", "-n", namespace]);
    await helm("helm", true);
    await hook(fromHook);
    await expect(helm("helm", false)).rejects.toThrow(/conflict with "addon-operator"/);
    expect((await live()).data?.["foo"]).toBe(fromHook.foo);
  });

  test("in an object that was created with nothing in it nobody owns keys; the operator's label mends that", async () => {
    const { git, hook, live, namespace, owned } = await world();
    await cluster().kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    await hook(fromHook);
    expect(await owned("addon-operator")).toEqual([]);
    await expect(git("helm", fromGit)).rejects.toThrow(/conflict with "before-first-apply"/);
    await cluster().kubectl(["delete", "configmap", "addon-operator", "-n", namespace]);
    const labels = { "app.kubernetes.io/created-by": "addon-operator" };
    const metadata = { name: "addon-operator", namespace, labels };
    await cluster().kubectl(
      ["create", "-f", "-"],
      JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata }),
    );
    await hook(fromHook);
    expect(await owned("addon-operator")).toEqual(["foo"]);
    expect((await live()).data).toEqual(fromHook);
  });

  test("A: Git holds no ConfigMap, everything is the operator's", async () => {
    const { hook, live, namespace } = await world();
    await cluster().kubectl(["create", "configmap", "addon-operator", "-n", namespace]);
    await hook(fromHook);
    expect((await live()).data).toEqual(fromHook);
  });

  test("B: Git owns the ConfigMap, hooks write the overlay", async () => {
    const { git, hook, live, namespace } = await world();
    await git("kustomize-controller", fromGit, "--force-conflicts");
    await cluster().kubectl(["create", "configmap", "addon-operator-state", "-n", namespace]);
    await hook(fromHook, "addon-operator-state");
    await git("kustomize-controller", { ...fromGit, fooEnabled: "false" }, "--force-conflicts");
    expect((await live()).data).toEqual({ ...fromGit, fooEnabled: "false" });
    expect((await live("addon-operator-state")).data).toEqual(fromHook);
  });

  test("C: Argo CD leaves out of diff and sync what the manager addon-operator owns", async () => {
    const { git, hook, live, owned } = await world();
    await git("argocd-controller", fromGit, "--force-conflicts");
    await hook(fromHook);
    expect(await owned("addon-operator")).toEqual(["foo"]);
    expect(await owned("argocd-controller")).toEqual(["fooEnabled"]);
    // What RespectIgnoreDifferences sends: the manifest without the fields of the managers that are left out.
    const left = new Set(await owned("addon-operator"));
    const sent = Object.entries({ ...fromGit, fooEnabled: "false" }).filter(([key]) => !left.has(key));
    await git("argocd-controller", Object.fromEntries(sent), "--force-conflicts");
    expect((await live()).data).toEqual({ ...fromHook, fooEnabled: "false" });
  });

  test("D: Flux declares flags only, and keeps the keys of others", async () => {
    const { git, hook, live } = await world();
    await git("kustomize-controller", { fooEnabled: "true" }, "--force-conflicts");
    await hook(fromHook);
    await git("kustomize-controller", { fooEnabled: "false" }, "--force-conflicts");
    expect((await live()).data).toEqual({ ...fromHook, fooEnabled: "false" });
  });
});

test("a chart may take over the AddonOperator that the operator made", async () => {
  const { namespace } = await world();
  const metadata = { name: "addon-operator", namespace };
  const labels = { "app.kubernetes.io/managed-by": "Helm" };
  const object = { apiVersion: "addon-operator.io/v1alpha1", kind: "AddonOperator", metadata, spec: {} };
  const apply = (manager: string, change: object) =>
    cluster().kubectl(
      ["apply", "--server-side", `--field-manager=${manager}`, "-f", "-"],
      JSON.stringify({ ...object, ...change }),
    );
  await apply("addon-operator", { metadata: { ...metadata, labels } });
  await apply("helm", { metadata: { ...metadata, labels }, spec: { configDigest: "from-the-chart" } });
  const made = await cluster().json<{ metadata: { generation: number }; spec: object }>([
    "get",
    "aop",
    "addon-operator",
    "-n",
    namespace,
  ]);
  expect(made).toMatchObject({ metadata: { generation: 2 }, spec: { configDigest: "from-the-chart" } });
});
