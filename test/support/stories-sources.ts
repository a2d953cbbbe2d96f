import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { moduleDir, registryLab, type Lab } from "../sources/registry/artifact/lab.ts";
import { bareStory } from "./bare-story.ts";
import { pictureOf } from "./final-state.ts";
import type { PageState } from "./scene.ts";
import type { Story } from "./story.ts";

/** The registry of each scene. */
const labs = new WeakMap<PageState, Lab>();

function labOf(pageState: PageState): Lab {
  const lab = labs.get(pageState);
  if (lab === undefined) throw new Error("the scene has no registry");
  return lab;
}

/** Pushes module `web` in a version, whose hooks run before helm and at its deletion, and moves the channel `stable` to it. */
async function release(pageState: PageState, version: string, service = "ClusterIP"): Promise<void> {
  const lab = labOf(pageState);
  const config = JSON.stringify({ configVersion: "v1", beforeHelm: 1, afterDeleteHelm: 1 });
  const files = {
    "Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
    // One false answer to helm would otherwise be an update that failed.
    ...(service === "ClusterIP" ? {} : { "addon.yaml": "onFailure: rollback\nretries: 1\n" }),
    "hooks/note.sh": `#!/bin/sh\nif [ "$1" = --config ]; then echo '${config}'; else echo ${version} >"$SCENE/hook-version"; fi\n`,
    "templates/map.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: "${version}"}\n`,
    "templates/service.yaml": `apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: ${service}, ports: [{port: 80}]}\n`,
  };
  await lab.push(version, { dir: moduleDir(files) });
  await lab.tag(`web:${version}`, "stable");
}

/** A registry with version 1.0.0, its key, and a ModuleSource that follows the channel. */
async function openRegistry(pageState: PageState): Promise<void> {
  const { namespace, cluster } = pageState;
  const lab = await registryLab({ hasReferrers: true });
  labs.set(pageState, lab);
  await release(pageState, "1.0.0");
  const data = { "ci.pub": lab.key.publicPem };
  const metadata = { name: "addon-operator-keys", namespace };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata, data }, sourceOf(pageState));
}

function sourceOf(pageState: PageState, annotations = {}): object {
  const registry = `oci://${labOf(pageState).registry.host}/modules`;
  return {
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name: "platform", namespace: pageState.namespace, annotations },
    spec: { registry, plainHttp: true, modules: { web: { tag: "stable", enabled: true, order: 10 } } },
  };
}

/** Moves the channel to a version, and requests a check. */
async function moveTo(pageState: PageState, version: string, service?: string): Promise<void> {
  await release(pageState, version, service);
  await pageState.cluster.apply(
    sourceOf(pageState, { "reconcile.addon-operator.io/requestedAt": `to ${version}` }),
  );
}

interface StoredMap {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** The content on disk: where links lead, as versions, what is unpacked, and what was left unfinished. */
function lookAtDisk({ dir }: PageState): object {
  const path = (name: string): string => join(dir, "sources", name);
  const list = (name: string): string[] => (existsSync(path(name)) ? readdirSync(path(name)).sort() : []);
  const versionIn = (content: string): string =>
    existsSync(join(content, "Chart.yaml"))
      ? (/version: (.*)/.exec(readFileSync(join(content, "Chart.yaml"), "utf8"))?.[1] ?? "")
      : "empty";
  const links = list("modules").filter((name) => name !== "values.yaml");
  return {
    links: links.map((name) => `${name} ${versionIn(readlinkSync(join(path("modules"), name)))}`),
    flags: readFileSync(join(path("modules"), "values.yaml"), "utf8"),
    unpacked: list("unpacked")
      .map((name) => versionIn(join(path("unpacked"), name)))
      .sort(),
    unfinished: [...list("blobs/part"), ...list("trials")],
    blobs: list("blobs/sha256").length,
  };
}

/** What the ModuleSource, the lock and the disk have when `version` is in force; throws while another one is. */
async function lookAtSource(pageState: PageState, version: string | undefined) {
  const { cluster, namespace, dir } = pageState;
  const get = async <T>(kind: string, name: string): Promise<Partial<T>> => {
    const args = ["get", kind, name, "-n", namespace, "--ignore-not-found", "-o", "json"];
    return JSON.parse((await cluster.kubectl(args)).trim() || "{}") as Partial<T>;
  };
  const lock = await get<StoredMap>("configmap", "addon-operator-modules");
  const text = lock.data?.["web"];
  const entry = text === undefined ? undefined : (JSON.parse(text) as Record<string, unknown>);
  expect(entry?.["version"]).toBe(version);
  expect(entry?.["isNew"]).toBeUndefined();
  const { status } = await get<IModuleSource>("modulesource", "platform");
  const conditions = (status?.conditions ?? []).map((each) => `${each.type} ${each.status} ${each.reason}`);
  return {
    entry: { ...entry, at: undefined, digest: undefined, previous: nameOnly(entry?.["previous"]) } as Record<
      string,
      unknown
    >,
    crd: lock.metadata?.annotations !== undefined,
    conditions,
    modules: status?.modules?.map(
      (each) => `${each.name} ${each.version} ${each.digest === entry?.["digest"]}`,
    ),
    handled: status?.lastHandledReconcileAt,
    hook: readFileSync(join(dir, "hook-version"), "utf8"),
    disk: lookAtDisk(pageState),
  };
}

const nameOnly = (content: unknown): unknown => (content as { version?: string } | undefined)?.version;

/** Objects whose keys and times differ between two runs: `look` shows the rest of them. */
const hidden = ["ConfigMap addon-operator-modules", "ConfigMap addon-operator-keys"];

const story = {
  hidden,
  furnish: openRegistry,
  options: ({ dir }: PageState) => ({
    args: ["--sources", `--sources-dir=${join(dir, "sources")}`],
  }),
  begins: (pageState: PageState) => lookAtSource(pageState, "1.0.0"),
};

/** The content of a module comes from a registry, which the lock names. */
export const SOURCE_STORIES: readonly Story[] = [
  bareStory({
    ...story,
    name: "source-install",
    look: (pageState) => lookAtSource(pageState, "1.0.0"),
  }),
  bareStory({
    ...story,
    name: "source-update",
    act: (pageState) => moveTo(pageState, "1.1.0"),
    look: (pageState) => lookAtSource(pageState, "1.1.0"),
  }),
  bareStory({
    ...story,
    name: "source-rollback",
    begins: async (pageState) => {
      await lookAtSource(pageState, "1.0.0");
      // The operator does so after a minute without a fault.
      const revision = ["-n", pageState.namespace, "-l", "owner=helm,name=web"];
      await pageState.cluster.kubectl([
        "label",
        "secrets",
        ...revision,
        "addon-operator.io/good=true",
        "--overwrite",
      ]);
    },
    // No Service has this type: helm fails and rolls back, and so does the lock.
    act: (pageState) => moveTo(pageState, "1.2.0", "Nonsense"),
    look: async (pageState) => {
      const found = await lookAtSource(pageState, "1.0.0");
      if (found.entry["isBack"] !== true) throw new Error("the lock does not say that an update failed");
      const text = JSON.stringify(found).replaceAll(/sha256:[0-9a-f]{64}/g, "DIGEST");
      return JSON.parse(text.replace(/"since":\d+/, '"since":0')) as unknown;
    },
  }),
  bareStory({
    ...story,
    name: "source-delete",
    act: async ({ cluster, namespace }) => {
      await cluster.kubectl(["delete", "modulesource", "platform", "-n", namespace]);
    },
    look: async (pageState) => {
      // A second check, a moment later, confirms that the directory is missing.
      const { statuses } = await pictureOf(pageState);
      if ("AddonModule web" in statuses) throw new Error("the AddonModule is left");
      return lookAtSource(pageState, undefined);
    },
  }),
  bareStory({
    ...story,
    name: "lock-delete",
    act: async ({ cluster, namespace }) => {
      await cluster.kubectl(["delete", "configmap", "addon-operator-modules", "-n", namespace]);
    },
    look: (pageState) => lookAtSource(pageState, "1.0.0"),
  }),
];
