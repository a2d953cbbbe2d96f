// Run with helm 3 as well.
import { mkdir, writeFile } from "node:fs/promises";
import { renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";

import { Releases } from "../../src/helm/index.ts";
import type { ReleasesOptions } from "../../src/helm/index.ts";
import { cluster, deleteNamespace, eventually, freshNamespace } from "../support/cluster.ts";
import { closeClusterLab, openClusterLab, type ClusterLab } from "../support/releases-lab.ts";
import { releasesOptions } from "../support/releases-options.ts";
import { hookLab } from "../support/hook-files.ts";
import { keepLog } from "../support/logged.ts";
import type { LoggedLine } from "../support/logged.ts";
import { startOperator } from "../support/operator.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";

// docs/guides/running.md, "Objects that stay after a removal": an object goes with the release that its marks name, and with no other.

const { kubectl } = cluster();

const map = (name: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ${name}}\n`;

describe.each(HELMS)("objects of releases, with %s", (which) => {
  const once = isUnderTest(which);
  let lab: ClusterLab;
  let releases: Releases;
  let logged: LoggedLine[];

  function open(change: Partial<ReleasesOptions> = {}): Releases {
    const logger = keepLog(logged);
    return new Releases(releasesOptions(lab, cluster().bin[which], { logger, ...change }));
  }

  beforeEach(async () => {
    logged = [];
    lab = await openClusterLab("owners");
    releases = open();
    await releases.observed.waitUntilReady();
  });

  afterEach(async () => {
    releases.close();
    await closeClusterLab(lab);
  });

  async function chart(name: string, ...objects: readonly string[]): Promise<void> {
    const files = {
      "Chart.yaml": `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`,
      "templates/all.yaml": objects.join("---\n"),
    };
    for (const [file, text] of Object.entries(files)) {
      const path = join(lab.root, name, file);
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, text);
    }
  }

  const moduleOf = (name: string) =>
    ({ name, valuesKey: name, chartDir: join(lab.root, name), chart: "own" }) as const;

  /** `terms`: what a person allows. */
  async function bring(
    name: string,
    values: object = {},
    terms: { readonly takeOwnership?: boolean; readonly confirmedTakeover?: string } = {},
  ): Promise<void> {
    const { takeOwnership = false, confirmedTakeover } = terms;
    const module = { ...moduleOf(name), helm: { takeOwnership } };
    const signal = AbortSignal.timeout(50_000);
    await releases.reconcile({ module, values: JSON.stringify(values), confirmedTakeover, signal });
    await releases.flushLabels();
  }

  /** The token by which a person allows what the release is refused. */
  async function tokenOf(name: string): Promise<string> {
    const { message } = await bring(name).then(
      () => expect.unreachable("nothing was refused"),
      (error: Error) => error,
    );
    return /confirm-takeover=(\w+)/.exec(message)?.[1] ?? message;
  }

  async function remove(name: string): Promise<void> {
    await releases.uninstall({ name }, AbortSignal.timeout(50_000));
    await releases.forgetRelease(name);
  }

  const warnings = () =>
    logged.filter(([level]) => level === "warn").map(([, message, fields]) => ({ message, fields }));

  const uid = (object: string): Promise<string> =>
    kubectl(["get", object, "-n", lab.namespace, "-o", "jsonpath={.metadata.uid}", "--ignore-not-found"]);

  test.runIf(once)(
    "what another release took over stays when a release goes, also cluster-wide",
    async () => {
      const role = `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ${lab.namespace}}\n`;
      const list = `apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: listed}}]\n`;
      await chart("a", map("own"), map("shared"), role, list);
      await chart("b", map("shared"), role, list);
      const shared = ["cm/shared", `clusterrole/${lab.namespace}`, "secret/listed"];
      await bring("a");
      const before = await Promise.all(shared.map(uid));
      await bring("b");
      await remove("a");
      expect(await uid("cm/own")).toBe("");
      expect(await Promise.all(shared.map(uid))).toEqual(before);
      await remove("b");
      expect(await Promise.all(shared.map(uid))).toEqual(["", "", ""]);
    },
  );

  const space = (name: string): string => `apiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}}\n`;

  test("an object that somebody made stays as it is until a person allows the release to have it, and outlives it", async () => {
    const data = (text: string): string => `${map("hand")}data: {key: ${text}}\n`;
    const read = (path: string): Promise<string> =>
      kubectl(["get", "cm/hand", "-n", lab.namespace, "-o", `jsonpath={${path}}`]);
    await kubectl(["apply", "-n", lab.namespace, "-f", "-"], data("theirs"));
    await chart("a", map("own"), data("ours"));
    const token = await tokenOf("a");
    expect(await read(".data.key")).toBe("theirs");
    expect(await uid("cm/own")).toBe("");
    const before = await uid("cm/hand");
    await bring("a", {}, { confirmedTakeover: token });
    expect(await read(".data.key")).toBe("ours");
    expect(await uid("cm/hand")).toBe(before);
    // Neither an upgrade that drops it nor the removal deletes it.
    await chart("a", map("own"));
    await bring("a");
    expect(await uid("cm/hand")).toBe(before);
    await chart("a", map("own"), data("again"));
    await bring("a");
    await remove("a");
    expect(await uid("cm/hand")).toBe(before);
    expect(await uid("cm/own")).toBe("");
  });

  test("an upgrade neither takes over what somebody made meanwhile", async () => {
    await chart("a", map("own"));
    await bring("a");
    await kubectl(["create", "configmap", "later", "-n", lab.namespace]);
    await chart("a", map("own"), map("later"));
    await expect(bring("a")).rejects.toThrow("ConfigMap/later of no release");
    expect(releases.observed.get("a")).toMatchObject({ revision: 1, status: "deployed" });
    await bring("a", {}, { takeOwnership: true });
    expect(releases.observed.get("a")).toMatchObject({ revision: 2, status: "deployed" });
  });

  test.runIf(once)(
    "a definition of the operator itself is refused, whatever a person allows, also from values",
    async () => {
      const own = "modulesources.addon-operator.io";
      const definition = `apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ${own}}\n`;
      await chart("a", map("own"), definition);
      const message = `CustomResourceDefinition ${own}: is a definition of the operator itself`;
      await expect(bring("a", {}, { takeOwnership: true })).rejects.toThrow(message);
      await chart("a", map("own"), "{{ with .Values.a.extra }}{{ . }}{{ end }}\n");
      await expect(bring("a", { a: { extra: definition } }, { takeOwnership: true })).rejects.toThrow(
        message,
      );
      expect(await uid("cm/own")).toBe("");
      await bring("a", { a: {} });
      await expect(bring("a", { a: { extra: definition } }, { takeOwnership: true })).rejects.toThrow(
        message,
      );
      await bring("a", { a: {} });
    },
  );

  test.runIf(once)(
    "namespaces and CRDs that were there before outlive the release, others go with it",
    async () => {
      const [mine, theirs] = [`${lab.namespace}-mine`, `${lab.namespace}-theirs`];
      const definition = crd(`${lab.namespace}.example.com`);
      onTestFinished(async () => {
        for (const name of [mine, theirs]) await deleteNamespace(name);
        await kubectl(["delete", "crd", `things.${lab.namespace}.example.com`, "--ignore-not-found"]);
      });
      await kubectl(["create", "namespace", theirs]);
      await kubectl(["apply", "-f", "-"], definition);
      await chart("a", map("own"), space(mine), space(theirs), definition);
      await bring("a", {}, { takeOwnership: true });
      await bring("a");
      const policy = String.raw`jsonpath={.metadata.annotations.helm\.sh/resource-policy}`;
      expect(await kubectl(["get", "ns", theirs, "-o", policy])).toBe("keep");
      expect(await kubectl(["get", "ns", mine, "-o", policy])).toBe("");
      const objects = [
        `Namespace/${theirs} of no release`,
        `CustomResourceDefinition/things.${lab.namespace}.example.com of no release`,
      ];
      const message = "Existing objects are adopted, and retained when the module is removed";
      expect(warnings()).toEqual([{ message, fields: { module: "a", objects } }]);
      await remove("a");
      expect(await uid("cm/own")).toBe("");
      const phase = (name: string): Promise<string> =>
        kubectl([
          "get",
          "ns",
          name,
          "--ignore-not-found",
          "-o",
          "jsonpath={.metadata.deletionTimestamp}/{.status.phase}",
        ]);
      expect(await phase(mine)).not.toMatch(/^\/Active/);
      expect(await phase(theirs)).toBe("/Active");
      expect(await uid(`crd/things.${lab.namespace}.example.com`)).not.toBe("");
    },
  );

  test.runIf(once)("a CRD from crds/ of another module is refused, and the module named", async () => {
    const missing = new Set<string>();
    releases.close();
    releases = open({ hasModule: (module) => !missing.has(module) });
    await releases.observed.waitUntilReady();
    const name = `things.${lab.namespace}.example.com`;
    const definition = crd(`${lab.namespace}.example.com`);
    onTestFinished(async () => {
      await kubectl(["delete", "crd", name, "--ignore-not-found"]);
    });
    const file = join(lab.root, "crd.yaml");
    await writeFile(file, definition);
    await releases.ensureCrds({ release: "other", files: [file] });
    await chart("a", map("own"), definition);
    await expect(bring("a")).rejects.toThrow(`CustomResourceDefinition/${name} of crds/ of module other;`);
    await releases.ensureCrds({ release: "other", files: [] });
    await expect(bring("a")).rejects.toThrow(`CustomResourceDefinition/${name} of no release;`);
    await releases.ensureCrds({ release: "other", files: [file] });
    missing.add("other");
    await expect(bring("a")).rejects.toThrow(`CustomResourceDefinition/${name} of no release;`);
  });

  test.runIf(once)("a namespace that comes into a chart later, from values, is kept too", async () => {
    const theirs = `${lab.namespace}-later`;
    onTestFinished(() => deleteNamespace(theirs));
    await kubectl(["create", "namespace", theirs]);
    const extra = "{{- range .Values.a.extra }}\n---\n{{ toYaml . }}\n{{- end }}\n";
    await chart("a", map("own"), extra);
    await bring("a", { a: { extra: [] } });
    const metadata = { name: theirs };
    const withSpace = [{ apiVersion: "v1", kind: "Namespace", metadata }];
    await bring("a", { a: { extra: withSpace } }, { takeOwnership: true });
    expect(await kubectl(["get", "ns", theirs, "-o", "jsonpath={.metadata.annotations}"])).toContain(
      `"meta.helm.sh/release-name":"a"`,
    );
    await bring("a", { a: { extra: [] } });
    await remove("a");
    const left = ["get", "ns", theirs, "-o", "jsonpath={.metadata.deletionTimestamp}/{.status.phase}"];
    expect(await kubectl(left)).toBe("/Active");
  });

  test.runIf(once)("a namespace goes over from one module to another with its release", async () => {
    const name = `${lab.namespace}-moved`;
    onTestFinished(() => deleteNamespace(name));
    await chart("a", space(name));
    await chart("b", space(name));
    await bring("a");
    await bring("b");
    await remove("a");
    const left = ["get", "ns", name, "-o", "jsonpath={.metadata.deletionTimestamp}/{.status.phase}"];
    expect(await kubectl(left)).toBe("/Active");
    await remove("b");
    const ending = ["get", "ns", name, "--ignore-not-found", "-o", "jsonpath={.status.phase}"];
    expect(await kubectl(ending)).not.toBe("Active");
  });

  test.runIf(once)(
    "an upgrade that leaves an object out does not delete what another release took over",
    async () => {
      await chart("a", map("own"), map("dropped"), map("shared"));
      await chart("b", map("shared"));
      await bring("a");
      const before = await uid("cm/shared");
      await bring("b");
      await chart("a", map("own"));
      await bring("a");
      expect(await uid("cm/dropped")).toBe("");
      expect(await uid("cm/shared")).toBe(before);
    },
  );

  test.runIf(once)(
    "neither an upgrade nor a removal deletes what the chart of a module that runs later has now",
    async () => {
      const spelled = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved, namespace: ${lab.namespace}}\n`;
      await chart("a", map("own"), map("dropped"), map("moved"));
      await bring("a");
      const before = await uid("cm/moved");
      await chart("a", map("own"));
      await chart("b", spelled);
      await chart("broken", "{{ fail }}");
      const upcoming = (name: string) => ({
        name,
        readInput: () => ({ module: moduleOf(name), values: "{}" }),
        hasFinalValues: false,
      });
      releases.announceModules(["a", "broken", "b"].map(upcoming));
      await bring("a");
      expect(await uid("cm/dropped")).toBe("");
      await bring("b");
      expect(await uid("cm/moved")).toBe(before);
      await chart("c", map("moved"));
      releases.announceModules([upcoming("c")]);
      await remove("b");
      await bring("c");
      expect(await uid("cm/moved")).toBe(before);
      releases.announceModules([]);
      await chart("c", map("other"));
      await bring("c");
      expect(await uid("cm/moved")).toBe("");
    },
  );

  describe("objects of helm's hooks", () => {
    const hook = (name: string, events: string, policy = "before-hook-creation"): string => {
      const annotations = `{helm.sh/hook: "${events}", helm.sh/hook-delete-policy: "${policy}"}`;
      return `apiVersion: v1\nkind: Secret\nmetadata: {name: ${name}, annotations: ${annotations}}\nstringData: {by: chart}\n`;
    };
    const always = "pre-install,pre-upgrade";
    const make = (name: string): Promise<string> =>
      kubectl(["create", "secret", "generic", name, "-n", lab.namespace, "--from-literal=by=hand"]);
    const nothingElse = { hasModule: () => false };

    test("a chart with hooks is installed, upgraded, removed and installed again", async () => {
      const passing = hook("passing", always, "before-hook-creation,hook-succeeded");
      const all = [hook("first", "pre-install"), hook("each", always), passing];
      const ids = (): Promise<string[]> => Promise.all(["secret/first", "secret/each"].map(uid));
      const seen: string[][] = [];
      for (const name of ["one", "two", "three"]) {
        await chart("a", map(name), ...all);
        await bring("a");
        seen.push(await ids());
      }
      // Only the hook of upgrades is made again by each.
      expect(new Set(seen.map(([first]) => first)).size).toBe(1);
      expect(new Set(seen.map(([, each]) => each)).size).toBe(3);
      await remove("a");
      await bring("a");
      expect((await ids()).some((id) => seen.flat().includes(id) || id === "")).toBe(false);
      expect(warnings()).toEqual([]);
    });

    test("an object that somebody made under a hook's name stays until a person allows its replacement", async () => {
      await make("hooked");
      const before = await uid("secret/hooked");
      await chart("a", map("own"), hook("hooked", always));
      const refused = `would replace existing objects that this release does not own: Secret/hooked of no release; remove them from chart or cluster`;
      await expect(bring("a")).rejects.toThrow(refused);
      const token = await tokenOf("a");
      expect(await uid("secret/hooked")).toBe(before);
      expect(await uid("cm/own")).toBe("");
      await bring("a", {}, { confirmedTakeover: token });
      expect(await uid("secret/hooked")).not.toBe(before);
      const fields = { module: "a", objects: ["Secret/hooked of no release"] };
      expect(warnings().at(-1)).toEqual({
        message: "Existing objects are replaced by hooks of the chart",
        fields,
      });
    });

    test("so does what somebody made since helm deleted the hook's own, and what another module has", async () => {
      await chart("a", map("own"), hook("passing", always, "hook-succeeded"));
      await bring("a");
      expect(await uid("secret/passing")).toBe("");
      await make("passing");
      await chart("a", map("changed"), hook("passing", always, "hook-succeeded"));
      await expect(bring("a")).rejects.toThrow("Secret/passing of no release");
      await chart("b", map("shared"), hook("left", always));
      await bring("b");
      const shared = hook("shared", always).replace("kind: Secret", "kind: ConfigMap");
      await chart("c", shared, hook("left", always));
      await expect(bring("c")).rejects.toThrow(
        `Secret/left of no release, ConfigMap/shared of ${lab.namespace}/b`,
      );
      const by = ["get", "secret/passing", "-n", lab.namespace, "-o", "jsonpath={.data.by}"];
      expect(await kubectl(by)).toBe(Buffer.from("hand").toString("base64"));
    });

    test("hooks of a removal and of a rollback replace nothing either", async () => {
      await chart("a", map("own"), hook("ends", "post-delete"), hook("back", "pre-rollback"));
      await bring("a");
      await chart("a", map("more"), hook("ends", "post-delete"));
      await bring("a");
      await make("ends");
      await make("back");
      const before = await Promise.all(["secret/ends", "secret/back"].map(uid));
      const request = { module: moduleOf("a"), values: "{}", signal: AbortSignal.timeout(50_000) };
      await expect(releases.rollBack(request, 1)).rejects.toThrow("Secret/back of no release");
      await expect(remove("a")).rejects.toThrow("Secret/ends of no release");
      expect(await uid("cm/more")).not.toBe("");
      expect(await Promise.all(["secret/ends", "secret/back"].map(uid))).toEqual(before);
      await kubectl(["delete", "secret", "ends", "-n", lab.namespace]);
      await remove("a");
      expect(await uid("cm/more")).toBe("");
    });

    test("a renamed module replaces what the hooks of its old release left", async () => {
      await chart("a", map("own"), hook("left", always));
      await chart("b", map("own"), hook("left", always));
      await bring("a");
      const before = await uid("secret/left");
      releases.close();
      releases = open(nothingElse);
      await releases.observed.waitUntilReady();
      await bring("b");
      expect(await uid("secret/left")).not.toBe(before);
    });
  });

  test.runIf(once)("no other module gets objects of a release that is protected", async () => {
    await chart("a", map("own"), map("shared"));
    await bring("a");
    const before = await uid("cm/shared");
    releases.close();
    releases = open({ hasModule: () => false, keepsObjects: (release) => release === "a" });
    await releases.observed.waitUntilReady();
    await chart("b", map("shared"));
    await expect(bring("b")).rejects.toThrow(`ConfigMap/shared of ${lab.namespace}/a`);
    const events = "annotations: {helm.sh/hook: pre-install}";
    await chart("c", map("shared").replace("name: shared", `name: shared, ${events}`));
    await expect(bring("c")).rejects.toThrow(`ConfigMap/shared of ${lab.namespace}/a`);
    expect(await uid("cm/shared")).toBe(before);
  });

  test.runIf(once)("what is annotated to be kept stays", async () => {
    await chart("a", map("own"), map("kept"));
    await bring("a");
    await kubectl(["annotate", "cm/kept", "-n", lab.namespace, "helm.sh/resource-policy=keep"]);
    await remove("a");
    expect(await uid("cm/own")).toBe("");
    expect(await uid("cm/kept")).not.toBe("");
  });

  test.runIf(once)(
    "what is taken over from nobody or another release is reported, and what is its own is not",
    async () => {
      const role = `apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: ${lab.namespace}}\n`;
      const reported: string[][] = [];
      releases.close();
      const tookOver = (release: string, objects: readonly string[]) =>
        void reported.push([release, ...objects]);
      releases = open({
        report: {
          tookOver,
          forgotKinds: () => {},
          ran: () => {},
          adopted: () => {},
          reconciled: () => {},
          leftoversChanged: () => {},
          ownWatchChanged: () => {},
        },
      });
      await releases.observed.waitUntilReady();
      await kubectl(["create", "configmap", "nobodys", "-n", lab.namespace]);
      await chart("a", role, map("shared"), map("nobodys"));
      await bring("a", {}, { takeOwnership: true });
      await chart("a", role, map("shared"), map("nobodys"), map("more"));
      await bring("a");
      expect(reported.splice(0)).toEqual([["a", "ConfigMap/nobodys of no release"]]);
      logged.length = 0;
      await chart("b", role, map("shared"), map("other"));
      await bring("b");
      const from = `of ${lab.namespace}/a`;
      expect(reported).toEqual([["b", `ConfigMap/shared ${from}`, `ClusterRole/${lab.namespace} ${from}`]]);
      const fields = { module: "b", objects: reported[0]?.slice(1) };
      expect(warnings()).toEqual([{ message: "Objects of other releases are adopted", fields }]);
      const owner = String.raw`jsonpath={.metadata.annotations.meta\.helm\.sh/release-name}`;
      expect(await kubectl(["get", "clusterrole", lab.namespace, "-o", owner])).toBe("b");
    },
  );

  test("an object that has lost the marks of Helm goes with its release", async () => {
    await chart("a", map("own"), map("bare"));
    await bring("a");
    const marks = ["meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-"];
    await kubectl(["annotate", "cm/bare", "-n", lab.namespace, ...marks]);
    await kubectl(["label", "cm/bare", "-n", lab.namespace, "app.kubernetes.io/managed-by-"]);
    await remove("a");
    expect(await Promise.all(["cm/own", "cm/bare"].map(uid))).toEqual(["", ""]);
  });

  test.runIf(which === "helm")("an object that helm could not read goes with the next run", async () => {
    await chart("a", map("own"));
    await bring("a");
    const role = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: blind}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: ["*"]}
  - {apiGroups: [""], resources: [configmaps], verbs: [delete]}
`;
    await kubectl(["apply", "-n", lab.namespace, "-f", "-"], role);
    await kubectl(["create", "rolebinding", "blind", "--role=blind", "--user=blind", "-n", lab.namespace]);
    const [bin, tried] = ["helm", "tried"].map((name) => join(lab.root, name)) as [string, string];
    const isFirst = `[ "$1" = uninstall ] && [ ! -e ${tried} ]`;
    const script = `#!/bin/sh\n${isFirst} && touch ${tried} && set -- "$@" --kube-as-user blind\n`;
    await writeFile(bin, `${script}exec ${cluster().bin[which]} "$@"\n`, { mode: 0o755 });
    releases.close();
    releases = open({ bin });
    await releases.observed.waitUntilReady();
    await expect(remove("a")).rejects.toThrow("helm could not read them: [ConfigMap] own");
    expect(await uid("cm/own")).not.toBe("");
    await remove("a");
    expect(await uid("cm/own")).toBe("");
  });

  test.runIf(once)("nothing goes while it cannot be known whose it is", async () => {
    await chart("a", map("own"));
    await bring("a");
    releases.close();
    const resolve = () => Promise.reject(new Error("no answer"));
    releases = open({ discovery: { resolve, invalidate: () => {}, readVersions: resolve } });
    await releases.observed.waitUntilReady();
    await expect(remove("a")).rejects.toThrow(
      "cannot determine whether the API server serves ConfigMap of v1: no answer",
    );
    expect(await uid("cm/own")).not.toBe("");
  });

  test.runIf(once)(
    "a release whose removal was begun takes its objects back when its module runs again",
    async () => {
      await chart("a", map("own"), map("shared"));
      await chart("b", map("shared"));
      await bring("a");
      await bring("b");
      releases.close();
      releases = open({ bin: "/nowhere/helm" });
      await releases.observed.waitUntilReady();
      await expect(remove("a")).rejects.toThrow("/nowhere/helm");
      releases.close();
      releases = open();
      await releases.observed.waitUntilReady();
      await bring("a");
      const owner = String.raw`jsonpath={.metadata.annotations.meta\.helm\.sh/release-name}`;
      expect(await kubectl(["get", "cm/shared", "-n", lab.namespace, "-o", owner])).toBe("a");
    },
  );
});

function crd(group: string): string {
  return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.${group}}
spec:
  group: ${group}
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  scope: Namespaced
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`;
}

test("a module whose directory is renamed keeps its objects", { timeout: 240_000 }, async () => {
  const namespace = await freshNamespace("renamed");
  const lab = hookLab("renamed");
  lab.file("modules/010-a/Chart.yaml", "apiVersion: v2\nname: x\nversion: 1.0.0\n");
  const hook = '{name: hooked, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}';
  const templates = `${map("data")}---\napiVersion: v1\nkind: ConfigMap\nmetadata: ${hook}\n`;
  lab.file("modules/010-a/templates/map.yaml", templates);
  const get = (path: string): Promise<string> =>
    kubectl(["get", "cm/data", "-n", namespace, "-o", `jsonpath={.metadata${path}}`]);
  await kubectl(
    ["apply", "-n", namespace, "-f", "-"],
    JSON.stringify({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator" },
      data: { aEnabled: "true", bEnabled: "true" },
    }),
  );
  const operator = await startOperator({ namespace, modulesDir: lab.modulesDir });
  await operator.waitReady();
  const uid = await get(".uid");
  renameSync(join(lab.modulesDir, "010-a"), join(lab.modulesDir, "010-b"));
  await kubectl([
    "patch",
    "cm",
    "addon-operator",
    "-n",
    namespace,
    "-p",
    `{"data":{"global":"{reload: 1}"}}`,
  ]);
  await eventually(() => operator.log().includes("Release purged"), "the purge", {
    context: () => operator.log(),
  });
  expect(await get(".uid")).toBe(uid);
  expect(await get(String.raw`.annotations.meta\.helm\.sh/release-name`)).toBe("b");
  const failures = operator.lines.filter((line) => line.includes("Module run failed"));
  // The hook of the new name waits for the second check of the old directory.
  expect(failures.every((line) => line.includes("ConfigMap/hooked of no release"))).toBe(true);
});
