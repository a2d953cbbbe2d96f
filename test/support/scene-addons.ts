import type { Scene } from "./scene.ts";

/** What a hook leaves, by the variable that names the file. */
type Leaves = Partial<Record<"VALUES_JSON" | "CONFIG_VALUES_JSON" | "KUBERNETES", object>>;

/** A hook with one gate, named like the hook, at its beginning; what it leaves may be a shell command. */
export function hookText(name: string, config: object, leaves: Leaves | string = {}): string {
  const body = typeof leaves === "string" ? leaves : patchesOf(leaves);
  const json = JSON.stringify({ configVersion: "v1", ...config });
  return `#!/usr/bin/env bash
set -eu
if [ "\${1:-}" = --config ]; then echo '${json}'; exit 0; fi
. "$SCENE/gates.sh"
echo '${name}' >> "$SCENE/hook-runs"
gate '${name}'
${body}
`;
}

function patchesOf(leaves: Leaves): string {
  const writes = Object.entries(leaves).map(
    ([variable, text]) => `cat > "$${variable}_PATCH_PATH" <<PATCH\n${JSON.stringify(text)}\nPATCH`,
  );
  return writes.join("\n").replaceAll("NAMESPACE", "$ADDON_OPERATOR_NAMESPACE");
}

const patch = (path: string, value: unknown): object => ({ op: "add", path, value });

/** The ConfigMap that a hook leaves in the cluster, so that its run can be seen. */
export function mark(name: string, data: object = {}): object {
  const metadata = { name, namespace: "NAMESPACE" };
  return { operation: "CreateOrUpdate", object: { apiVersion: "v1", kind: "ConfigMap", metadata, data } };
}

function unmark(name: string): object {
  return { operation: "Delete", apiVersion: "v1", kind: "ConfigMap", namespace: "NAMESPACE", name };
}

/** A chart with one ConfigMap; `data` are lines of YAML templates. */
function chart(scene: Scene, dir: string, data: readonly string[]): void {
  scene.file(`${dir}/Chart.yaml`, "apiVersion: v2\nname: any\nversion: 1.0.0\n");
  const lines = data.map((line) => `  ${line}\n`).join("");
  const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n";
  scene.file(`${dir}/templates/config.yaml`, `${head}${lines}`);
}

/** A watch of the ConfigMap `seed`. */
const SEED = {
  kubernetes: [
    {
      name: "seed",
      kind: "ConfigMap",
      nameSelector: { matchNames: ["seed"] },
      namespace: { nameSelector: { matchNames: ["NAMESPACE"] } },
    },
  ],
};

/**
 * Two modules and global hooks with every binding there is, each leaving a trace: `base` is a chart alone, `app` has
 * an `enabled` script and hooks. Hooks' gates are `global/onStartup`, `app/beforeHelm` and so on.
 */
export function addons(scene: Scene): void {
  const global = (name: string, config: object, leaves: Leaves): void =>
    scene.file(`global-hooks/${name}.sh`, hookText(`global-${name}`, inNamespace(scene, config), leaves));
  global("onStartup", { onStartup: 1 }, { VALUES_JSON: patch("/global/zone", "a") });
  global("sync", SEED, { VALUES_JSON: patch("/global/seeded", "yes") });
  global("beforeAll", { beforeAll: 1 }, { VALUES_JSON: patch("/global/planned", "yes") });
  global("afterAll", { afterAll: 1 }, { KUBERNETES: mark("all-done") });
  base(scene);
  app(scene);
}

/** A module with a chart and nothing else. */
export function base(scene: Scene, dir = "modules/030-base"): void {
  chart(scene, dir, ['size: "{{ .Values.base.size }}"']);
  scene.file(`${dir}/values.yaml`, "baseEnabled: true\nbase: {size: 1}\n");
}

/** A module with hooks for every binding of modules. */
function app(scene: Scene, dir = "modules/020-app"): void {
  const values = ["size", "started", "seen", "prepared", "kept"].map(
    (key) => `${key}: "{{ .Values.app.${key} }}"`,
  );
  const globals = ["zone", "seeded", "planned"].map((key) => `${key}: "{{ .Values.global.${key} }}"`);
  chart(scene, dir, [...values, ...globals]);
  scene.file(`${dir}/values.yaml`, "appEnabled: true\napp: {size: 1}\n");
  scene.file(
    `${dir}/enabled`,
    '#!/usr/bin/env bash\n. "$SCENE/gates.sh"\ngate app-enabled\necho true > "$MODULE_ENABLED_RESULT"\n',
  );
  const hook = (name: string, config: object, leaves: Leaves): void =>
    scene.file(`${dir}/hooks/${name}.sh`, hookText(`app-${name}`, inNamespace(scene, config), leaves));
  hook("onStartup", { onStartup: 1 }, { VALUES_JSON: patch("/app/started", "yes") });
  hook("sync", SEED, { VALUES_JSON: patch("/app/seen", "yes") });
  hook(
    "beforeHelm",
    { beforeHelm: 1 },
    {
      VALUES_JSON: patch("/app/prepared", "yes"),
      CONFIG_VALUES_JSON: patch("/app/kept", "yes"),
      KUBERNETES: mark("app-prepared"),
    },
  );
  hook("afterHelm", { afterHelm: 1 }, { KUBERNETES: mark("app-told") });
  hook("beforeDeleteHelm", { beforeDeleteHelm: 1 }, { KUBERNETES: mark("app-leaving") });
  hook("afterDeleteHelm", { afterDeleteHelm: 1 }, { KUBERNETES: unmark("app-told") });
}

function inNamespace(scene: Scene, config: object): object {
  return JSON.parse(JSON.stringify(config).replaceAll("NAMESPACE", scene.namespace)) as object;
}

/** What is in the namespace before any operator: the object that hooks watch. */
export async function seed({ cluster, namespace }: Scene): Promise<void> {
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seed", namespace } });
}

/** Asks the operator to read the directories and look at everything again. */
export async function reload({ cluster, namespace }: Scene): Promise<void> {
  const token = `reconcile.addon-operator.io/requestedAt=${Date.now()}`;
  await cluster.kubectl([
    "annotate",
    "addonoperator",
    "addon-operator",
    "-n",
    namespace,
    "--overwrite",
    token,
  ]);
}
