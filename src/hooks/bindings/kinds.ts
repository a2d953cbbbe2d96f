/** The kinds of bindings, such as schedules and kubernetes events, how they are read from the configuration of a hook, and what triggers them. */

import type { Binding, Bindings, HookConfig, JsonObject } from "../../base/model/index.ts";
import { mutating, validating } from "./admission.ts";
import { conversion } from "./conversion.ts";
import type { BindingKind, BindingReadOptions, Triggers } from "./kind.ts";
import { kubernetes } from "./kubernetes.ts";
import { lifecycle } from "./lifecycle.ts";
import { Schedules, schedule, type ScheduleOptions } from "./schedule.ts";
import type { Shape } from "./shape.ts";
import { enqueueHook, type HookQueues } from "./trigger.ts";

const KINDS: { readonly [B in Binding as B["type"]]: BindingKind<B> } = {
  lifecycle,
  schedule,
  kubernetes,
  validating,
  mutating,
  conversion,
};
/** The cast is safe: each kind is called with its own bindings only, which the compiler cannot check. */
const KIND_BY_TYPE = KINDS as Readonly<Record<Binding["type"], BindingKind>>;
const ALL_KINDS = Object.values(KIND_BY_TYPE);

/** The shapes, simple schemas, of the keys for bindings in a configuration of this version, by key. */
export function listBindingShapes(version: HookConfig["version"]): Record<string, Shape> {
  return Object.assign({}, ...ALL_KINDS.map(({ shapesByVersion }) => shapesByVersion[version])) as Record<
    string,
    Shape
  >;
}

/** Reads all bindings of a configuration that matches `listBindingShapes`: lists by type. */
export function readBindings(config: JsonObject, options: BindingReadOptions): Bindings {
  const listsByType = Object.entries(KIND_BY_TYPE).map(
    ([type, kind]) => [type, kind.read(config, options)] as const,
  );
  const bindings = Object.fromEntries(listsByType) as unknown as Bindings;
  return Object.fromEntries(
    listsByType.map(([type, list]) => [type, list.map((each) => withSnapshots(each, bindings, options))]),
  ) as unknown as Bindings;
}

/** The bindings of a configuration without binding keys: an empty list for each kind. */
export const NO_BINDINGS = Object.fromEntries(
  Object.keys(KINDS).map((type) => [type, []]),
) as unknown as Bindings;

/** Adds the bindings of the binding's group to `includeSnapshotsFrom`. Complains about names there that do not match exactly one kubernetes binding. */
function withSnapshots(
  binding: Binding,
  { kubernetes: kubernetesBindings }: Bindings,
  { complain }: BindingReadOptions,
): Binding {
  const { id, group, includeSnapshotsFrom: ownNames } = binding;
  for (const name of ownNames) {
    const count = kubernetesBindings.filter((each) => each.name === name).length;
    if (count === 0) complain(`${id}.includeSnapshotsFrom is invalid: '${name}' binding name not found`);
    if (count > 1)
      complain(`${id}.includeSnapshotsFrom is invalid: there are ${count} '${name}' binding names`);
  }
  const bindingsOfGroup = kubernetesBindings.filter((each) => group !== undefined && each.group === group);
  return {
    ...binding,
    includeSnapshotsFrom: [...new Set([...ownNames, ...bindingsOfGroup.map(({ name }) => name)])],
  };
}

/** All bindings of a configuration, kind by kind. */
export function listBindings({ bindings }: Pick<HookConfig, "bindings">): readonly Binding[] {
  return Object.values(bindings).flat();
}

/** Creates the source of all bindings that neither a task nor a watch triggers: the schedules. */
export function createSources(
  options: Omit<ScheduleOptions, "emit"> & { readonly queues: HookQueues },
): Triggers {
  return new Schedules({ ...options, emit: (hook, trigger) => enqueueHook(options.queues, hook, trigger) });
}
