/**
 * Existing objects that a chart contains: which release owns them by helm's annotations, and which of them a release adopts
 * (docs/guides/running.md, "Taking over"). helm refuses to install or upgrade over an object that is not annotated with its release.
 */

import { annotateCommand, findMissingPermissions, getMetadata, isNotFound } from "../../kube/index.ts";
import { MANAGED_BY_OPERATOR, mergePatch, type Target, type WatchedObject } from "../../kube/index.ts";
import { confirmationToken, mapInParallel, oneLine } from "../../lib/index.ts";
import { objectOf, type Question } from "../../model/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { UpgradeOptions } from "../binary/helm.ts";
import type { ReleaseCheckTools, Reconciler, ReconcileRequest, Reconciliation } from "../types.ts";
import { helmMetadata, readOwner, type Owner } from "./live-objects.ts";
import {
  parseDocuments,
  parseHookEvents,
  namespacedKey,
  resourceName,
  listObjectRefs,
  type ObjectRef,
} from "../manifest/manifest.ts";
import { renderManifestsFromCopy } from "../rendering.ts";

/** Annotation with which helm does not delete an object. helm looks for it in manifests and, in upgrades, on live objects. */
export const RESOURCE_POLICY = "helm.sh/resource-policy";
export const KEEP = "keep";

/** Annotation of the AddonModule that confirms the adoption of existing objects once, by their token. */
export const CONFIRM_TAKEOVER = "addon-operator.io/confirm-takeover";

export const MAX_PARALLEL_REQUESTS = 8;
export const MAX_LOGGED_OBJECTS = 20;
/** Limits the names in a message, so that the remedy after them is not cut off. */
const MAX_NAMES_LENGTH = 200;

/** Part of helm's message where an object exists already and its annotations do not name this release. */
const EXISTING_OBJECT = "cannot be imported into the current release";

/** Whether helm refused to install or upgrade because an object exists already that does not belong to the release. */
export function isExistingObjectError(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(EXISTING_OBJECT);
}

/** A release does not own these existing objects and may neither adopt nor replace them. */
export class ExistingObjectsError extends Error {
  /** What a user may confirm, so that the release may have them. */
  readonly question: Question;

  /** `what` begins the message, such as "the chart contains". */
  constructor(
    what: string,
    objects: readonly string[],
    { remedy, question }: { remedy: string; question: Question },
  ) {
    super(`${what} existing objects that this release does not own: ${joinNames(objects)}; ${remedy}`);
    this.name = "ExistingObjectsError";
    this.question = question;
  }
}

/** Joins the first names, as many as fit into a message but at least one, and adds the number of the others. */
function joinNames([first = "", ...others]: readonly string[]): string {
  let text = first;
  for (const [index, each] of others.entries()) {
    if (text.length + each.length > MAX_NAMES_LENGTH) return `${text} and ${others.length - index} more`;
    text = `${text}, ${each}`;
  }
  return text;
}

export interface LiveObject {
  readonly ref: ObjectRef;
  readonly target: Target;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: Owner | undefined;
  readonly finalizers: readonly string[];
  readonly isTerminating: boolean;
}

/** Reads the metadata of an object, to find out which release owns it; undefined where it does not exist. Throws an Error that names the object. */
export async function readLiveObject(
  { client, discovery, namespace }: ReleaseCheckTools,
  ref: ObjectRef,
  signal: AbortSignal | undefined,
): Promise<LiveObject | undefined> {
  try {
    const resource = await discovery.resolve(ref.kind, ref.apiVersion);
    // Objects of a kind without `get`, such as SubjectAccessReview, are not stored.
    if (resource?.verbs.includes("get") !== true) return undefined;
    const target = { resource, namespace: ref.namespace ?? namespace, name: ref.name };
    const { metadata } = await getMetadata<WatchedObject>(client, target, { signal });
    const labels = objectOf(metadata["labels"]) as Record<string, string>;
    const annotations = objectOf(metadata["annotations"]) as Record<string, string>;
    const owner = readOwner(annotations, namespace);
    const { uid = "", resourceVersion = "" } = metadata;
    const finalizers = metadata["finalizers"];
    return {
      ref,
      target,
      uid,
      resourceVersion,
      labels,
      annotations,
      owner,
      finalizers: Array.isArray(finalizers) ? finalizers.map(String) : [],
      isTerminating: metadata["deletionTimestamp"] !== undefined,
    };
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error)) return undefined;
    throw new Error(`cannot determine the owner of ${resourceName(ref)}: ${oneLine(error)}`, {
      cause: error,
    });
  }
}

/** A release that adopts objects, with the confirmation of a user. */
export type TakeoverRequest = Pick<ReconcileRequest, "confirmedTakeover"> & {
  readonly module: Pick<ReconcileRequest["module"], "name" | "helm">;
};

interface ClaimOptions {
  readonly release: string;
  /** Annotates the object with the resource policy `keep`, so that it outlives the release. */
  readonly keep?: boolean;
  readonly signal: AbortSignal | undefined;
}

/**
 * Marks an object as owned by a release, with the labels and annotations that helm requires before it changes an existing
 * object. With `keep`, helm does not delete it with the release. Throws ApiError if an object with another uid has replaced it.
 */
export async function claimObject(
  tools: ReleaseCheckTools,
  object: LiveObject,
  how: ClaimOptions,
): Promise<void> {
  const { labels, annotations } = helmMetadata(how.release, tools.namespace);
  const keep = how.keep === true ? { [RESOURCE_POLICY]: KEEP } : {};
  const metadata = { uid: object.uid, labels, annotations: { ...annotations, ...keep } };
  await mergePatch(tools.client, object.target, { body: { metadata }, signal: how.signal });
}

/** Whether an object has the policy `keep`, with which helm does not delete it. */
export function hasKeepPolicy({ annotations }: LiveObject): boolean {
  return annotations[RESOURCE_POLICY]?.trim() === KEEP;
}

/** Whether an object has the label and the annotations by which helm recognizes an object of a release. */
export function isMarked({ labels, annotations }: LiveObject, { release, namespace }: Owner): boolean {
  const marks = helmMetadata(release, namespace);
  const has = (found: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>): boolean =>
    Object.entries(wanted).every(([key, value]) => found[key] === value);
  return has(labels, marks.labels) && has(annotations, marks.annotations);
}

/**
 * Whether a module has the permission to change an object: without it, the object must not be handed over to the module's release. Always
 * true of a module without a ServiceAccount of its own, and of an object that does not exist. Throws ApiError, ConnectionError.
 */
export async function mayChangeObject(
  { getIdentity, logger }: Pick<Reconciler, "getIdentity" | "logger">,
  module: string,
  live: LiveObject | undefined,
): Promise<boolean> {
  const { client, hasServiceAccount } = getIdentity(module);
  if (!hasServiceAccount || live === undefined) return true;
  const { resource, namespace = "", name = "" } = live.target;
  const { group, plural, namespaced } = resource;
  const permission = { verb: "patch", group, resource: plural, namespace: namespaced ? namespace : "", name };
  if ((await findMissingPermissions(client, [permission])).length === 0) return true;
  logger.warn("The chart of a module has an object that its account may not change", {
    module,
    object: resourceName(live.ref),
  });
  return false;
}

/**
 * Call it after helm has refused existing objects with the error `refusal`: annotates them, so that helm accepts them in another try.
 * Objects of other releases of this operator need no consent, because a template moved or a module was renamed. All others need
 * `helm.takeOwnership` or a user's confirmation, and are retained when the module is removed. `recorded` are the objects that the
 * release has already. Throws ExistingObjectsError, with nothing changed; `refusal` if no such object is found; ApiError.
 */
export async function adoptExistingObjects(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  { recorded, refusal }: { readonly recorded: readonly ObjectRef[]; readonly refusal: HelmError },
): Promise<void> {
  const { tools, request } = reconciliation;
  const { module, signal } = request;
  const existing = await findUnownedObjects(reconciliation, options, recorded);
  if (existing.length === 0) throw refusal;
  const own = existing.filter((object) => isNamespaceOfModule(tools, object));
  const needingConsent = existing.filter(
    (object) =>
      !own.includes(object) &&
      (object.owner === undefined || !isYieldingOwner(tools, module.name, object.owner)),
  );
  requireTakeoverConsent(tools, request, { what: "the chart contains", objects: needingConsent });
  const keeps = (object: LiveObject): boolean => needingConsent.includes(object) || own.includes(object);
  for (const object of existing)
    await claimObject(tools, object, { release: module.name, keep: keeps(object), signal });
  reportTakeover(reconciliation, existing, needingConsent);
}

/** Whether an object is the namespace that the operator has created for the module, because its release must be stored there. */
function isNamespaceOfModule(
  { namespace, operator }: Reconciler,
  { ref, owner, labels }: LiveObject,
): boolean {
  const isNamespace = ref.kind === "Namespace" && ref.apiVersion === "v1" && ref.name === namespace;
  if (!isNamespace || namespace === operator.namespace || owner !== undefined) return false;
  return Object.entries(MANAGED_BY_OPERATOR).every(([key, value]) => labels[key] === value);
}

/**
 * Whether the owner of an object lets the release `adopter` have it: it is that release, or another one of this operator, because a
 * template moved or a module was renamed. A release that is protected, suspended or blocked keeps its objects.
 */
function isYieldingOwner(tools: Reconciler, adopter: string, { release, namespace }: Owner): boolean {
  if (release === adopter) return namespace === tools.namespace;
  const { isOurs, keepsObjects, store } = tools;
  return namespace === store.namespaceOf(release) && isOurs(release) && !keepsObjects(release);
}

/**
 * Finds the objects of the chart that helm refuses: they exist, the release does not record them, and they lack its metadata. Renders the
 * chart, because helm's error names only one of them.
 */
async function findUnownedObjects(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  recorded: readonly ObjectRef[],
): Promise<LiveObject[]> {
  const { tools, request } = reconciliation;
  const recordedKeys = new Set(recorded.map((each) => namespacedKey(tools.namespace, each)));
  const documents = (await renderManifestsFromCopy(reconciliation, options)).flatMap(parseDocuments);
  // helm replaces existing objects of hooks without a question.
  const withoutHooks = documents.filter((document) => parseHookEvents(document) === undefined);
  const isNew = (ref: ObjectRef): boolean => !recordedKeys.has(namespacedKey(tools.namespace, ref));
  const refs = listObjectRefs(withoutHooks).filter(isNew);
  const marks = helmMetadata(request.module.name, tools.namespace);
  return (await readLiveObjects(tools, refs, request.signal)).filter((each) => !hasHelmMetadata(each, marks));
}

/** Reads the metadata of several objects with a few parallel requests; missing objects are left out. */
export async function readLiveObjects(
  tools: ReleaseCheckTools,
  refs: readonly ObjectRef[],
  signal: AbortSignal | undefined,
): Promise<LiveObject[]> {
  const found = await mapInParallel(MAX_PARALLEL_REQUESTS, refs, (ref) => readLiveObject(tools, ref, signal));
  return found.filter((each) => each !== undefined);
}

/** Whether an object has all labels and annotations that helm expects. */
function hasHelmMetadata(
  { labels, annotations }: LiveObject,
  marks: ReturnType<typeof helmMetadata>,
): boolean {
  const includesAll = (present: Readonly<Record<string, string>>, expected: object): boolean =>
    Object.entries(expected).every(([key, value]) => present[key] === value);
  return includesAll(labels, marks.labels) && includesAll(annotations, marks.annotations);
}

/** An attempt to adopt or replace objects of others; `what` begins the error message. */
interface TakeoverAttempt {
  readonly what: string;
  readonly objects: readonly LiveObject[];
}

/**
 * Throws ExistingObjectsError with a question for the user, unless the list is empty, `helm.takeOwnership` is set, or the user
 * has confirmed exactly these objects by their token.
 */
export function requireTakeoverConsent(
  { logger, operator }: Pick<Reconciler, "logger" | "operator">,
  { module, confirmedTakeover: confirmed = "" }: TakeoverRequest,
  { what, objects }: TakeoverAttempt,
): void {
  const token = computeTakeoverToken(objects);
  if (objects.length === 0 || module.helm?.takeOwnership === true || confirmed === token) return;
  const named = objects.map(describeWithOwner);
  const firstNamed = named.slice(0, MAX_LOGGED_OBJECTS);
  logger.warn("Existing objects are not adopted", { module: module.name, objects: firstNamed });
  // The user has confirmed other objects, or an object has changed since.
  const stale = confirmed === "" ? "" : `; ${oneLine(confirmed, 20)} does not confirm this`;
  const annotations = { [CONFIRM_TAKEOVER]: token };
  const command = annotateCommand(`addonmodule/${module.name}`, operator.namespace, annotations);
  const remedy = `remove them from chart or cluster, or take them over: helm.takeOwnership in addon.yaml, or once: ${command}${stale}`;
  const question = { annotation: CONFIRM_TAKEOVER, token, command };
  throw new ExistingObjectsError(what, named, { remedy, question });
}

/**
 * Computes a token for exactly these objects, their owners and versions, by which a user confirms their adoption. Each write to
 * one of them, such as the adoption itself, makes the token stale.
 */
function computeTakeoverToken(objects: readonly LiveObject[]): string {
  const parts = objects.map(
    ({ ref, uid, resourceVersion, owner }) =>
      `${uid} ${resourceVersion} ${resourceName(ref)} ${owner?.namespace}/${owner?.release}`,
  );
  return confirmationToken(...parts.sort());
}

/** For people: the object, and the release that owns it. */
export function describeWithOwner({ ref, owner }: LiveObject): string {
  return `${resourceName(ref)} of ${owner === undefined ? "no release" : `${owner.namespace}/${owner.release}`}`;
}

/** Logs and counts the objects that get another owner. `foreign` are those that needed consent. */
function reportTakeover(
  { tools, request }: Reconciliation,
  existing: readonly LiveObject[],
  foreign: readonly LiveObject[],
): void {
  const { name } = request.module;
  const { logger, recorder } = tools;
  // Without objects that belong to this release already, and only lacked a label of helm.
  const adopted = existing.filter(
    ({ owner }) => owner?.release !== name || owner.namespace !== tools.namespace,
  );
  if (adopted.length === 0) return;
  const objects = adopted.map(describeWithOwner).slice(0, MAX_LOGGED_OBJECTS);
  const message =
    foreign.length > 0
      ? "Existing objects are adopted, and retained when the module is removed"
      : "Objects of other releases are adopted";
  logger.warn(message, { module: name, objects });
  recorder?.tookOver(name, objects);
}
