/** The cached form of an AddonModule, AddonOperator or ModuleSource on the server. */

import type { NamedMeta, OwnerReference } from "../../kube/index.ts";
import { digestJson } from "../../base/index.ts";
import { type JsonObject, objectsIn, asString } from "../../base/model/index.ts";
import type { AddonObject, Condition } from "../models/kinds.ts";

/** The cached part of an object on the server. */
export interface StoredAddonObject {
  readonly uid: string;
  readonly generation: number;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: NamedMeta["annotations"];
  readonly ownerUid: string | undefined;
  /** Owner references that others have set. */
  readonly otherOwners: readonly OwnerReference[];
  /** It is being deleted, and finalizers keep it. */
  readonly isTerminating: boolean;
  readonly spec: JsonObject | undefined;
  readonly status: JsonObject | undefined;
  /** Digest of the status as the server stored it, which may be less than what was sent. */
  readonly statusDigest: string;
}

/** Reduces an object from an API call or a watch to the part that is cached. */
export function toStoredAddonObject(object: AddonObject): StoredAddonObject {
  const { metadata } = object;
  const { ownerReferences = [] } = metadata;
  const status = object.status as unknown as JsonObject | undefined;
  return {
    uid: metadata.uid ?? "",
    generation: metadata.generation ?? 1,
    resourceVersion: metadata.resourceVersion ?? "",
    labels: metadata.labels ?? {},
    annotations: metadata.annotations,
    ownerUid: ownerReferences.find(isOperator)?.uid,
    otherOwners: ownerReferences.filter((owner) => !isOperator(owner)),
    isTerminating: metadata.deletionTimestamp !== undefined,
    spec: object.spec as JsonObject | undefined,
    status,
    statusDigest: digestJson(status),
  };
}

function isOperator({ kind }: OwnerReference): boolean {
  return kind === "AddonOperator";
}

/**
 * As {@link toStoredAddonObject}, for an object that may be cached already. The server drops fields of a status that its CRD does not
 * know. If the stored status is unchanged since the last write, the result keeps the status as it was sent: else the operator
 * would write the dropped fields again.
 */
export function updateStoredObject(
  before: StoredAddonObject | undefined,
  object: AddonObject,
): StoredAddonObject {
  const current = toStoredAddonObject(object);
  if (before?.uid !== current.uid || before.statusDigest !== current.statusDigest) return current;
  return { ...current, status: before.status };
}

/**
 * The status with `observedGeneration`, also in each condition. A condition that has the same status on the server keeps the
 * transition time of the server, which a restarted operator does not know.
 */
export function withGeneration(
  status: { readonly conditions: readonly Condition[] },
  generation: number,
  liveStatus?: JsonObject,
): JsonObject {
  const liveConditions = objectsIn(liveStatus?.["conditions"]);
  return {
    ...status,
    observedGeneration: generation,
    conditions: status.conditions.map((condition) => {
      const before = liveConditions.find(({ type }) => type === condition.type);
      const since =
        before?.["status"] === condition.status ? asString(before["lastTransitionTime"]) : undefined;
      const lastTransitionTime = since ?? condition.lastTransitionTime;
      return { ...condition, lastTransitionTime, observedGeneration: generation };
    }),
  };
}
