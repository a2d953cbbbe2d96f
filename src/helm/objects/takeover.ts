/**
 * Existing objects that a chart contains, and which of them a release adopts (docs/guides/running.md, "Taking over"). helm refuses to
 * install or upgrade over an object that is not annotated with its release.
 */

import { annotateCommand, MANAGED_BY_OPERATOR } from "../../kube/index.ts";
import { confirmationToken, oneLine } from "../../base/index.ts";
import type { Question } from "../../base/model/index.ts";
import type { HelmError } from "../binary/helm-errors.ts";
import { namespacedKey, resourceName, type ManifestContent, type ObjectRef } from "../manifest/manifest.ts";
import type { Reconciler, ReconcileRequest, Reconciliation } from "../types.ts";
import { claimObject, isMarked, isSameOwner, readLiveObjects } from "./live-objects.ts";
import type { LiveObject, Owner } from "./live-objects.ts";

/** Annotation of the AddonModule that confirms the adoption of existing objects once, by their token. */
export const CONFIRM_TAKEOVER = "addon-operator.io/confirm-takeover";

export const MAX_LOGGED_OBJECTS = 20;
/** Limits the names in a message, so that the remedy after them is not cut off. */
const MAX_NAMES_LENGTH = 200;

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

/** A release that adopts objects, with the confirmation of a user. */
export type TakeoverRequest = Pick<ReconcileRequest, "confirmedTakeover"> & {
  readonly module: Pick<ReconcileRequest["module"], "name" | "helm">;
};

/**
 * Call it after helm has refused existing objects with the error `refusal`: annotates them, so that helm accepts them in another try.
 * Objects of other releases of this operator need no consent, because a template moved or a module was renamed. All others need
 * `helm.takeOwnership` or a user's confirmation, and are retained when the module is removed. `content` is what the chart renders,
 * because helm's error names only one object; `recorded` are the objects that the release has already. Throws ExistingObjectsError, with nothing changed; `refusal` if no such object is found; ApiError.
 */
export async function adoptExistingObjects(
  reconciliation: Reconciliation,
  content: ManifestContent,
  { recorded, refusal }: { readonly recorded: readonly ObjectRef[]; readonly refusal: HelmError },
): Promise<void> {
  const { tools, request } = reconciliation;
  const { module, signal } = request;
  const existing = await findUnownedObjects(reconciliation, content, recorded);
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
  // Without objects that belong to this release already, and only lacked a label of helm.
  const self = { release: module.name, namespace: tools.namespace };
  const adopted = existing.filter(({ owner }) => !isSameOwner(owner, self));
  const message =
    needingConsent.length > 0
      ? "Existing objects are adopted, and retained when the module is removed"
      : "Objects of other releases are adopted";
  reportTakeover(tools, module.name, adopted, message);
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
 * template moved or a module was renamed.
 */
export function isYieldingOwner(tools: Reconciler, adopter: string, { release, namespace }: Owner): boolean {
  if (release === adopter) return namespace === tools.namespace;
  return namespace === tools.store.namespaceOf(release) && yieldsObjects(tools, release);
}

/** Whether a release of this operator lets other releases have its objects. One that is protected, suspended or blocked keeps them. */
export function yieldsObjects({ isOurs, keepsObjects }: Reconciler, release: string): boolean {
  return isOurs(release) && !keepsObjects(release);
}

/** Finds the objects of the chart that helm refuses: they exist, the release does not record them, and they lack its metadata. */
async function findUnownedObjects(
  { tools, request }: Reconciliation,
  { objects, hooks }: ManifestContent,
  recorded: readonly ObjectRef[],
): Promise<LiveObject[]> {
  const keyOf = (ref: ObjectRef): string => namespacedKey(tools.namespace, ref);
  // helm replaces existing objects of hooks without a question.
  const knownKeys = new Set([...recorded, ...hooks.map(({ ref }) => ref)].map(keyOf));
  const refs = objects.filter((ref) => !knownKeys.has(keyOf(ref)));
  const self = { release: request.module.name, namespace: tools.namespace };
  return (await readLiveObjects(tools, refs, request.signal)).filter((each) => !isMarked(each, self));
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
  { logger, operator, findCrdModule }: Pick<Reconciler, "logger" | "operator" | "findCrdModule">,
  { module, confirmedTakeover: confirmed = "" }: TakeoverRequest,
  { what, objects }: TakeoverAttempt,
): void {
  const token = computeTakeoverToken(objects);
  if (objects.length === 0 || module.helm?.takeOwnership === true || confirmed === token) return;
  const named = objects.map((object) => describeWithOwner(object, findCrdModule));
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

/** For people: the object, and the release that owns it, or the module whose `crds/` contains it. */
function describeWithOwner({ ref, owner }: LiveObject, findCrdModule: Reconciler["findCrdModule"]): string {
  const name = resourceName(ref);
  if (owner !== undefined) return `${name} of ${owner.namespace}/${owner.release}`;
  const module = ref.kind === "CustomResourceDefinition" ? findCrdModule(ref.name) : undefined;
  return module === undefined ? `${name} of no release` : `${name} of crds/ of module ${module}`;
}

/** Logs and counts that a module's release gets objects of other owners. */
export function reportTakeover(
  { logger, report, findCrdModule }: Pick<Reconciler, "logger" | "report" | "findCrdModule">,
  module: string,
  taken: readonly LiveObject[],
  message: string,
): void {
  if (taken.length === 0) return;
  const objects = taken
    .map((object) => describeWithOwner(object, findCrdModule))
    .slice(0, MAX_LOGGED_OBJECTS);
  logger.warn(message, { module, objects });
  report?.tookOver(module, objects);
}
