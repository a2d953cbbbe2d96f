/**
 * Finds and describes drift: fields that helm set and others have changed (docs/guides/running.md, "Drift"). Each entry of `managedFields`
 * has a field manager and the tree of the fields that it owns; the path of a field has segments of that tree, such as `f:spec`.
 */

import { attempt, isAtOrBelow, oneLine, sameJson } from "../../base/index.ts";
import { isJsonObject, member, objectOf, objectsIn } from "../../base/model/index.ts";
import type { DriftIgnore, Json, JsonObject } from "../../base/model/index.ts";
import {
  getChild,
  describePath,
  parseEntries,
  HELM,
  findForeignEntry,
  hasField,
  isHelmEntry,
  isLeaf,
  fieldPathToPointer,
  type Entry,
  type FieldPath,
} from "./managed-fields.ts";

import type { ReplacedItems } from "./replaced-items.ts";

/** A field that differs from what helm set. */
export interface DriftedField {
  /** `spec.template.spec.containers[name="web"].image` */
  readonly field: string;
  /** The field manager that owns it now; undefined where none does. */
  readonly manager: string | undefined;
  /** Time of that manager's last write, in ms since the epoch. */
  readonly at: number | undefined;
  readonly removed: boolean;
}

export interface Comparison {
  readonly fields: readonly DriftedField[];
  /** Differences that are expected: a repair leaves them out. */
  readonly ignored: readonly FieldPath[];
  /** Items of lists in place of recorded ones, which a repair removes. */
  readonly replaced: readonly ReplacedItems[];
  /** Another manager owns a field that helm sets, so each of its later writes matters. */
  readonly isShared: boolean;
}

/** Differences that do not count as drift. */
interface CompareOptions {
  readonly ignore: readonly DriftIgnore[];
  /** An autoscaler of the cluster targets the object. */
  readonly isAutoscaled: boolean;
  /** Items of lists that others have put in place of recorded ones; `applied` lacks the recorded ones. */
  readonly replaced?: readonly ReplacedItems[];
}

/** At most this many fields of an object are compared, which bounds the time for one object. */
const MAX_FIELDS = 5000;
const MAX_NAME_LENGTH = 100;

/**
 * Compares a live object with `applied`, the result of a dry-run forced apply of the manifest that the release records. Only fields that the
 * manifest sets count. Returns the drifted fields, those whose difference is expected (`ignored`), and whether others own fields that helm
 * sets (`isShared`). A difference in a field that only helm owns is no drift: nobody else has written it, so a webhook causes the difference
 * by changing each apply in another way.
 */
export function compareObjects(
  live: JsonObject,
  applied: JsonObject,
  { ignore, isAutoscaled, replaced: allReplaced = [] }: CompareOptions,
): Comparison {
  const entries = parseEntries(live);
  const helmEntries = entries.filter(isHelmEntry);
  // After the apply, this entry has exactly the fields that the manifest sets.
  const applyEntry = parseEntries(applied).find((entry) => isHelmEntry(entry) && entry.operation === "Apply");
  const comparer = new FieldComparer();
  comparer.compareBelow(applyEntry?.fields, [applied, live], []);
  const differing = comparer.differing.map(toDifference);
  // `holder` is the other manager that owns the field. A field without any owner was removed by another manager. Helm owns members of a
  // map one by one: where its entry has only the map, the member was removed.
  const byOthers = differing.filter(
    ({ path, holder }) => holder !== undefined || !helmEntries.some(({ fields }) => hasField(fields, path)),
  );
  const ignored = byOthers.filter((each) => isExpected(each));
  const fields = byOthers.filter((each) => !ignored.includes(each)).map((each) => toDriftedField(each, live));
  const replaced = allReplaced.filter(({ path, holder }) => !isExpected({ ...toDifference(path), holder }));
  return {
    fields: [...replaced.flatMap((items) => describeReplaced(items)), ...fields],
    ignored: ignored.map(({ path }) => path),
    replaced,
    isShared: comparer.leaves.some(isOwnedByOther),
  };

  function toDifference(path: FieldPath): Difference {
    const [wanted, found] = [applied, live].map((object) => path.reduce<Json | undefined>(getChild, object));
    const pointer = fieldPathToPointer(applied, path);
    return { path, pointer, holder: findForeignEntry(entries, path), wanted, live: found };
  }

  /** Whether a difference does not count as drift. */
  function isExpected(difference: Difference): boolean {
    return (isAutoscaled && isByAutoscaler(difference)) || isIgnored(difference, applied, ignore);
  }

  /** Whether another manager owns a field, and its changes would count as drift. */
  function isOwnedByOther(path: FieldPath): boolean {
    const difference = toDifference(path);
    return difference.holder !== undefined && !isExpected(difference);
  }
}

/** Describes the recorded items that others have replaced: those of which the list lacks the keys. */
function describeReplaced({ path, holder, foreign, missing }: ReplacedItems): DriftedField[] {
  const names = Object.keys(objectOf(attempt(() => JSON.parse(foreign[0]?.slice(2) ?? "") as Json)));
  return missing.map((item) => {
    const keys = Object.fromEntries(Object.entries(item).filter(([name]) => names.includes(name)));
    const segment = `k:${JSON.stringify(keys)}`;
    const manager = oneLine(holder.manager, MAX_NAME_LENGTH);
    return { field: describePath([...path, segment]), manager, at: holder.at, removed: false };
  });
}

/** Describes a drifted field for the status: its path, and which field manager owns it now. */
function toDriftedField({ path, holder }: Difference, live: JsonObject): DriftedField {
  return {
    field: describePath(path),
    manager: holder && oneLine(holder.manager, MAX_NAME_LENGTH),
    at: holder?.at,
    removed: path.reduce<Json | undefined>(getChild, live) === undefined,
  };
}

/** The applied and the live value. */
type Pair = readonly [wanted: Json | undefined, live: Json | undefined];

/** Compares the fields that helm sets in two objects, and collects the paths of all of them and of the differing ones. */
class FieldComparer {
  readonly leaves: FieldPath[] = [];
  readonly differing: FieldPath[] = [];

  /** Compares the fields below a node of the tree of `managedFields`, and collects the paths of leaves and differences. */
  compareBelow(node: Json | undefined, [wanted, live]: Pair, path: FieldPath): void {
    if (!isJsonObject(node) || this.leaves.length >= MAX_FIELDS) return;
    // The server omits empty values, such as "" or false. A field that both objects lack is equal.
    if (wanted === undefined && live === undefined) return;
    // The segment `.` stands for the node itself.
    const segments = Object.keys(node).filter((segment) => segment !== ".");
    // A missing value counts as one difference, not as one for each field below it.
    if (live === undefined || segments.length === 0) return this.#compareLeaf(node, [wanted, live], path);
    for (const segment of segments) {
      const pair: Pair = [getChild(wanted, segment), getChild(live, segment)];
      this.compareBelow(member(node, segment), pair, [...path, segment]);
    }
  }

  /** Records a field that helm owns as a whole, and whether its values differ. */
  #compareLeaf(node: JsonObject, [wanted, live]: Pair, path: FieldPath): void {
    this.leaves.push(path);
    // Helm may own a list item without its members: its node has `.` and is no leaf. Then only the presence of the item counts.
    if (live === undefined || (isLeaf(node) && !sameJson(wanted, live))) this.differing.push(path);
  }
}

/** A field whose values differ, and the entry of the other manager that owns it. */
interface Difference {
  readonly path: FieldPath;
  readonly pointer: string;
  readonly holder: Entry | undefined;
  readonly wanted: Json | undefined;
  readonly live: Json | undefined;
}

/** The manager of hooks: their changes are intended. */
const OWN_MANAGER = "addon-operator";
/** Tools with which people scale, even if an autoscaler targets the object. */
const INTERACTIVE_TOOLS = /^(?:kubectl|k9s|lens|openlens|headlamp|mozilla|curl)/i;

/** Annotations and labels that controllers and tools overwrite, also those of GKE, OpenShift, Rancher and Istio. */
const CONTROLLER_METADATA =
  /^(?:(?:autopilot\.gke\.io|security\.openshift\.io|(?:[a-z.]+\.)?cattle\.io)\/|cloud\.google\.com\/neg-status$|ingress\.kubernetes\.io\/(?:backends|(?:https-)?(?:forwarding-rule|target-proxy)|url-map|ssl-cert|static-ip)$|openshift\.io\/sa\.scc\.|service\.(?:alpha|beta)\.openshift\.io\/serving-cert-(?:signed-by|generation-error)|sidecar\.istio\.io\/status$|ambient\.istio\.io\/redirection$|(?:deployment|deprecated\.daemonset\.template|pv|volume|volume\.beta|autoscaling\.alpha|control-plane\.alpha|endpoints)\.kubernetes\.io\/|kubectl\.kubernetes\.io\/|prometheus-operator-validated$|helm\.sh\/resource-policy$)/;

type Rule = (difference: Difference, object: JsonObject) => boolean;

/** Whether a hook of this operator has changed the field, which is intended. */
const isByOwnHooks: Rule = ({ holder }) => holder?.manager === OWN_MANAGER;

/** Whether a program has changed the number of replicas through the subresource `scale`. */
function isByAutoscaler({ holder }: Pick<Difference, "holder">): boolean {
  return holder?.subresource === "scale" && !INTERACTIVE_TOOLS.test(holder.manager);
}

/** Whether an autoscaler may have scaled an object. Only then a request to look for the autoscaler is worth its cost. */
export function mayBeAutoscaled(object: JsonObject): boolean {
  return parseEntries(object).some((holder) => isByAutoscaler({ holder }));
}

/** Whether a vertical Pod autoscaler has changed resources of a container. */
const isByVerticalAutoscaler: Rule = ({ path, holder }) =>
  holder?.manager.startsWith("vpa-") === true && path.includes("f:resources");

/** Whether the field is in the status, which belongs to controllers. */
const isInStatus: Rule = ({ path }) => path[0] === "f:status";

/** Whether the field is the certificate that a controller injects into a webhook. */
const isCaBundle: Rule = ({ path }) => path.at(-1) === "f:caBundle";

/** Whether the field is an annotation or a label that a controller overwrites. */
const isControllerMetadata: Rule = ({ path: [first, second, third = ""] }) =>
  first === "f:metadata" &&
  (second === "f:annotations" || second === "f:labels") &&
  CONTROLLER_METADATA.test(third.slice(2));

/** The program of AKS that adds its namespaces to the selectors of webhooks. */
const AKS_ENFORCER = "admissionsenforcer";

/** Whether AKS has added to the selector of a webhook, without a change of what the chart selects by. */
const isAddedByAks: Rule = ({ path, holder, wanted, live }) =>
  holder?.manager === AKS_ENFORCER &&
  ["f:namespaceSelector", "f:objectSelector"].includes(path.at(-1) ?? "") &&
  containsSelector(live, wanted);

/** Whether a label selector has all requirements of another one. */
function containsSelector(selector: Json | undefined, other: Json | undefined): boolean {
  const [labels, otherLabels] = [selector, other].map((each) => objectOf(objectOf(each)["matchLabels"]));
  const [expressions = [], otherExpressions = []] = [selector, other].map((each) =>
    objectsIn(objectOf(each)["matchExpressions"]),
  );
  return (
    Object.entries(otherLabels ?? {}).every(([key, value]) => member(labels ?? {}, key) === value) &&
    otherExpressions.every((expression) => expressions.some((each) => sameJson(each, expression)))
  );
}

/** Whether istiod has made its validating webhook strict, once it could answer. */
const isIstioFailurePolicy: Rule = ({ path, holder }, { kind }) =>
  kind === "ValidatingWebhookConfiguration" &&
  holder?.manager === "pilot-discovery" &&
  path.at(-1) === "f:failurePolicy";

/** Whether OpenShift has set the pod security labels of a namespace. */
const isSyncedByOpenShift: Rule = ({ path: [first, second, third = ""], holder }) =>
  first === "f:metadata" &&
  second === "f:labels" &&
  third.startsWith("f:pod-security.kubernetes.io/") &&
  /^(?:pod-security-admission-label-synchronization-controller|cluster-policy-controller)$/.test(
    holder?.manager ?? "",
  );

/** The field that a controller fills in, by kind. */
const FILLED_IN_PATHS: Readonly<Record<string, string>> = {
  PersistentVolumeClaim: "/spec/resources/requests",
  ServiceAccount: "/secrets",
};

/** Whether the field is one that a controller fills in, such as the size of a volume. */
const isFilledIn: Rule = ({ pointer }, { kind }) => {
  const path = typeof kind === "string" ? member(FILLED_IN_PATHS, kind) : undefined;
  return path !== undefined && isAtOrBelow(pointer, path);
};

/** Whether the field is in the rules of an aggregated ClusterRole, which its controller writes. */
const isAggregatedRule: Rule = ({ pointer }, { kind, aggregationRule }) =>
  kind === "ClusterRole" && aggregationRule !== undefined && isAtOrBelow(pointer, "/rules");

// oxfmt-ignore
const IGNORE_RULES: readonly Rule[] = [
  isByOwnHooks, isByVerticalAutoscaler, isInStatus, isCaBundle, isControllerMetadata, isFilledIn, isAggregatedRule,
  isAddedByAks, isIstioFailurePolicy, isSyncedByOpenShift,
];

/** Whether a difference is no drift, by default or by `drift.ignore` of `addon.yaml` (`targets`). */
function isIgnored(difference: Difference, object: JsonObject, targets: readonly DriftIgnore[]): boolean {
  if (IGNORE_RULES.some((rule) => rule(difference, object))) return true;
  const { name } = objectOf(object["metadata"]);
  return targets
    .filter((target) => target.kind === object["kind"] && (target.name ?? name) === name)
    .some(({ paths }) => paths.some((path) => isAtOrBelow(difference.pointer, path)));
}

/** An object whose fields differ from what helm set. */
export interface DriftedObject {
  /** `namespace/Kind/name`, or `Kind/name`. */
  readonly object: string;
  /** `Deployment kube-system/web` */
  readonly title: string;
  /** Not empty. */
  readonly fields: readonly DriftedField[];
  /** It was restored so often that restores back off. */
  readonly isRepairDelayed: boolean;
}

export interface Drift {
  /** The first drifted objects. */
  readonly objects: readonly DriftedObject[];
  /** The number of all drifted objects. */
  readonly count: number;
  /** Why the first of the objects that cannot be compared cannot: whether these have drifted is unknown. */
  readonly issue?: string | undefined;
}

export const NO_DRIFT: Drift = { objects: [], count: 0 };

/** At most this many objects are listed, and as many fields of each. */
const MAX_LISTED = 20;

/** Summarizes drifted objects for the status, which lists only the first of them. `issue`: why some could not be compared. */
export function summarizeDrift(objects: readonly DriftedObject[], issue?: string): Drift {
  if (objects.length === 0) return issue === undefined ? NO_DRIFT : { ...NO_DRIFT, issue };
  const listed = objects.slice(0, MAX_LISTED);
  return {
    objects: listed.map((each) => ({ ...each, fields: each.fields.slice(0, MAX_LISTED) })),
    count: objects.length,
    issue,
  };
}

/** For people: `kubectl-edit changed spec.replicas of Deployment kube-system/web, and 2 more objects`. */
export function describeDrift({ objects: [first], count }: Drift): string {
  if (first === undefined) return "Everything is as helm has left it";
  const others = count - 1;
  const more = others === 0 ? "" : `, and ${others} more object${others === 1 ? "" : "s"}`;
  return `${describeObject(first)}${more}`;
}

/** A sentence for people about what others have changed of a release; undefined without drift. */
export function describeChangesByOthers(drift: Drift): string | undefined {
  return drift.count === 0 ? undefined : `changed by others: ${describeDrift(drift)}`;
}

/** Describes a drifted object for people: its first field, who changed it, and the number of the other fields. */
export function describeObject({ title, fields, isRepairDelayed }: DriftedObject): string {
  const [first] = fields;
  if (first === undefined) return title;
  const others = fields.length - 1;
  const more = others === 0 ? "" : ` and ${others} more field${others === 1 ? "" : "s"}`;
  const often = isRepairDelayed ? "; it was restored many times, so restores back off" : "";
  return `${describeField(first)}${more} of ${title}${often}`;
}

/** `kubectl-edit changed spec.replicas`, `someone removed spec.replicas`. A change by helm that no run made was made by hand. */
function describeField({ field, manager, removed }: DriftedField): string {
  const verb = removed ? "removed" : "changed";
  if (manager === undefined) return `someone ${verb} ${field}`;
  return `${manager === HELM ? "helm, by hand," : manager} ${verb} ${field}`;
}
