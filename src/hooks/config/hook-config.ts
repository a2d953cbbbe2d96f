/** Reads and checks what a hook prints for `--config`. */

import {
  type HookConfig,
  type Json,
  isJsonObject,
  type JsonObject,
  type KubernetesBinding,
  LIFECYCLE_BINDINGS,
  type LifecycleBinding,
  type ScheduleBinding,
} from "../../model/index.ts";
import { oneLine, parseYaml } from "../../lib/index.ts";
import {
  eventBinding,
  type Findings,
  groupsOf,
  hookSettings,
  kubernetesBinding,
  scheduleBinding,
} from "./bindings.ts";
import { V0, V1 } from "./config-shapes.ts";
import type { RawConfig } from "./raw-config.ts";
import { mismatches } from "./shape.ts";

export type HookKind = "global" | "module";

/** A hook configuration, or everything that is wrong with it. */
export type ParsedHookConfig =
  | { readonly config: HookConfig; readonly warnings: readonly string[] }
  | { readonly errors: readonly string[] };

/** Checks that belong to other rooms. */
export interface ConfigChecks {
  /** Returns a warning, throws when the line is no crontab. */
  readonly checkCrontab?: ((line: string) => string | undefined) | undefined;
}

const ELSEWHERE: Readonly<Record<HookKind, readonly LifecycleBinding[]>> = {
  global: ["beforeHelm", "afterHelm", "beforeDeleteHelm", "afterDeleteHelm"],
  module: ["beforeAll", "afterAll"],
};
const WEBHOOKS = ["kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion"];

/**
 * Reads what a hook printed for `--config`: YAML or JSON, v0 or v1. All that is wrong with it is reported together.
 */
export function parseHookConfig(text: string, kind: HookKind, checks: ConfigChecks = {}): ParsedHookConfig {
  if (text.trim() === "")
    return { errors: ["the configuration is empty: the hook printed nothing for --config"] };
  try {
    const { value, warnings } = parseYaml(text, "--config");
    return check(value, warnings, { kind, checks });
  } catch (error) {
    return { errors: [`the configuration is neither YAML nor JSON: ${oneLine(error)}`] };
  }
}

function check(
  value: Json,
  yamlWarnings: readonly string[],
  { kind, checks }: { kind: HookKind; checks: ConfigChecks },
): ParsedHookConfig {
  if (!isJsonObject(value)) return { errors: ["the configuration is no object with bindings"] };
  const version = versionOf(value);
  if (typeof version !== "string") return { errors: [version.error] };
  const refused = refusals(value, kind);
  const allowed = Object.fromEntries(Object.entries(value).filter(([key]) => !refused.has(key)));
  const strange = mismatches(value, version === "v1" ? V1 : V0).filter(
    (text) => !refused.has(text.split(" ")[0] ?? ""),
  );
  const errors = [...refused.values(), ...strange.map((text) => withHint(text, version))];
  if (errors.length > 0) return { errors };
  return normalise(allowed, version, { yamlWarnings, checks });
}

function versionOf(value: JsonObject): "v0" | "v1" | { error: string } {
  const { configVersion } = value;
  if (configVersion === undefined) return "v0";
  if (configVersion === null) return { error: "missing 'configVersion' value" };
  if (typeof configVersion !== "string") return { error: "string value is expected for key 'configVersion'" };
  return configVersion === "v1" ? "v1" : { error: `'configVersion' value '${configVersion}' is unsupported` };
}

/** Bindings that exist for the other kind of hooks, by key. */
function refusals(value: JsonObject, kind: HookKind): Map<string, string> {
  const refused = new Map<string, string>();
  for (const key of WEBHOOKS.filter((key) => Object.hasOwn(value, key))) {
    refused.set(key, `${key} is not supported: this operator has no webhook bindings`);
  }
  for (const key of ELSEWHERE[kind].filter((key) => Object.hasOwn(value, key))) {
    refused.set(
      key,
      `${key} is not allowed in a ${kind} hook, only in ${kind === "global" ? "module" : "global"} hooks`,
    );
  }
  return refused;
}

const ONLY_V1 = new Set(["kubernetes is a forbidden property", "settings is a forbidden property"]);

function withHint(text: string, version: "v0" | "v1"): string {
  if (version === "v0" && ONLY_V1.has(text)) return `${text} without configVersion: v1`;
  if (version === "v1" && text === "onKubernetesEvent is a forbidden property") {
    return `${text} with configVersion: v1, use kubernetes`;
  }
  return text;
}

interface Rest {
  readonly yamlWarnings: readonly string[];
  readonly checks: ConfigChecks;
}

function normalise(
  value: JsonObject,
  version: "v0" | "v1",
  { yamlWarnings, checks }: Rest,
): ParsedHookConfig {
  const errors: string[] = [];
  const warnings = [...yamlWarnings];
  const findings: Findings = {
    complain: (problem) => errors.push(problem),
    warn: (warning) => warnings.push(warning),
    checkCrontab: checks.checkCrontab ?? (() => undefined),
  };
  // The form was checked before, so the cast adds nothing.
  const raw = value as RawConfig;
  const groups = groupsOf(raw.kubernetes ?? []);
  const schedules = (raw.schedule ?? []).map((item, index) =>
    scheduleBinding(item, { index, groups }, findings),
  );
  const kubernetes = [
    ...(raw.kubernetes ?? []).map((item, index) => kubernetesBinding(item, { index, groups }, findings)),
    ...(raw.onKubernetesEvent ?? []).map((item, index) => eventBinding(item, index, findings)),
  ];
  const settings = hookSettings(raw.settings, findings.complain);
  checkIncludes(raw, kubernetes, findings);
  if (version === "v1") warnOfEqualNames([...schedules, ...kubernetes], findings);
  if (errors.length > 0) return { errors };
  return { config: { version, lifecycle: lifecycleOf(value), schedules, kubernetes, settings }, warnings };
}

function lifecycleOf(value: JsonObject): HookConfig["lifecycle"] {
  const orders: Partial<Record<LifecycleBinding, number>> = {};
  for (const binding of LIFECYCLE_BINDINGS) {
    const order = value[binding];
    if (typeof order === "number") orders[binding] = order;
  }
  return orders;
}

/** Each name in an includeSnapshotsFrom list must mean exactly one kubernetes binding of the hook. */
function checkIncludes(
  raw: RawConfig,
  kubernetes: readonly KubernetesBinding[],
  { complain }: Findings,
): void {
  const lists = [
    ...(raw.kubernetes ?? []).map((item, index) => ({
      path: `kubernetes[${index}]`,
      names: item.includeSnapshotsFrom,
    })),
    ...(raw.schedule ?? []).map((item, index) => ({
      path: `schedule[${index}]`,
      names: item.includeSnapshotsFrom,
    })),
  ];
  for (const { path, names = [] } of lists) {
    for (const name of names) {
      const count = kubernetes.filter((binding) => binding.name === name).length;
      if (count === 0) complain(`${path}.includeSnapshotsFrom is invalid: '${name}' binding name not found`);
      if (count > 1)
        complain(`${path}.includeSnapshotsFrom is invalid: there are ${count} '${name}' binding names`);
    }
  }
}

function warnOfEqualNames(
  bindings: readonly (ScheduleBinding | KubernetesBinding)[],
  { warn }: Findings,
): void {
  const seen = new Set<string>();
  for (const { type, name } of bindings) {
    const key = `${type} bindings named '${name}'`;
    if (seen.has(key)) warn(`there are several ${key}: the hook cannot tell them apart; give each a name`);
    seen.add(key);
  }
}
