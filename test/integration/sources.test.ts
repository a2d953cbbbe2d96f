import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { keyPair, moduleDir, registryLab, type Lab } from "../sources/registry/artifact/lab.ts";
import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { QUICK_LEASE } from "../support/replicas.ts";
import { startOperator, type OperatorProcess } from "../support/operator.ts";

// docs/guides/module-sources.md: what a key signed is fetched, locked, staged and run; nothing that a registry does removes it.

interface World {
  readonly lab: Lab;
  readonly namespace: string;
  /** A file of its delete hook. */
  readonly bye: string;
  /** With `--ha`, each replica has a disk of its own. */
  start(replica?: string): Promise<OperatorProcess>;
  /** Modules whose content is unpacked on the disk of a replica. */
  unpacked(replica: string): number;
  source(modules: Record<string, object>): Promise<void>;
  /** The version in the ConfigMap that the chart makes. */
  installed(): Promise<string>;
  status(): Promise<NonNullable<IModuleSource["status"]>>;
  lock(): Promise<Record<string, unknown>>;
  kubectl(args: readonly string[]): Promise<string>;
}

async function world(name: string): Promise<World> {
  await installCrds();
  const { kubectl, json, apply } = cluster();
  const lab = await registryLab({ hasReferrers: true });
  const namespace = await freshNamespace(name);
  const dir = mkdtempSync(join(tmpdir(), `${name}-`));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const bye = join(dir, "bye");
  await apply({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "addon-operator-keys", namespace },
    data: { "ci.pub": lab.key.publicPem },
  });
  const modulesDir = mkdtempSync(join(dir, "modules-"));
  return {
    lab,
    namespace,
    bye,
    start: (replica) => {
      const args = ["--sources", `--sources-dir=${join(dir, replica ?? "sources")}`];
      const ha = replica === undefined ? [] : ["--ha", ...QUICK_LEASE];
      return startOperator({ namespace, modulesDir, args: [...args, ...ha] });
    },
    unpacked: (replica) => {
      const all = join(dir, replica, "unpacked");
      return existsSync(all) ? readdirSync(all).filter((name) => !name.startsWith(".")).length : 0;
    },
    source: (modules) =>
      apply({
        apiVersion: "addon-operator.io/v1alpha1",
        kind: "ModuleSource",
        metadata: { name: "platform", namespace },
        spec: { registry: `oci://${lab.registry.host}/modules`, plainHttp: true, modules },
      }),
    installed: () => kubectl(["get", "cm", "web", "-n", namespace, "-o", "jsonpath={.data.version}"]),
    status: async () =>
      (await json<IModuleSource>(["get", "modulesource", "platform", "-n", namespace])).status ?? {},
    lock: async () => {
      const lock = await json<{ data?: Record<string, string> }>([
        "get",
        "cm",
        "addon-operator-modules",
        "-n",
        namespace,
      ]);
      return JSON.parse(lock.data?.["web"] ?? "{}") as Record<string, unknown>;
    },
    kubectl: (args) => kubectl([...args, "-n", namespace]),
  };
}

/** Pushes the module with this version, and a delete hook that leaves a file. */
function push({ lab, bye }: World, version: string, key = lab.key): Promise<string> {
  const hook = `#!/bin/sh\nif [ "$1" = --config ]; then echo '{"configVersion":"v1","afterDeleteHelm":1}'; else echo ${version} >${bye}; fi\n`;
  const dir = moduleDir({
    "Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
    "hooks/bye.sh": hook,
    "templates/map.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: "{{ .Chart.Version }}"}\n`,
  });
  return lab.push(version, { dir, key });
}

const conditionOf = (status: NonNullable<IModuleSource["status"]>, type: string) =>
  status.conditions?.find((each) => each.type === type);

async function untilInstalled(it: World, operator: OperatorProcess, version: string): Promise<void> {
  await eventually(async () => expect(await it.installed()).toBe(version), `version ${version} runs`, {
    context: () => operator.log().slice(-4000),
  });
}

test(
  "fetched, switched, refused, kept without a registry, removed by its user",
  { timeout: 180_000 },
  async () => {
    const it = await world("sources");
    const first = await push(it, "1.4.2");
    let operator = await it.start();
    await operator.waitReady();
    await it.source({ web: { version: "1.4.2", order: 10, enabled: true } });
    await untilInstalled(it, operator, "1.4.2");
    await eventually(
      async () => expect(conditionOf(await it.status(), "Ready")?.status).toBe("True"),
      "Ready",
    );
    expect(await it.status()).toMatchObject({
      summary: "1/1",
      modules: [{ name: "web", version: "1.4.2", digest: first, verifiedBy: "ci.pub" }],
    });
    await eventually(async () => {
      const text = await it.kubectl(["get", "addonmodule", "web", "-o", "jsonpath={.status.source.digest}"]);
      expect(text).toBe(first);
    }, "the source in the status of the module");

    const second = await push(it, "1.5.0");
    await it.source({ web: { digest: second, order: 10, enabled: true } });
    await untilInstalled(it, operator, "1.5.0");
    expect(await it.lock()).toMatchObject({ version: "1.5.0", digest: second, previous: { digest: first } });

    // Signed by someone else.
    await push(it, "1.6.0", keyPair());
    await it.source({ web: { version: "1.6.0", order: 10, enabled: true } });
    await eventually(
      async () => expect(conditionOf(await it.status(), "Stalled")).toMatchObject({ reason: "NotVerified" }),
      "it is refused",
    );
    expect(await it.lock()).toMatchObject({ version: "1.5.0" });
    expect(await it.installed()).toBe("1.5.0");

    // Registry away, and a restart: the same content, without a request.
    await it.source({ web: { version: "1.5.0", order: 10, enabled: true } });
    await eventually(
      async () => expect(conditionOf(await it.status(), "Ready")?.status).toBe("True"),
      "Ready",
    );
    await operator.stop();
    it.lab.registry.failures = { status: 503, left: Infinity };
    const calls = it.lab.registry.calls.length;
    operator = await it.start();
    await operator.waitReady();
    expect(await it.installed()).toBe("1.5.0");
    expect(it.lab.registry.calls.length).toBe(calls);
    expect(existsSync(it.bye)).toBe(false);

    // Deleted by its user: off, with its delete hook, and then forgotten.
    await it.kubectl(["delete", "modulesource", "platform"]);
    // The shell creates the file before it writes the line.
    await eventually(() => expect(readFileSync(it.bye, "utf8")).toBe("1.5.0\n"), "the delete hook ran", {
      context: () => operator.log().slice(-4000),
    });
    await eventually(async () => expect(await it.lock()).toEqual({}), "the lock forgets it");
    await eventually(
      async () => expect(await it.kubectl(["get", "addonmodules", "-o", "name"])).toBe(""),
      "no module",
    );
  },
);

test("an end between lock and switch is completed by the next start", { timeout: 240_000 }, async () => {
  const it = await world("sources-kill");
  await push(it, "1.4.2");
  await push(it, "1.5.0");
  let operator = await it.start();
  await it.source({ web: { version: "1.5.0", enabled: true } });
  await untilInstalled(it, operator, "1.5.0");
  const locked = await it.lock();
  await it.source({ web: { version: "1.4.2", enabled: true } });
  await untilInstalled(it, operator, "1.4.2");
  await operator.kill9();
  // The lock names the next content, and the links do not yet.
  await it.source({ web: { version: "1.5.0", enabled: true } });
  const patch = JSON.stringify({ data: { web: JSON.stringify(locked) } });
  await it.kubectl(["patch", "cm/addon-operator-modules", "--type=merge", "-p", patch]);
  it.lab.registry.failures = { status: 503, left: Infinity };
  operator = await it.start();
  await untilInstalled(it, operator, "1.5.0");

  // On an empty disk, and with the registry still away, its user removes it: the release goes without its hooks.
  await operator.stop();
  rmSync(join(dirname(it.bye), "sources"), { recursive: true });
  operator = await it.start();
  await operator.until(() => operator.log().includes("is locked and not on disk"), "the content is missing");
  expect(await it.installed()).toBe("1.5.0");
  await it.kubectl(["delete", "modulesource", "platform"]);
  await eventually(
    async () => {
      expect(await it.kubectl(["get", "addonmodules", "-o", "name"])).toBe("");
      expect(await it.kubectl(["get", "configmap", "web", "-o", "name", "--ignore-not-found"])).toBe("");
    },
    "the release and the module are gone",
    { context: () => operator.log().slice(-4000) },
  );
  await eventually(async () => expect(await it.lock()).toEqual({}), "the lock forgets it");
  expect(operator.log()).toContain("A module was deleted without its delete hooks");
  expect(existsSync(it.bye)).toBe(false);
});

test(
  "a second replica has the content on its own disk, and takes over without the registry",
  { timeout: 180_000 },
  async () => {
    const it = await world("sources-ha");
    const digest = await push(it, "1.4.2");
    const first = await it.start("a");
    await first.waitReady();
    const second = await it.start("b");
    await it.source({ web: { version: "1.4.2", enabled: true } });
    await untilInstalled(it, first, "1.4.2");
    await second.until(() => it.unpacked("b") === 1, "the second replica has the content");

    it.lab.registry.failures = { status: 503, left: Infinity };
    const calls = it.lab.registry.calls.length;
    await first.kill9();
    await it.kubectl(["delete", "configmap", "web"]);
    await eventually(async () => expect(await it.installed()).toBe("1.4.2"), "the second replica heals it", {
      context: () => second.log().slice(-4000),
    });
    expect(await it.lock()).toMatchObject({ version: "1.4.2", digest });
    expect(it.lab.registry.calls.length).toBe(calls);
  },
);
