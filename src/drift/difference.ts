/** What others have changed of what helm set, which of it is drift, and its words (docs/RUNNING.md, "Drift"). */

import { isAtOrBelow, oneLine, sameJson } from "../lib/index.ts";
import { isJsonObject, member, objectOf } from "../model/index.ts";
import type { DriftIgnore, Json, JsonObject } from "../model/index.ts";
import {
  childAt,
  describePath,
  entriesOf,
  HELM,
  holderOf,
  holds,
  isHelms,
  isLeaf,
  pointerTo,
  type Entry,
  type FieldPath,
} from "./managed-fields.ts";

/** A field that is not as helm has set it. */
export interface DriftedField {
  /** `spec.template.spec.containers[name="web"].image` */
  readonly field: string;
  /** The field manager that holds it now; undefined where nobody does. */
  readonly manager: string | undefined;
  /** When, in ms since the epoch. */
  readonly at: number | undefined;
  readonly removed: boolean;
}

/** What a look at an object finds. */
export interface Comparison {
  readonly fields: readonly DriftedField[];
  /** What differs and is to stay so: a repair leaves it out. */
  readonly ignored: readonly FieldPath[];
  /** Somebody else holds a field that helm sets: each further write of theirs matters. */
  readonly isShared: boolean;
}

/** What counts as no drift of an object. */
interface CompareTerms {
  readonly ignore: readonly DriftIgnore[];
  /** An autoscaler of the cluster targets the object. */
  readonly isAutoscaled: boolean;
}

/** Most fields of an object that are compared. */
const MOST_FIELDS = 5000;
const LONGEST_NAME = 100;

/**
 * Compares an object as it is with what the API server makes of a forced apply of what the release's record says of it.
 * Only what the record sets counts; and a difference where helm alone holds the field is made by nobody: a webhook changes
 * each apply in another way.
 */
export function compare(
  live: JsonObject,
  applied: JsonObject,
  { ignore, isAutoscaled }: CompareTerms,
): Comparison {
  const entries = entriesOf(live);
  const own = entries.filter(isHelms);
  const set = entriesOf(applied).find((entry) => isHelms(entry) && entry.operation === "Apply");
  const walk = new Walk();
  walk.step(set?.fields, [applied, live], []);
  const differing = walk.differing.map((path) => ({
    path,
    pointer: pointerTo(applied, path),
    holder: holderOf(entries, path),
  }));
  const lost = differing.filter(
    ({ path, holder }) => holder !== undefined || !own.some(({ fields }) => holds(fields, path)),
  );
  const ignored = lost.filter((each) => isExpected(each));
  const fields = lost
    .filter((each) => !ignored.includes(each))
    .map(({ path, holder }) => fieldOf(path, holder, valueAt(live, path)));
  return { fields, ignored: ignored.map(({ path }) => path), isShared: walk.leaves.some(isHeld) };

  function isExpected(difference: Difference): boolean {
    return (isAutoscaled && byAutoscaler(difference)) || isIgnored(difference, applied, ignore);
  }

  function isHeld(path: FieldPath): boolean {
    const holder = holderOf(entries, path);
    return holder !== undefined && !isExpected({ path, pointer: pointerTo(applied, path), holder });
  }
}

function fieldOf(path: FieldPath, holder: Entry | undefined, value: Json | undefined): DriftedField {
  return {
    field: describePath(path),
    manager: holder && oneLine(holder.manager, LONGEST_NAME),
    at: holder?.at,
    removed: value === undefined,
  };
}

function valueAt(object: JsonObject, path: FieldPath): Json | undefined {
  return path.reduce<Json | undefined>(childAt, object);
}

/** What was applied, and what is there. */
type Pair = readonly [wanted: Json | undefined, live: Json | undefined];

/** Goes through the fields that were applied, in both objects. */
class Walk {
  readonly leaves: FieldPath[] = [];
  readonly differing: FieldPath[] = [];

  step(node: Json | undefined, [wanted, live]: Pair, path: FieldPath): void {
    if (!isJsonObject(node) || this.leaves.length >= MOST_FIELDS) return;
    // The server leaves out what is set to nothing, such as "" or false: then there is to be none.
    if (wanted === undefined && live === undefined) return;
    const segments = Object.keys(node).filter((segment) => segment !== ".");
    if (live === undefined || segments.length === 0) return this.#end(node, [wanted, live], path);
    for (const segment of segments)
      this.step(
        member(node, segment),
        [childAt(wanted, segment), childAt(live, segment)],
        [...path, segment],
      );
  }

  #end(node: JsonObject, [wanted, live]: Pair, path: FieldPath): void {
    this.leaves.push(path);
    // Of an item that is held without its members only its presence counts.
    if (live === undefined || (isLeaf(node) && !sameJson(wanted, live))) this.differing.push(path);
  }
}

/** A difference, as far as it matters here. */
interface Difference {
  readonly path: FieldPath;
  readonly pointer: string;
  readonly holder: Entry | undefined;
}

/** This operator's own hooks change objects of their module as they mean to. */
const OWN_MANAGER = "addon-operator";
/** With these, people scale, also what an autoscaler targets. */
const PEOPLE = /^(?:kubectl|k9s|lens|openlens|headlamp|mozilla|curl)/i;

/** Annotations and labels that controllers write, whatever a chart says. */
const CONTROLLERS =
  /^(?:(?:deployment|deprecated\.daemonset\.template|pv|volume|volume\.beta|autoscaling\.alpha|control-plane\.alpha|endpoints)\.kubernetes\.io\/|kubectl\.kubernetes\.io\/|prometheus-operator-validated$|helm\.sh\/resource-policy$)/;

type Rule = (difference: Difference, object: JsonObject) => boolean;

const byOwnHooks: Rule = ({ holder }) => holder?.manager === OWN_MANAGER;

function byAutoscaler({ holder }: Pick<Difference, "holder">): boolean {
  return holder?.subresource === "scale" && !PEOPLE.test(holder.manager);
}

/** Whether something that may be an autoscaler has scaled an object. */
export function maybeAutoscaled(object: JsonObject): boolean {
  return entriesOf(object).some((holder) => byAutoscaler({ holder }));
}

const byVerticalAutoscaler: Rule = ({ path, holder }) =>
  holder?.manager.startsWith("vpa-") === true && path.includes("f:resources");

const status: Rule = ({ path }) => path[0] === "f:status";

const caBundle: Rule = ({ path }) => path.at(-1) === "f:caBundle";

const ofControllers: Rule = ({ path: [first, second, third = ""] }) =>
  first === "f:metadata" &&
  (second === "f:annotations" || second === "f:labels") &&
  CONTROLLERS.test(third.slice(2));

/** What a controller fills in, by kind. */
const FILLED_IN: Readonly<Record<string, string>> = {
  PersistentVolumeClaim: "/spec/resources/requests",
  ServiceAccount: "/secrets",
};

const filledIn: Rule = ({ pointer }, { kind }) => {
  const place = typeof kind === "string" ? member(FILLED_IN, kind) : undefined;
  return place !== undefined && isAtOrBelow(pointer, place);
};

const aggregated: Rule = ({ pointer }, { kind, aggregationRule }) =>
  kind === "ClusterRole" && aggregationRule !== undefined && isAtOrBelow(pointer, "/rules");

// oxfmt-ignore
const RULES: readonly Rule[] = [
  byOwnHooks, byVerticalAutoscaler, status, caBundle, ofControllers, filledIn, aggregated,
];

/** Whether a difference is no drift: by default, or because `addon.yaml` says so. */
function isIgnored(difference: Difference, object: JsonObject, targets: readonly DriftIgnore[]): boolean {
  if (RULES.some((rule) => rule(difference, object))) return true;
  const { name } = objectOf(object["metadata"]);
  return targets
    .filter((target) => target.kind === object["kind"] && (target.name ?? name) === name)
    .some(({ paths }) => paths.some((path) => isAtOrBelow(difference.pointer, path)));
}

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
