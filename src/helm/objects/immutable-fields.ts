/** Explains how to apply a change that the API server refuses, because fields of an object cannot change. */

import type { HelmError } from "../binary/helm-errors.ts";
import { HELM_MESSAGES, listInvalidObjects } from "../binary/helm-messages.ts";
import type { ObjectRef } from "../manifest/manifest.ts";

/** How to delete objects of a kind without loss of data. `effect`: what people notice meanwhile. */
interface Deletion {
  readonly option?: string;
  readonly effect?: string;
}

const ENDS_PODS: Deletion = { effect: ", which ends its Pods" };
/** Kinds that contain no data, or that a chart creates again with the same data. */
const DELETIONS: Readonly<Record<string, Deletion>> = {
  ClusterRoleBinding: {},
  ConfigMap: {},
  CSIDriver: {},
  DaemonSet: ENDS_PODS,
  Deployment: ENDS_PODS,
  Ingress: {},
  IngressClass: {},
  Job: { effect: ", which ends its Pods, and the new Job runs again" },
  PodDisruptionBudget: {},
  PriorityClass: {},
  RoleBinding: {},
  RuntimeClass: {},
  Secret: {},
  Service: { effect: ", and it gets a new address" },
  // Its Pods and claims stay.
  StatefulSet: { option: " --cascade=orphan" },
  StorageClass: {},
};

/**
 * Adds to an error of helm how to apply changes of fields that cannot change. `listWanted` lists the objects that helm was to apply;
 * `namespace` is that of the release. Returns any other error unchanged.
 */
export async function explainImmutableFields(
  failure: HelmError,
  namespace: string,
  listWanted: () => Promise<readonly ObjectRef[]> | readonly ObjectRef[],
): Promise<HelmError> {
  const refused = listInvalidObjects(failure).find(({ text }) => HELM_MESSAGES.immutableField.test(text));
  if (refused === undefined) return failure;
  const { kind, group, name } = refused;
  const wanted = await listWanted();
  const ref = wanted.find((each) => each.kind === kind && each.name === name);
  const resource = [kind.toLowerCase(), ...(group === undefined ? [] : [group])].join(".");
  failure.message += describeRemedy({ kind, name }, `${resource} ${name} -n ${ref?.namespace ?? namespace}`);
  return failure;
}

/** `object` is the object in the form of kubectl. */
function describeRemedy({ kind, name }: Pick<ObjectRef, "kind" | "name">, object: string): string {
  const what = `; ${kind}/${name} has fields that cannot change`;
  const deletion = Object.hasOwn(DELETIONS, kind) ? DELETIONS[kind] : undefined;
  if (deletion === undefined)
    return `${what}: undo the change, or replace the object by hand, because its deletion can delete data`;
  const { option = "", effect = "" } = deletion;
  return `${what}: undo the change, or run "kubectl delete ${object}${option}"${effect}; the next try creates it again`;
}
