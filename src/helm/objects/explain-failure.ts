/**
 * Explains failures of helm whose remedy its message does not name: objects of hooks that were deleted, namespaces that do not exist, and
 * fields that cannot change.
 */

import type { HelmError } from "../binary/helm-errors.ts";
import { HELM_MESSAGES, listInvalidObjects } from "../binary/helm-messages.ts";
import type { ObjectRef } from "../manifest/manifest.ts";
import type { Reconciler } from "../types.ts";
import { buildDeletedObjectError, listRunHooks, type HookRun } from "./hook-objects.ts";
import { readLiveObject } from "./live-objects.ts";

/** What helm was to do. */
interface Attempt {
  readonly run: HookRun;
  /** Lists the objects that helm was to apply. */
  readonly listWanted: () => Promise<readonly ObjectRef[]> | readonly ObjectRef[];
  readonly signal: AbortSignal;
}

/** Adds the remedy to an error of helm, or converts it into a HookObjectError. Returns any other error unchanged. */
export async function explainFailure(
  tools: Reconciler,
  failure: HelmError,
  attempt: Attempt,
): Promise<Error> {
  const explained = await explainHookFailure(tools, failure, attempt);
  if (explained !== failure || explainMissingNamespace(failure, tools.namespace)) return explained;
  return explainImmutableFields(failure, tools.namespace, attempt.listWanted);
}

/**
 * Adds the remedy to an error of helm about objects in a namespace that does not exist and is not that of the release (`namespace`), which
 * the operator creates. Returns false for any other error.
 */
function explainMissingNamespace(failure: HelmError, namespace: string): boolean {
  const [, missing] = HELM_MESSAGES.missingNamespace.exec(failure.result.stderr) ?? [];
  if (missing === undefined || missing === namespace) return false;
  failure.message += `; the chart has objects in namespace ${missing}: set "namespace: ${missing}" in addon.yaml, and the operator creates it, or create it by hand`;
  return true;
}

/**
 * Converts an error of helm that waited for the object of a hook, which was deleted before helm saw how it ended. Returns any other
 * error unchanged.
 */
async function explainHookFailure(
  tools: Reconciler,
  failure: HelmError,
  { run, signal }: Attempt,
): Promise<Error> {
  const [, kind, namespace, name] = HELM_MESSAGES.hookNotReady.exec(failure.result.stderr) ?? [];
  const hook = listRunHooks(run).find(
    ({ ref }) => ref.kind === kind && ref.name === name && (ref.namespace ?? tools.namespace) === namespace,
  );
  // helm itself may have deleted the object after a failure.
  if (hook === undefined || hook.deletePolicies.includes("hook-failed") || signal.aborted) return failure;
  const live = await readLiveObject(tools, hook.ref, signal).catch(() => "unknown");
  if (live !== undefined) return failure;
  return buildDeletedObjectError(
    `${failure.message}; the object was deleted before helm saw that it completed`,
  );
}

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
async function explainImmutableFields(
  failure: HelmError,
  namespace: string,
  listWanted: Attempt["listWanted"],
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
