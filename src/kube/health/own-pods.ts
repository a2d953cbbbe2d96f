/**
 * Which Pods belong to a workload, and which of them to the revision of its current spec. A Deployment owns its Pods through ReplicaSets,
 * which have the number of a revision; Pods of a StatefulSet or a DaemonSet have a label with their revision.
 */

import {
  isJsonObject,
  objectOf,
  objectsIn,
  asString,
  type JsonObject,
  type LabelSelector,
} from "../../base/model/index.ts";
import { groupKind, groupKindOf } from "./assess.ts";
import { isObserved, readTextField } from "./rule.ts";

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
const NO_REVISION = "";

/** Describes how to find the Pods of a workload; undefined for objects that create none, or that lack a selector. */
export function describeOwnPods(object: JsonObject): OwnPods | undefined {
  const selector = objectOf(object["spec"])["selector"];
  const readRevision = REVISION_READERS.get(groupKindOf(object));
  if (readRevision === undefined || !isJsonObject(selector)) return undefined;
  const uid = readTextField(object, "metadata.uid");
  return {
    selector: selector as LabelSelector,
    uid,
    ...readRevision(object),
  };
}

/** Whether objects of a kind create Pods, whose statuses say why the objects are unhealthy. */
export function makesPods(apiVersion: string, kind: string): boolean {
  return REVISION_READERS.has(groupKind(apiVersion, kind));
}

type RevisionReader = (object: JsonObject) => Pick<OwnPods, "replicaSet" | "label">;

/** How to read the current revision of a workload, by kind. Pods of a ReplicaSet or a Job are all of one revision. */
const REVISION_READERS: ReadonlyMap<string, RevisionReader> = new Map<string, RevisionReader>([
  [
    "apps/Deployment",
    (object) => ({ replicaSet: revisionIfObserved(object, readAnnotation(object, REVISION_NUMBER)) }),
  ],
  [
    "apps/StatefulSet",
    (object) => {
      const revision = revisionIfObserved(object, readTextField(object, "status.updateRevision"));
      return { label: ["controller-revision-hash", revision] };
    },
  ],
  [
    "apps/DaemonSet",
    // Its status does not name the current revision; its controller compares this number as well.
    (object) => ({ label: ["pod-template-generation", readAnnotation(object, TEMPLATE_GENERATION)] }),
  ],
  ["apps/ReplicaSet", () => ({})],
  ["batch/Job", () => ({})],
]);

/**
 * The current revision of a workload: `revision`, which the object names. NO_REVISION until the controller has observed this generation of
 * the spec, because until then the object names the previous revision.
 */
function revisionIfObserved(object: JsonObject, revision: string): string {
  return isObserved(object) ? revision : NO_REVISION;
}

/** The value of an annotation; NO_REVISION without it. */
function readAnnotation({ metadata }: JsonObject, name: string): string {
  return asString(objectOf(objectOf(metadata)["annotations"])[name]) ?? NO_REVISION;
}

/** The uid of the controller of an object. */
export function controllerUidOf({ metadata }: JsonObject): string | undefined {
  const owners = objectsIn(objectOf(metadata)["ownerReferences"]);
  return asString(owners.find(({ controller }) => controller === true)?.["uid"]);
}

/** Whether a ReplicaSet belongs to a Deployment's current revision. `wanted` describes the Pods of the Deployment. */
export function isCurrentReplicaSet(replicaSet: JsonObject, wanted: OwnPods): boolean {
  const revision = readAnnotation(replicaSet, REVISION_NUMBER);
  if (revision === NO_REVISION || revision !== wanted.replicaSet) return false;
  return controllerUidOf(replicaSet) === wanted.uid;
}

/** Whether the labels of a Pod, which the workload or its current ReplicaSet owns, are those of the current revision. */
export function isOfWantedRevision(labels: JsonObject, { label }: OwnPods): boolean {
  if (label === undefined) return true;
  const [name, value] = label;
  return value !== NO_REVISION && labels[name] === value;
}
