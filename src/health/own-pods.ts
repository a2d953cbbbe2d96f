/** Which Pods belong to a workload, and which of them to the revision of its current spec. */

import {
  isJsonObject,
  objectOf,
  objectsIn,
  asString,
  type JsonObject,
  type LabelSelector,
} from "../model/index.ts";
import { groupKind, kindOf } from "./assess.ts";
import { intAt, textAt } from "./rule.ts";

/**
 * How a workload's Pods are recognized. Selectors of workloads may overlap, so the owner reference decides. During a
 * rollout, Pods of the previous revision say nothing about the current one.
 */
export interface OwnPods {
  readonly selector: LabelSelector;
  /** uid of the workload. */
  readonly uid: string;
  /** A Deployment owns its Pods through ReplicaSets: the revision number of the current one. */
  readonly replicaSet?: string;
  /** The label that Pods of the wanted revision have; undefined where all Pods are of one revision. */
  readonly label?: readonly [name: string, value: string];
}

const REVISION_NUMBER = "deployment.kubernetes.io/revision";
const TEMPLATE_GENERATION = "deprecated.daemonset.template.generation";
/** Matches no Pod and no ReplicaSet: the controller has not reported the current revision yet. */
const NONE = "";

/** How to find the Pods of an object; undefined for objects that create none, or that lack a selector. */
export function ownPodsOf(object: JsonObject): OwnPods | undefined {
  const selector = objectOf(object["spec"])["selector"];
  const revision = REVISIONS.get(kindOf(object));
  if (revision === undefined || !isJsonObject(selector)) return undefined;
  return { selector: selector as LabelSelector, uid: textAt(object, "metadata.uid"), ...revision(object) };
}

/** Whether objects of a kind create Pods, whose statuses say why the objects are unhealthy. */
export function makesPods(apiVersion: string, kind: string): boolean {
  return REVISIONS.has(groupKind(apiVersion, kind));
}

type Revision = Pick<OwnPods, "replicaSet" | "label">;

const REVISIONS: ReadonlyMap<string, (object: JsonObject) => Revision> = new Map<
  string,
  (object: JsonObject) => Revision
>([
  [
    "apps/Deployment",
    (object) => ({ replicaSet: observed(object, () => annotation(object, REVISION_NUMBER)) }),
  ],
  [
    "apps/StatefulSet",
    (object) => ({
      label: ["controller-revision-hash", observed(object, () => textAt(object, "status.updateRevision"))],
    }),
  ],
  [
    "apps/DaemonSet",
    // Its status does not name the current revision; its controller compares this number as well.
    (object) => ({ label: ["pod-template-generation", annotation(object, TEMPLATE_GENERATION)] }),
  ],
  ["apps/ReplicaSet", () => ({})],
  ["batch/Job", () => ({})],
]);

/** The revision that the status names. Returns NONE until the controller has observed this generation of the spec. */
function observed(object: JsonObject, revision: () => string): string {
  const isObserved = intAt(object, "status.observedGeneration", 0) >= intAt(object, "metadata.generation", 0);
  return isObserved ? revision() : NONE;
}

function annotation({ metadata }: JsonObject, name: string): string {
  return asString(objectOf(objectOf(metadata)["annotations"])[name]) ?? NONE;
}

/** The uid of the controller of an object. */
export function controllerOf({ metadata }: JsonObject): string | undefined {
  return asString(
    objectsIn(objectOf(metadata)["ownerReferences"]).find(({ controller }) => controller === true)?.["uid"],
  );
}

/** Whether a ReplicaSet belongs to a Deployment's current revision. */
export function isCurrentReplicaSet(replicaSet: JsonObject, { uid, replicaSet: number }: OwnPods): boolean {
  const own = annotation(replicaSet, REVISION_NUMBER);
  return number !== NONE && own === number && controllerOf(replicaSet) === uid;
}

/** Whether the labels of a Pod, which the workload or its current ReplicaSet owns, are those of the current revision. */
export function isOfWantedRevision(labels: JsonObject, { label }: OwnPods): boolean {
  if (label === undefined) return true;
  const [name, value] = label;
  return value !== NONE && labels[name] === value;
}
