import type { PageState } from "./scene.ts";

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
function chart(pageState: PageState, dir: string, data: readonly string[]): void {
  pageState.file(`${dir}/Chart.yaml`, "apiVersion: v2\nname: any\nversion: 1.0.0\n");
  const lines = data.map((line) => `  ${line}\n`).join("");
  const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata:\n";
  pageState.file(`${dir}/templates/config.yaml`, `${head}${lines}`);
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
export function addons(pageState: PageState): void {
  const global = (name: string, config: object, leaves: Leaves): void =>
    pageState.file(
      `global-hooks/${name}.sh`,
      hookText(`global-${name}`, inNamespace(pageState, config), leaves),
    );
  global("onStartup", { onStartup: 1 }, { VALUES_JSON: patch("/global/zone", "a") });
  global("sync", SEED, { VALUES_JSON: patch("/global/seeded", "yes") });
  global("beforeAll", { beforeAll: 1 }, { VALUES_JSON: patch("/global/planned", "yes") });
  global("afterAll", { afterAll: 1 }, { KUBERNETES: mark("all-done") });
  base(pageState);
  app(pageState);
}

/** A module with a chart and nothing else. */
export function base(pageState: PageState, dir = "modules/030-base"): void {
  chart(pageState, dir, ['size: "{{ .Values.base.size }}"']);
  pageState.file(`${dir}/values.yaml`, "baseEnabled: true\nbase: {size: 1}\n");
}

/** A module with hooks for every binding of modules. */
function app(pageState: PageState, dir = "modules/020-app"): void {
  const values = ["size", "started", "seen", "prepared", "kept"].map(
    (key) => `${key}: "{{ .Values.app.${key} }}"`,
  );
  const globals = ["zone", "seeded", "planned"].map((key) => `${key}: "{{ .Values.global.${key} }}"`);
  chart(pageState, dir, [...values, ...globals]);
  pageState.file(`${dir}/values.yaml`, "appEnabled: true\napp: {size: 1}\n");
  pageState.file(
    `${dir}/enabled`,
    '#!/usr/bin/env bash\n. "$SCENE/gates.sh"\ngate app-enabled\necho true > "$MODULE_ENABLED_RESULT"\n',
  );
  const hook = (name: string, config: object, leaves: Leaves): void =>
    pageState.file(
      `${dir}/hooks/${name}.sh`,
      hookText(`app-${name}`, inNamespace(pageState, config), leaves),
    );
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

function inNamespace(pageState: PageState, config: object): object {
  return JSON.parse(JSON.stringify(config).replaceAll("NAMESPACE", pageState.namespace)) as object;
}

/** What is in the namespace before any operator: the object that hooks watch. */
export async function seed({ cluster, namespace }: PageState): Promise<void> {
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seed", namespace } });
}

/** Asks the operator to read the directories and look at everything again. */
export async function converge({ cluster, namespace }: PageState): Promise<void> {
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
