/** What is told of the drift of a release. */

import { HELM } from "./managed-fields.ts";
import type { DriftedField } from "./difference.ts";

/** An object whose fields are not as helm has set them. */
export interface DriftedObject {
  /** `namespace/Kind/name`, or `Kind/name`. */
  readonly object: string;
  /** `Deployment kube-system/web` */
  readonly title: string;
  /** Not empty. */
  readonly fields: readonly DriftedField[];
  /** It was put back so often that this now happens less and less often. */
  readonly isContested: boolean;
}

/** The drift of a release: the objects that are listed, and how many there are. */
export interface Drift {
  readonly objects: readonly DriftedObject[];
  readonly count: number;
  /** Why the first object cannot be compared of those that cannot: whether it has drifted is not known. */
  readonly trouble?: string | undefined;
}

/** A release as helm has left it. */
export const NO_DRIFT: Drift = { objects: [], count: 0 };

/** Most objects that are listed, and most fields of each. */
const MOST = 20;

/** What is told of these. */
export function driftOf(objects: readonly DriftedObject[], trouble?: string): Drift {
  if (objects.length === 0) return trouble === undefined ? NO_DRIFT : { ...NO_DRIFT, trouble };
  const listed = objects.slice(0, MOST);
  return {
    objects: listed.map((each) => ({ ...each, fields: each.fields.slice(0, MOST) })),
    count: objects.length,
    trouble,
  };
}

/** For people: `kubectl-edit changed spec.replicas of Deployment kube-system/web, and 2 more objects`. */
export function describeDrift({ objects: [first], count }: Drift): string {
  if (first === undefined) return "Everything is as helm has left it";
  const more = count === 1 ? "" : `, and ${count - 1} more object${count === 2 ? "" : "s"}`;
  return `${describeObject(first)}${more}`;
}

/** What others have changed, for people; undefined where nothing is. */
export function changedByOthers(drift: Drift): string | undefined {
  return drift.count === 0 ? undefined : `changed by others: ${describeDrift(drift)}`;
}

/** One object in words. */
export function describeObject({ title, fields, isContested }: DriftedObject): string {
  const [first] = fields;
  if (first === undefined) return title;
  const more =
    fields.length === 1 ? "" : ` and ${fields.length - 1} more field${fields.length === 2 ? "" : "s"}`;
  const often = isContested ? "; it was put back many times, and is now less and less often" : "";
  return `${describeField(first)}${more} of ${title}${often}`;
}

/** `kubectl-edit changed spec.replicas`, `spec.replicas was removed` */
function describeField({ field, manager, removed }: DriftedField): string {
  const verb = removed ? "removed" : "changed";
  if (manager === undefined) return `somebody ${verb} ${field}`;
  return `${manager === HELM ? "helm, by hand," : manager} ${verb} ${field}`;
}
