// Run with helm 3 as well.
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

import { RELEASE_VARIABLE } from "../../src/helm/binary/binary.ts";
import { managedByDigest } from "../../src/helm/index.ts";
import type { ReleaseOutcome } from "../../src/helm/index.ts";
import { oneLine } from "../../src/base/index.ts";
import type { HelmOverrides } from "../../src/base/model/index.ts";
import { findOrphanedProcesses } from "../../src/base/process/index.ts";
import { cluster, eventually } from "../support/cluster.ts";
import { crdOfThings } from "../support/crds.ts";
import { HELMS, isUnderTest } from "../support/helms.ts";
import {
  CONFIG_MAP,
  data,
  helmRuns,
  kubectl,
  lab,
  openReleases,
  put,
  putChart,
  reconcile,
  releases,
  requestOf,
  restart,
  runHelm,
  useLab,
} from "../support/releases-lab.ts";

/** The version of the API server, which is another one than helm assumes. */
async function readVersion(): Promise<string> {
  const { serverVersion } = JSON.parse(await cluster().kubectl(["version", "-o", "json"])) as {
    serverVersion: { gitVersion: string };
  };
  return serverVersion.gitVersion;
}

const SLOW_HOOK = `apiVersion: batch/v1
kind: Job
metadata: {name: slow, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}}
`;

describe.each(HELMS)("releases with %s", (which) => {
  const once = isUnderTest(which);
  const bin = cluster().bin[which];
  useLab(bin);

  test("installs, then nothing for equal inputs, also after a restart without a single process", async () => {
    await putChart();
    const first = await reconcile({ global: { used: 1, other: 1 }, m: { a: 1 } });
    expect(first).toMatchObject({ action: "installed", release: { revision: 1, status: "deployed" } });
    expect(first.release?.manifestChecksum).toMatch(/^v1-[0-9a-f]{40}$/);
    await restart();
    const before = helmRuns;
    expect(await reconcile({ global: { used: 1, other: 2 }, m: { a: 1 } })).toMatchObject({
      action: "unchanged",
    });
    expect(helmRuns).toBe(before);
  });

  test("a chart as most are, with a test and links to the documentation of helm, installs with one process", async () => {
    const connection = `---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: m-test\n  annotations:\n    "helm.sh/hook": test\nspec:\n  containers: [{name: a, image: none}]\n`;
    await putChart(CONFIG_MAP.replace(/^data: .*$/m, `data: {a: {{ tpl "1" . | quote }}}`));
    await put("m/templates/tests/connection.yaml", connection);
    await put("m/README.md", "See https://helm.sh/docs/intro/.\n");
    await releases.helm.getVersion();
    const before = helmRuns;
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "installed" });
    expect(helmRuns - before).toBe(1);
  });

  test("CRDs of sub-charts come with the first installation, unless their condition is off, and outlive it", async () => {
    const group = `${lab.namespace}.example.org`;
    const crd = (plural: string): string => `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${plural}.${group}}
spec:
  group: ${group}
  names: {kind: ${plural === "things" ? "Thing" : "Wheel"}, plural: ${plural}}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-doc-default: b}}}]
`;
    // It may hold namespaces, and looks at the server: what it makes is asked of helm before.
    const looking = `{{ if lookup "v1" "Namespace" "" "none" }}\nkind: Namespace\n{{ end }}`;
    // Without the server, it gets the version and the APIs of the server, which differ from those that helm assumes.
    const served = `{{ if not (.Capabilities.APIVersions.Has "apiregistration.k8s.io/v1/APIService") }}{{ fail "lost" }}{{ end }}`;
    await putChart(`apiVersion: ${group}/v1\nkind: Thing\nmetadata: {name: one}\n${looking}${served}`);
    for (const [name, plural] of [
      ["wanted", "things"],
      ["unwanted", "wheels"],
    ] as const) {
      await put(`m/charts/${name}/Chart.yaml`, `apiVersion: v2\nname: ${name}\nversion: 1.0.0\n`);
      await put(`m/charts/${name}/crds/crd.yaml`, crd(plural));
    }
    const dependencies = ["wanted", "unwanted"].map((name) => ({
      name,
      version: "1.0.0",
      condition: `m.${name}`,
    }));
    const chart = {
      apiVersion: "v2",
      name: "m",
      version: "1.0.0",
      kubeVersion: await readVersion(),
      dependencies,
    };
    await put("m/Chart.yaml", JSON.stringify(chart));
    try {
      expect(await reconcile({ m: { wanted: true, unwanted: false } })).toMatchObject({
        action: "installed",
      });
      expect(await kubectl("get", `things.${group}`, "-o", "name")).toContain("one");
      expect(await kubectl("get", "crd", "-o", "name")).not.toContain(`wheels.${group}`);
      await releases.uninstall({ name: "m" }, AbortSignal.timeout(30_000));
      expect(await kubectl("get", "crd", "-o", "name")).toContain(`things.${group}`);
    } finally {
      await kubectl("delete", "crd", `things.${group}`, `wheels.${group}`, "--ignore-not-found");
    }
  });

  test("a chart that requires the version of the server installs, with a hook too, and takes edits", async () => {
    const hook = `---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n`;
    await putChart(`${CONFIG_MAP}${hook}`);
    await put("m/Chart.yaml", `name: m\nversion: 1.0.0\nkubeVersion: "${await readVersion()}"\n`);
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "installed" });
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
  });

  test("null takes a default of the chart away", async () => {
    await putChart(CONFIG_MAP.replace(/^data: .*$/m, "data: {all: {{ toJson .Values.m | quote }}}"));
    await put("m/values.yaml", "m: {a: 1, limits: {cpu: 1, memory: 1Gi}}\n");
    await reconcile({ global: {}, m: { limits: { cpu: null } } });
    const { all } = JSON.parse(await data()) as { all: string };
    expect(JSON.parse(all)).toEqual({ a: 1, limits: { memory: "1Gi" } });
  });

  test("only the first document of the values of a chart and its sub-charts counts", async () => {
    const template = (key: string): string =>
      CONFIG_MAP.replace(/^data: .*$/m, `data: {all: '{{ ${key} | toJson }}'}`);
    await putChart(template(".Values.m"));
    await put("m/values.yaml", "m: {a: 1, b: 1}\n---\nm: {b: 2, c: 2}\n---\nm: {d: 3}\n");
    await put("m/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n");
    const subTemplate = template(".Values.s").replace(".Release.Name", ".Chart.Name");
    await put("m/charts/sub/templates/cm.yaml", subTemplate);
    await put("m/charts/sub/values.yaml", "s: {a: 1}\n---\ns: {b: 2}\n");
    expect(await reconcile({ m: { e: 5 } })).toMatchObject({ action: "installed" });
    const read = async (name: string): Promise<unknown> =>
      JSON.parse(await kubectl("get", "cm", name, "-o", "jsonpath={.data.all}"));
    expect(await read("m")).toEqual({ a: 1, b: 1, e: 5 });
    expect(await read("sub")).toEqual({ a: 1 });
  });

  test("renders changed inputs; an equal manifest only gets new labels, another one an upgrade", async () => {
    await putChart();
    await reconcile({ global: {}, m: { a: 1 } });
    const labelled = await reconcile({ global: {}, m: { a: 1, unused: true } });
    expect(labelled).toMatchObject({ action: "labelled", release: { revision: 1 } });
    expect(await reconcile({ global: {}, m: { a: 1, unused: true } })).toMatchObject({ action: "unchanged" });
    expect(await reconcile({ global: {}, m: { a: 2 } })).toMatchObject({
      action: "upgraded",
      release: { revision: 2 },
    });
    expect(await data()).toContain(`"a":"2"`);
    // Labels of the upgrade are the rendered ones: going back is an upgrade, staying is nothing.
    expect(await reconcile({ global: {}, m: { a: 2 } })).toMatchObject({ action: "unchanged" });
  });

  test.runIf(once)(
    "what was rendered ahead is not rendered again, and counts for its inputs only",
    async () => {
      await putChart();
      await reconcile({ global: {}, m: { a: 1 } });
      await put("first/Chart.yaml", "apiVersion: v2\nname: first\nversion: 1.0.0\n");
      await put("first/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: first}\n");
      const inputOf = (name: string, values: object) => ({
        module: { name, valuesKey: name, chartDir: join(lab.root, name), chart: "own" } as const,
        values: JSON.stringify({ global: {}, ...values }),
      });
      let edits = 0;
      const first = () =>
        releases.reconcile({
          ...inputOf("first", { first: { edits: (edits += 1) } }),
          signal: AbortSignal.timeout(50_000),
        });
      await first();
      /** Has the chart of `m` rendered: it follows a module that has to be rendered. */
      const ahead = async (values: object): Promise<void> => {
        const due = [inputOf("first", {}), inputOf("m", values)];
        releases.announceModules(
          due.map((input) => ({ name: input.module.name, readInput: () => input, hasFinalValues: true })),
        );
        const before = helmRuns;
        expect(await first()).toMatchObject({ action: "labelled" });
        await eventually(() => expect(helmRuns).toBe(before + 2), "two charts are rendered");
      };
      const processes = async (work: () => Promise<unknown>): Promise<number> => {
        const before = helmRuns;
        await work();
        return helmRuns - before;
      };
      const same = { m: { a: 1, unused: 1 } };
      await ahead(same);
      expect(
        await processes(async () => expect(await reconcile(same)).toMatchObject({ action: "labelled" })),
      ).toBe(0);
      const other = { m: { a: 2 } };
      await ahead(other);
      expect(
        await processes(async () => expect(await reconcile(other)).toMatchObject({ action: "upgraded" })),
      ).toBe(1);
      await ahead({ m: { a: 3 } });
      expect(await reconcile({ m: { a: 4 } })).toMatchObject({ action: "upgraded" });
      expect(await data()).toContain(`"a":"4"`);
      await putChart("{{ fail }}");
      await ahead({ m: { a: 5 } });
      await expect(reconcile({ m: { a: 5 } })).rejects.toThrow(/helm template m/);
    },
  );

  test.runIf(once)("a directory with templates only, and a chart without a name, are charts", async () => {
    await put("m/templates/cm.yaml", CONFIG_MAP);
    expect(await reconcile({ m: { a: 1 } }, { chart: "synthetic" })).toMatchObject({ action: "installed" });
    expect(await reconcile({ m: { a: 1 } }, { chart: "synthetic" })).toMatchObject({ action: "unchanged" });
    await put("m/Chart.yaml", "apiVersion: v2\nversion: 1.0.0\n");
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
  });

  // docs/reference/addon-yaml.md. There is nobody here who runs Pods.
  test("a module's own time-out ends what takes longer; a wait for Pods takes as long as they do", async () => {
    const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ .Release.Name }}"}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: none}]}}
`;
    await putChart(DEPLOYMENT);
    const run = (helm: HelmOverrides): Promise<ReleaseOutcome> => {
      const request = requestOf({});
      return releases.reconcile({ ...request, module: { ...request.module, helm } });
    };
    await expect(run({ timeout: "3s", wait: true })).rejects.toThrow(/deadline exceeded|timed out/);
    expect(await run({ wait: false })).toMatchObject({ action: "upgraded" });
    await releases.flushLabels();
    // Not an input.
    expect(await run({ timeout: "3s", wait: true })).toMatchObject({ action: "unchanged" });

    await put(
      "m/templates/hook.yaml",
      SLOW_HOOK.replace("pre-install,pre-upgrade", "pre-delete,pre-upgrade"),
    );
    await expect(run({ timeout: "2s" })).rejects.toThrow(/deadline exceeded|timed out/);
    await put("m/templates/hook.yaml", SLOW_HOOK.replace("pre-install,pre-upgrade", "pre-delete"));
    expect(await run({})).toMatchObject({ action: "upgraded" });
    const removal = releases.uninstall({ name: "m", helm: { timeout: "2s" } }, AbortSignal.timeout(50_000));
    await expect(removal).rejects.toThrow(/deadline exceeded|timed out/);
  });

  describe("absent objects", () => {
    const RANDOM = `apiVersion: v1
kind: Secret
metadata: {name: random, labels: {own: label}}
data: {password: "{{ randAlphaNum 20 | b64enc }}"}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: ConfigMap, metadata: {name: listed, namespace: "{{ .Release.Namespace }}"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}", annotations: {own: annotation}}
rules: []
`;
    interface Made {
      readonly metadata: {
        readonly labels: object;
        readonly annotations: object;
        readonly managedFields: readonly { readonly manager: string; readonly operation: string }[];
      };
      readonly data?: { readonly password: string };
    }
    const read = async (kind: string, name: string): Promise<Made> =>
      JSON.parse(await kubectl("get", kind, name, "-o", "json", "--show-managed-fields")) as Made;
    const all = () => [
      `${lab.namespace}/Secret/random`,
      `${lab.namespace}/ConfigMap/listed`,
      `ClusterRole/${lab.namespace}`,
    ];
    const removeAll = () =>
      kubectl("delete", "secret/random", "configmap/listed", `clusterrole/${lab.namespace}`);

    test.runIf(once)(
      "come back as the record has them: no helm, no new revision, the same passwords",
      async () => {
        await putChart(RANDOM);
        await reconcile({ m: { a: 1 } });
        const made = async () => [
          await read("secret", "random"),
          await read("cm", "listed"),
          await read("clusterrole", lab.namespace),
        ];
        const displayed = ({ metadata, data: content }: Made) => ({
          labels: metadata.labels,
          annotations: metadata.annotations,
          managers: metadata.managedFields.map(({ manager, operation }) => `${manager} ${operation}`),
          content,
        });
        const before = (await made()).map(displayed);
        expect(before[0]?.labels).toMatchObject({ own: "label", "app.kubernetes.io/managed-by": "Helm" });
        await removeAll();
        const runs = helmRuns;
        expect(await reconcile({ m: { a: 1 } }, { missingObjects: all() })).toMatchObject({
          action: "restored",
          release: { revision: 1, status: "deployed" },
        });
        expect(helmRuns).toBe(runs);
        expect((await made()).map(displayed)).toEqual(before);
        expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
        // helm goes on with what was put back.
        await putChart(RANDOM.replace("own: label", "own: other"));
        expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
        expect((await read("secret", "random")).metadata.labels).toMatchObject({ own: "other" });
      },
    );

    test.runIf(once)("only they are touched", async () => {
      await putChart(RANDOM);
      await reconcile({ m: { a: 1 } });
      await kubectl("delete", "cm", "listed");
      await kubectl("label", "secret", "random", "own=by-hand", "--overwrite");
      const absent = [`${lab.namespace}/ConfigMap/listed`];
      expect(await reconcile({ m: { a: 1 } }, { missingObjects: absent })).toMatchObject({
        action: "restored",
      });
      expect((await read("secret", "random")).metadata.labels).toMatchObject({ own: "by-hand" });
      // Back already by somebody else's hand.
      expect(await reconcile({ m: { a: 1 } }, { missingObjects: absent })).toMatchObject({
        action: "restored",
      });
      expect((await read("cm", "listed")).metadata.labels).toBeDefined();
    });

    test("come with an upgrade where the release changes anyway, and without where the manifest stays", async () => {
      await putChart();
      await reconcile({ m: { a: 1 } });
      const absent = [`${lab.namespace}/ConfigMap/m`];
      await kubectl("delete", "cm", "m");
      expect(await reconcile({ m: { a: 2 } }, { missingObjects: absent })).toMatchObject({
        action: "upgraded",
      });
      expect(await data()).toContain(`"a":"2"`);
      await kubectl("delete", "cm", "m");
      expect(await reconcile({ m: { a: 2, unused: 1 } }, { missingObjects: absent })).toMatchObject({
        action: "restored",
        release: { revision: 2 },
      });
      expect(await data()).toContain(`"a":"2"`);
    });

    test("come back as they were recorded, also with lookup and random functions", async () => {
      const keeps = `{{ $old := lookup "v1" "Secret" .Release.Namespace "kept" }}
apiVersion: v1
kind: Secret
metadata: {name: kept}
data: {password: {{ dig "data" "password" (randAlphaNum 8 | b64enc) $old }}}
---
${CONFIG_MAP}`;
      await putChart(keeps);
      await reconcile({ m: { a: 1 } });
      const before = (await read("secret", "kept")).data;
      await kubectl("delete", "cm", "m");
      const absent = [`${lab.namespace}/ConfigMap/m`, `${lab.namespace}/Secret/kept`];
      expect(await reconcile({ m: { a: 1 } }, { missingObjects: absent })).toMatchObject({
        action: "restored",
        release: { revision: 1 },
      });
      expect((await read("secret", "kept")).data).toEqual(before);
      await kubectl("delete", "secret", "kept");
      expect(await reconcile({ m: { a: 1 } }, { missingObjects: absent })).toMatchObject({
        action: "restored",
        release: { revision: 1 },
      });
      expect((await read("secret", "kept")).data).toEqual(before);
    });

    test.runIf(once)("of a kind that is gone are reported", async () => {
      const group = `${lab.namespace}.example.com`;
      const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
      await cluster().apply(crdOfThings(group, [{ name: "v1", served: true, storage: true, schema }]));
      await eventually(async () => void (await kubectl("get", `things.${group}`)), "the kind is served");
      await putChart(`apiVersion: ${group}/v1\nkind: Thing\nmetadata: {name: t}\nspec: {a: 1}\n`);
      await reconcile({ m: { a: 1 } });
      await kubectl("delete", "crd", `things.${group}`);
      await eventually(async () => {
        lab.discovery.invalidate();
        expect(await lab.discovery.resolve("Thing", `${group}/v1`)).toBeUndefined();
      }, "the kind is gone");
      const absent = [`${lab.namespace}/Thing/t`];
      await expect(reconcile({ m: { a: 1 } }, { missingObjects: absent })).rejects.toThrow(
        `cannot bring back ${lab.namespace}/Thing/t: the server knows no Thing of ${group}/v1`,
      );
    });
  });

  test.runIf(once)("reports when each revision was deployed, also after a restart", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    await releases.observed.readLastingRefs("m");
    const first = releases.observed.get("m");
    await reconcile({ m: { a: 2 } });
    await releases.observed.readLastingRefs("m");
    const second = releases.observed.get("m");
    expect(second?.lastDeployed).toBeGreaterThan(first?.lastDeployed ?? Infinity);
    await restart();
    await releases.observed.readLastingRefs("m");
    expect(releases.observed.get("m")).toEqual(second);
    expect(second?.chartVersion).toBe("1.0.0");
  });

  test("takes over no object that exists already", async () => {
    await putChart();
    await kubectl("create", "cm", "m", "--from-literal=a=mine");
    await expect(reconcile({ m: { a: 1 } })).rejects.toThrow("ConfigMap/m of no release");
    expect(await data()).toContain(`"a":"mine"`);
    expect(releases.observed.get("m")).toBeUndefined();
  });

  test("a failed first release is upgraded in place", async () => {
    await putChart("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: BAD}\n");
    await expect(reconcile({ m: { a: 1 } })).rejects.toThrow(/helm upgrade m/);
    expect(releases.observed.get("m")?.status).toBe("failed");
    await putChart();
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({
      action: "upgraded",
      release: { status: "deployed" },
    });
  });

  /** A helm whose first upgrade ends with these words, after a command. */
  async function refuseOnce(words: string, command = ":"): Promise<void> {
    const once = join(lab.root, "refused");
    const first = `touch ${once}; ${command} >&2; echo '${words}' >&2; exit 1`;
    const text = `#!/bin/sh\nif [ "$1" = upgrade ] && [ ! -e ${once} ]; then ${first}; fi\nexec ${bin} "$@"\n`;
    await put("bin/helm", text);
    await chmod(join(lab.root, "bin/helm"), 0o755);
    await restart({ bin: join(lab.root, "bin/helm") });
  }

  test("where helm refuses a failed record, the record goes and the objects stay", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const uid = await kubectl("get", "cm", "m", "-o", "jsonpath={.metadata.uid}");
    // helm's own words, once: which of its versions says so in which state differs.
    await refuseOnce(`Error: UPGRADE FAILED: "m" has no deployed releases`);
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ release: { revision: 1, status: "deployed" } });
    expect(await kubectl("get", "cm", "m", "-o", "jsonpath={.metadata.uid}")).toBe(uid);
    expect(await data()).toContain(`"a":"2"`);
  });

  test("a Secret that is no readable record is named with what to do, by upgrade and removal", async () => {
    const secret = "sh.helm.release.v1.m.v1";
    await putChart();
    await reconcile({ m: { a: 1 } });
    const whole = await kubectl("get", "secret", secret, "-o", "jsonpath={.data.release}");
    const damage = (release: string): string[] => [
      "--type=merge",
      "-p",
      JSON.stringify({ data: { release } }),
    ];
    await releases.observed.readLastingRefs("m");
    await kubectl("patch", "secret", secret, ...damage(whole.slice(0, 400)));
    const record = `the release record in Secret ${lab.namespace}/${secret} cannot be read: `;
    const command = `kubectl delete secret ${secret} --namespace ${lab.namespace}`;
    const reported = new RegExp(`^${record}.* cannot be unpacked.*; restore the Secret .*: ${command}$`);
    await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(reported);
    await restart();
    await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(reported);
    await expect(releases.uninstall({ name: "m" }, new AbortController().signal)).rejects.toThrow(reported);
    await kubectl("patch", "secret", secret, ...damage(whole));
    await kubectl("label", "secret", secret, "owner-");
    await eventually(() => releases.observed.get("m") === undefined, "the release is out of sight");
    await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(`${record}helm does not find it`);
    await kubectl("delete", "secret", secret);
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ release: { status: "deployed" } });
    expect(await data()).toContain(`"a":"2"`);
  });

  test("a record that turns out to be pending only when helm looks is recovered", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const words = "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress";
    const secret = `sh.helm.release.v1.m.v1 status=pending-upgrade --overwrite -n ${lab.namespace}`;
    await refuseOnce(
      words,
      `${cluster().bin.kubectl} --kubeconfig ${cluster().kubeconfig} label secret ${secret}`,
    );
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ release: { revision: 2, status: "deployed" } });
    expect(await data()).toContain(`"a":"2"`);
  });

  /** Begins an install that waits for a Job which never ends; resolves when helm waits. */
  async function startSlow(): Promise<{ controller: AbortController; failure: Promise<string> }> {
    await putChart(`${CONFIG_MAP}---\n${SLOW_HOOK}`);
    const controller = new AbortController();
    const module = { name: "m", valuesKey: "m", chartDir: join(lab.root, "m"), chart: "own" } as const;
    const values = JSON.stringify({ global: {}, m: { a: 1 } });
    const run = releases.reconcile({ module, values, signal: controller.signal });
    const failure = run.then(() => "no failure", oneLine);
    await eventually(() => releases.observed.get("m")?.status === "pending-install", "helm waits");
    return { controller, failure };
  }

  test("a release left pending by a kill is marked failed and upgraded", async () => {
    const { failure } = await startSlow();
    await kill(lab.namespace, "SIGKILL");
    expect(await failure).toMatch(/helm upgrade m: ended by SIGKILL/);
    expect(releases.observed.get("m")?.status).toBe("pending-install");
    await putChart();
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({
      action: "upgraded",
      wasRecovered: true,
      release: { status: "deployed", revision: 2 },
    });
  });

  test("an abort lets helm mark its release failed", async () => {
    const { controller, failure } = await startSlow();
    controller.abort();
    expect(await failure).toMatch(/cancelled/);
    expect(releases.observed.get("m")?.status).toBe("failed");
  });

  test("a helm that outlived its operator is ended before its release is touched", async () => {
    const { failure } = await startSlow();
    const orphaned = releases;
    await openReleases();
    await putChart();
    const outcome = await reconcile({ m: { a: 1 } });
    expect(outcome).toMatchObject({ wasRecovered: true, release: { status: "deployed" } });
    expect(await failure).toMatch(/helm upgrade m/);
    orphaned.close();
  });

  test.runIf(once)(
    "what is shown is what a run would render: an installation first, then an upgrade",
    async () => {
      await putChart(CONFIG_MAP.replace("\ndata: {", '\ndata: {first: "{{ .Release.IsInstall }}", '));
      expect(await releases.renderManifests(requestOf({ m: { a: 1 } }), false)).toContain('first: "true"');
      await reconcile({ m: { a: 1 } });
      expect(await data()).toContain('"first":"true"');
      expect(await releases.renderManifests(requestOf({ m: { a: 2 } }), false)).toContain('first: "false"');
    },
  );

  test.runIf(once)("a release of another operator is refused", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    await restart({ managedBy: managedByDigest(lab.namespace, "other") });
    await expect(reconcile({ m: { a: 2 } })).rejects.toThrow(/belongs to another addon-operator/);
    await expect(releases.uninstall({ name: "m" }, AbortSignal.timeout(50_000))).rejects.toThrow(
      /belongs to/,
    );
  });

  test("lookup is rendered each time, against the server", async () => {
    const template = CONFIG_MAP.replace(
      "{{ .Values.m.a }}",
      `{{ len (lookup "v1" "ConfigMap" .Release.Namespace "x") }}`,
    );
    await putChart(template);
    await reconcile({ m: { a: 1 } });
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
    await kubectl("create", "cm", "x");
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
    await kubectl("delete", "cm", "x", "m");
    const missingObjects = [`${lab.namespace}/ConfigMap/m`];
    expect(await reconcile({ m: { a: 1 } }, { missingObjects })).toMatchObject({ action: "upgraded" });
  });

  test("a chart with lookup and random functions is upgraded only if an input changes", async () => {
    const found = `lookup "v1" "ConfigMap" .Release.Namespace "x"`;
    await putChart(
      CONFIG_MAP.replace("{{ .Values.m.a }}", `{{ .Values.m.a }}{{ len (${found}) }}{{ uuidv4 }}`),
    );
    await reconcile({ m: { a: 1 } });
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
  });

  test("random functions are skipped on equal inputs, also after a restart, so that passwords stay", async () => {
    await putChart(CONFIG_MAP.replace("\ndata: {", `\ndata: {password: "{{ randAlphaNum 20 }}", `));
    await reconcile({ m: { a: 1 } });
    const before = await data();
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "unchanged" });
    await restart();
    expect(await reconcile({ global: { other: 1 }, m: { a: 1 } })).toMatchObject({ action: "unchanged" });
    expect(await data()).toBe(before);
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
  });

  test.runIf(once)("globals used dynamically all count as inputs; named ones alone do not", async () => {
    await putChart(
      CONFIG_MAP.replace("{{ .Values.global.used }}", "{{ index .Values.global .Values.m.key }}"),
    );
    await reconcile({ global: { x: 1, y: 1 }, m: { a: 1, key: "x" } });
    expect(await reconcile({ global: { x: 2, y: 1 }, m: { a: 1, key: "x" } })).toMatchObject({
      action: "upgraded",
    });
    expect(await reconcile({ global: { x: 2, y: 2 }, m: { a: 1, key: "x" } })).toMatchObject({
      action: "labelled",
    });
    expect(await reconcile({ global: { x: 2, y: 2 }, m: { a: 1, key: "x" } })).toMatchObject({
      action: "unchanged",
    });
  });

  test.runIf(once)("a new API set matters to charts that read .Capabilities", async () => {
    const kind = `${lab.namespace}.example.com`;
    const has = `{{ .Capabilities.APIVersions.Has "${kind}/v1/Thing" }}`;
    await putChart(CONFIG_MAP.replace("{{ .Values.m.a }}", has.replaceAll(`"`, "`")));
    await reconcile({ m: { a: 1 } });
    expect(await data()).toContain(`"a":"false"`);
    const crd = join(lab.root, "crd.yaml");
    const schema = { openAPIV3Schema: { type: "object" } };
    const version = { name: "v1", served: true, storage: true, schema };
    await writeFile(crd, JSON.stringify(crdOfThings(kind, [version])));
    await releases.ensureCrds({ files: [crd] });
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded" });
    expect(await data()).toContain(`"a":"true"`);
    await releases.ensureCrds({ files: [crd] });
    await cluster().kubectl(["delete", "crd", `things.${kind}`]);
  });

  test("uninstall keeps a record until it is forgotten; an uninstalled release can be installed again", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const signal = AbortSignal.timeout(50_000);
    await releases.uninstall({ name: "m" }, signal);
    expect(releases.observed.get("m")?.status).toBe("uninstalled");
    expect(releases.observed.installed()).toEqual([]);
    await releases.uninstall({ name: "m" }, signal);
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({
      action: "installed",
      release: { status: "deployed" },
    });
    await releases.uninstall({ name: "m" }, signal);
    await releases.forgetRelease("m");
    expect(releases.observed.ownership("m")).toBe("none");
    expect(await kubectl("get", "secrets", "-o", "name")).toBe("");
  });

  test("an uninstall whose record a policy refuses names the policy", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const metadata = { name: `keep-${lab.namespace}` };
    const apiVersion = "admissionregistration.k8s.io/v1";
    const rule = { apiGroups: [""], apiVersions: ["v1"], resources: ["secrets"], operations: ["UPDATE"] };
    const policy = {
      matchConstraints: { resourceRules: [rule] },
      validations: [{ expression: "false", message: "records are read-only" }],
    };
    const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": lab.namespace } };
    const binding = {
      policyName: metadata.name,
      validationActions: ["Deny"],
      matchResources: { namespaceSelector },
    };
    await cluster().apply({ apiVersion, kind: "ValidatingAdmissionPolicy", metadata, spec: policy });
    await cluster().apply({ apiVersion, kind: "ValidatingAdmissionPolicyBinding", metadata, spec: binding });
    try {
      await eventually(async () => {
        const change = kubectl("label", "secret", "-l", "owner=helm", "a=b", "--dry-run=server");
        await expect(change).rejects.toThrow("records are read-only");
      }, "the policy is in force");
      const removal = releases.uninstall({ name: "m" }, AbortSignal.timeout(50_000));
      await expect(removal).rejects.toThrow(
        /^helm uninstall m: helm reports success, but it could not write the record of the release: .*keep-.*records are read-only/,
      );
    } finally {
      await cluster().kubectl([
        "delete",
        `validatingadmissionpolicybinding/${metadata.name}`,
        `validatingadmissionpolicy/${metadata.name}`,
      ]);
    }
    const remove = () => releases.uninstall({ name: "m" }, AbortSignal.timeout(50_000));
    await eventually(remove, "the policy is not in force any more");
    expect(releases.observed.get("m")?.status).toBe("uninstalled");
  });

  test("an uninstall of another cluster names the helm binary", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const bin = join(lab.root, "helm");
    await writeFile(bin, "#!/bin/sh\nexit 0\n", { mode: 0o755 });
    await restart({ bin });
    await expect(releases.uninstall({ name: "m" }, AbortSignal.timeout(50_000))).rejects.toThrow(
      /^helm uninstall m: helm reports success, but https:.* shows no trace of it; check that the helm binary/,
    );
  });

  test("an uninstall that was cut short is recovered", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    const meta = releases.store.get("m");
    if (meta === undefined) throw new Error("no release");
    await releases.store.setLabels(meta, { status: "uninstalling" });
    expect(await reconcile({ m: { a: 1 } })).toMatchObject({ action: "upgraded", wasRecovered: true });
    const again = releases.store.get("m");
    if (again === undefined) throw new Error("no release");
    await releases.store.setLabels(again, { status: "uninstalling" });
    await releases.uninstall({ name: "m" }, AbortSignal.timeout(50_000));
    expect(releases.observed.get("m")?.status).toBe("uninstalled");
  });

  test.runIf(once)("the watch brings what others do; a rollback by hand is undone", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    await reconcile({ m: { a: 2 } });
    await runHelm(["rollback", "m", "1"]);
    await eventually(
      () => releases.observed.get("m")?.revision === 3 && releases.observed.get("m")?.status === "deployed",
      "the rollback shows",
    );
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
    expect(await data()).toContain(`"a":"2"`);
    await runHelm(["uninstall", "m"]);
    await eventually(() => releases.observed.get("m") === undefined, "the release is gone");
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "installed" });
  });

  test("conflicts with other field managers are forced", async () => {
    await putChart();
    await reconcile({ m: { a: 1 } });
    await kubectl("patch", "cm", "m", "--type=merge", "--field-manager=other", "-p", `{"data":{"a":"mine"}}`);
    expect(await reconcile({ m: { a: 2 } })).toMatchObject({ action: "upgraded" });
    expect(await data()).toContain(`"a":"2"`);
  });

  test.runIf(which === "helm")(
    "helm.apply: client applies what server-side apply refuses, and server goes back",
    async () => {
      const env = (names: string): string =>
        `env: [${names
          .split(",")
          .map((name) => `{name: ${name}, value: x}`)
          .join(", ")}]`;
      const pod = (names: string, context = "{runAsUser: 1}"): string =>
        `apiVersion: v1\nkind: PodTemplate\nmetadata: {name: m, labels: {v: "{{ .Values.m.a }}"}}\ntemplate: {spec: {securityContext: ${context}, containers: [{name: a, image: x, ${env(names)}}]}}\n`;
      const operations = "jsonpath={.metadata.managedFields[*].operation}";
      const applied = (): Promise<string> =>
        kubectl("get", "podtemplate", "m", "--show-managed-fields", "-o", operations);
      await putChart(pod("A,A"));
      await expect(reconcile({ m: { a: 1 } })).rejects.toThrow(/duplicate entries for key/);
      expect(await reconcile({ m: { a: 1 } }, { helm: { apply: "client" } })).toMatchObject({
        action: "upgraded",
      });
      expect(await reconcile({ m: { a: 2 } }, { helm: { apply: "client" } })).toMatchObject({
        action: "upgraded",
      });
      expect(await applied()).toBe("Update");
      const object = { apiVersion: "v1", kind: "PodTemplate", name: "m", namespace: lab.namespace };
      const inspect = async () => {
        const signal = AbortSignal.timeout(50_000);
        return (await releases.readRecordedObjects("m", signal))?.inspect(object, { ignore: [], signal });
      };
      const notCompared =
        'template.spec.containers[name="a"].env (several items with the key [name="A"]); give each item a key of its own in the chart';
      expect(await inspect()).toMatchObject({ fields: [], notCompared });
      await kubectl("label", "podtemplate", "m", "--overwrite", "v=9", "--field-manager=other");
      const drifted = await inspect();
      expect(drifted).toMatchObject({
        fields: [{ field: "metadata.labels.v", manager: "other" }],
        notCompared,
      });
      await drifted?.repair();
      expect(await inspect()).toMatchObject({ fields: [], notCompared });
      expect(
        await kubectl("get", "podtemplate", "m", "-o", "jsonpath={.template.spec.containers[0].env[*].name}"),
      ).toBe("A A");
      // So does a directive for client-side apply.
      await putChart(pod("A,A", "{$patch: replace, runAsUser: 2}"));
      await reconcile({ m: { a: 2 } }, { helm: { apply: "client" } });
      await kubectl("label", "podtemplate", "m", "--overwrite", "v=8", "--field-manager=other");
      expect(await inspect()).toMatchObject({
        fields: [{ field: "metadata.labels.v", manager: "other" }],
        notCompared,
      });
      await putChart(pod("A,B"));
      expect(await reconcile({ m: { a: 2 } }, { helm: { apply: "server" } })).toMatchObject({
        action: "upgraded",
      });
      expect(await applied()).toContain("Apply");
      await putChart(pod("A"));
      await reconcile({ m: { a: 2 } });
      expect(
        await kubectl("get", "podtemplate", "m", "-o", "jsonpath={.template.spec.containers[0].env[*].name}"),
      ).toBe("A");
    },
  );

  test("history is kept short", async () => {
    await putChart();
    for (const a of [1, 2, 3, 4, 5]) await reconcile({ m: { a } });
    expect(releases.store.revisions("m")).toHaveLength(3);
  });

  test("helm missing has one clear message", async () => {
    await putChart();
    await restart({ bin: "/nowhere/helm" });
    await expect(reconcile({ m: { a: 1 } })).rejects.toThrow(/nowhere\/helm.*--helm-bin/);
  });
});

/** Kills the helm that works in `namespace`, as the kernel would. */
async function kill(namespace: string, signal: NodeJS.Signals): Promise<void> {
  const mark = `${RELEASE_VARIABLE}=${managedByDigest(namespace, "addon-operator")}/m`;
  const pids = await findOrphanedProcesses((environment) => environment.includes(mark));
  expect(pids).toHaveLength(1);
  for (const pid of pids) process.kill(pid, signal);
}
