import { NO_BINDINGS, createLifecycleBinding, type HookKind } from "../../src/hooks/bindings/index.ts";
import { parseHookConfig } from "../../src/hooks/index.ts";
import type {
  Bindings,
  Hook,
  HookConfig,
  HookTrigger,
  KubernetesBinding,
  LifecycleName,
  ScheduleBinding,
  WatchEvent,
} from "../../src/base/model/index.ts";

/** A hook with the configuration that `text` gives; never run. */
export function hookWith(text: string, name = "hook.sh", kind: HookKind = "module"): Hook {
  const parsed = parseHookConfig(text, kind);
  if ("errors" in parsed) throw new Error(parsed.errors.join("; "));
  const { config } = parsed;
  return {
    id: `m:${name}`,
    name,
    path: `/m/hooks/${name}`,
    root: "/m/hooks",
    signature: "",
    module: kind === "module" ? "m" : undefined,
    config,
  };
}

/** These bindings and no others. */
export const bindingsWith = (some: Partial<Bindings>): Bindings => ({ ...NO_BINDINGS, ...some });

/** A binding of the ConfigMaps of `ns`. */
export const binding = (more: Partial<KubernetesBinding> = {}): KubernetesBinding => ({
  type: "kubernetes",
  id: "kubernetes[0]",
  name: "maps",
  allowFailure: false,
  queue: "main",
  group: undefined,
  includeSnapshotsFrom: [],
  apiVersion: undefined,
  kind: "ConfigMap",
  events: ["Added", "Modified", "Deleted"],
  executeOnSynchronization: true,
  waitForSynchronization: true,
  keepFullObjects: true,
  jqFilter: undefined,
  names: undefined,
  labelSelector: undefined,
  fieldSelector: undefined,
  namespaces: ["ns"],
  namespaceLabels: undefined,
  ...more,
});

/** A hook with these kubernetes bindings; never run. */
export const hookOf = (
  name: string,
  kubernetes: KubernetesBinding[],
  version: HookConfig["version"] = "v1",
): Hook => ({
  id: name,
  name,
  path: `/hooks/${name}`,
  root: "/hooks",
  signature: "1",
  module: undefined,
  config: { version, bindings: bindingsWith({ kubernetes }), settings: undefined },
});

/** The binding of this name. */
export function kubernetes(hook: Hook, name: string): KubernetesBinding {
  const binding = hook.config.bindings.kubernetes.find((each) => each.name === name);
  if (binding === undefined) throw new Error(`no kubernetes binding ${name}`);
  return binding;
}

export function schedule(hook: Hook, name: string): ScheduleBinding {
  const binding = hook.config.bindings.schedule.find((each) => each.name === name);
  if (binding === undefined) throw new Error(`no schedule ${name}`);
  return binding;
}

export function event(binding: KubernetesBinding, watchEvent: WatchEvent = "Added"): HookTrigger {
  const item = { object: { kind: "Pod", metadata: { name: "p" } }, filterResult: { a: 1 } };
  return { type: "event", binding, event: { watchEvent, kind: "Pod", namespace: "ns", name: "p", item } };
}

export function sync(binding: KubernetesBinding): HookTrigger {
  return { type: "synchronization", binding };
}

export function tick(binding: ScheduleBinding): HookTrigger {
  return { type: "schedule", binding };
}

export function lifecycle(name: LifecycleName): HookTrigger {
  return { type: "lifecycle", binding: createLifecycleBinding(name, 1) };
}
