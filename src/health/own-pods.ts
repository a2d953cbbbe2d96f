/** Which Pods are a workload's own, and which of them are of the revision that its spec asks for. */

import {
  isJsonObject,
  objectOf,
  objectsIn,
  textOf,
  type JsonObject,
  type LabelSelector,
} from "../model/index.ts";
import { kindOf } from "./judge.ts";
import { intAt, textAt } from "./rule.ts";

/**
 * How a workload's Pods are recognized. Selectors of workloads may overlap, so the owner decides; and while a rollout is
 * under way, Pods of the revision before say nothing about the one that is wanted.
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
/** Of no Pod and no ReplicaSet: its controller has not said yet which revision is wanted. */
const NONE = "";

/** Undefined for objects that make no Pods, and before the server has seen them. */
export function ownPodsOf(object: JsonObject): OwnPods | undefined {
  const selector = objectOf(object["spec"])["selector"];
  const revision = REVISIONS.get(kindOf(object));
  if (revision === undefined || !isJsonObject(selector)) return undefined;
  return { selector: selector as LabelSelector, uid: textAt(object, "metadata.uid"), ...revision(object) };
}

/** Whether objects of that kind make Pods, which say why they are not healthy; `key` as `groupKind` has it. */
export function isWorkload(key: string): boolean {
  return REVISIONS.has(key);
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
    // Its status does not name the wanted revision; its controller compares this number, too.
    (object) => ({ label: ["pod-template-generation", annotation(object, TEMPLATE_GENERATION)] }),
  ],
  ["apps/ReplicaSet", () => ({})],
  ["batch/Job", () => ({})],
]);

/** What the controller says of this generation of the spec. */
function observed(object: JsonObject, revision: () => string): string {
  const isSeen = intAt(object, "status.observedGeneration", 0) >= intAt(object, "metadata.generation", 0);
  return isSeen ? revision() : NONE;
}

function annotation({ metadata }: JsonObject, name: string): string {
  return textOf(objectOf(objectOf(metadata)["annotations"])[name]) ?? NONE;
}

/** The uid of the controller of an object. */
export function controllerOf({ metadata }: JsonObject): string | undefined {
  return textOf(
    objectsIn(objectOf(metadata)["ownerReferences"]).find(({ controller }) => controller === true)?.["uid"],
  );
}

/** Whether a ReplicaSet is the one that a Deployment's current revision runs in. */
export function isCurrentReplicaSet(replicaSet: JsonObject, { uid, replicaSet: number }: OwnPods): boolean {
  const own = annotation(replicaSet, REVISION_NUMBER);
  return number !== NONE && own === number && controllerOf(replicaSet) === uid;
}

/** Whether a Pod with these labels is of the wanted revision, where its owner is the workload or its current ReplicaSet. */
export function isOfWantedRevision(labels: JsonObject, { label }: OwnPods): boolean {
  if (label === undefined) return true;
  const [name, value] = label;
  return value !== NONE && labels[name] === value;
}
