/** Existing objects that a chart contains: who owns them, and which of them a release adopts (docs/guides/running.md, "Taking over"). */

import {
  annotateCommand,
  getMetadata,
  isNotFound,
  mergePatch,
  findMissingPermissions,
  type Target,
  type WatchedObject,
} from "../../kube/index.ts";
import { digest, inParallel, oneLine } from "../../lib/index.ts";
import { objectOf, type Question } from "../../model/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { UpgradeOptions } from "../binary/helm.ts";
import type { CheckTools, Reconciler, ReconcileRequest, Reconciliation } from "../types.ts";
import { helmMarks, ownerOf, type Owner } from "./live-objects.ts";
import {
  documentsOf,
  hookEvents,
  keyIn,
  resourceName,
  objectsOf,
  type ObjectRef,
} from "../manifest/manifest.ts";
import { manifestsOf } from "../rendering.ts";

/** helm looks for it in manifests and, in upgrades, on objects. */
export const RESOURCE_POLICY = "helm.sh/resource-policy";
export const KEEP = "keep";

/** Annotation of the AddonModule that confirms the adoption of existing objects once, by their token. */
export const CONFIRM_TAKEOVER = "addon-operator.io/confirm-takeover";

/** Number of parallel requests. */
export const AT_ONCE = 8;
const TOKEN_LENGTH = 12;
export const MOST_LOGGED = 20;
/** Limits the names in a message, so that the remedy after them is not cut off. */
const LONGEST_NAMES = 200;

/** Part of helm's message where an object exists already and its annotations do not name this release. */
const NOT_OURS = "cannot be imported into the current release";

/** Whether helm changed nothing because an object exists that does not belong to the release. */
export function isTaken(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(NOT_OURS);
}

/** A release does not own these existing objects and may neither adopt nor replace them. */
export class ExistingObjectsError extends Error {
  /** What a user may confirm, so that the release may have them. */
  readonly question: Question;

  constructor(
    what: string,
    objects: readonly string[],
    { remedy, question }: { remedy: string; question: Question },
  ) {
    super(`${what} existing objects that this release does not own: ${namesIn(objects)}; ${remedy}`);
    this.name = "ExistingObjectsError";
    this.question = question;
  }
}

/** The first names, as many as fit, and the number of the others. */
function namesIn(objects: readonly string[]): string {
  let text = objects[0] ?? "";
  for (const [index, each] of objects.entries()) {
    if (index === 0) continue;
    if (text.length + each.length > LONGEST_NAMES) return `${text} and ${objects.length - index} more`;
    text = `${text}, ${each}`;
  }
  return text;
}

/** The metadata of an existing object. */
export interface LiveObject {
  readonly ref: ObjectRef;
  readonly target: Target;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: Owner | undefined;
}

/** Reads the metadata of an object; undefined where it does not exist. Throws an Error that names the object. */
export async function liveObject(
  { client, discovery, namespace }: CheckTools,
  ref: ObjectRef,
  signal: AbortSignal | undefined,
): Promise<LiveObject | undefined> {
  try {
    const resource = await discovery.resolve(ref.kind, ref.apiVersion);
    if (resource?.verbs.includes("get") !== true) return undefined;
    const target = { resource, namespace: ref.namespace ?? namespace, name: ref.name };
    const { metadata } = await getMetadata<WatchedObject>(client, target, { signal });
    const labels = objectOf(metadata["labels"]) as Record<string, string>;
    const annotations = objectOf(metadata["annotations"]) as Record<string, string>;
    const owner = ownerOf(annotations, namespace);
    const { uid = "", resourceVersion = "" } = metadata;
    return { ref, target, uid, resourceVersion, labels, annotations, owner };
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

interface Claim {
  readonly release: string;
  /** The object outlives the release. */
  readonly keep?: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Annotates an object with the release, so that helm accepts it. Throws ApiError where it was replaced meanwhile. */
export async function claim(tools: CheckTools, object: LiveObject, how: Claim): Promise<void> {
  const { labels, annotations } = helmMarks(how.release, tools.namespace);
  const keep = how.keep === true ? { [RESOURCE_POLICY]: KEEP } : {};
  const metadata = { uid: object.uid, labels, annotations: { ...annotations, ...keep } };
  await mergePatch(tools.client, object.target, { body: { metadata }, signal: how.signal });
}

/**
 * Whether the account of a module may change an object, so that its chart can have it. True of modules that act as the
 * operator, and of an object that does not exist. Throws ApiError, ConnectionError.
 */
export async function mayHave(
  { actorOf, logger }: Pick<Reconciler, "actorOf" | "logger">,
  module: string,
  live: LiveObject | undefined,
): Promise<boolean> {
  const { client, isAccount } = actorOf(module);
  if (!isAccount || live === undefined) return true;
  const { resource, namespace = "", name = "" } = live.target;
  const { group, plural, namespaced } = resource;
  const right = { verb: "patch", group, resource: plural, namespace: namespaced ? namespace : "", name };
  if ((await findMissingPermissions(client, [right])).length === 0) return true;
  logger.warn("The chart of a module has an object that its account may not change", {
    module,
    object: resourceName(live.ref),
  });
  return false;
}

/**
 * After helm's refusal (`taken`): adopts the existing objects of the chart that the release may have. Objects of other
 * releases of this operator are adopted freely, because a template moved or a module was renamed. All others need
 * `helm.takeOwnership` or a confirmation, and are retained when the module is removed. Throws ExistingObjectsError, with
 * nothing changed; `taken` where no object is found; ApiError.
 */
export async function claimExisting(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  { recorded, taken }: { readonly recorded: readonly ObjectRef[]; readonly taken: HelmError },
): Promise<void> {
  const { tools, request } = reconciliation;
  const { module, signal } = request;
  const existing = await existingObjects(reconciliation, options, recorded);
  if (existing.length === 0) throw taken;
  const isOwn = ({ owner }: LiveObject): boolean =>
    owner !== undefined && isOwnOwner(tools, module.name, owner);
  const others = existing.filter((each) => !isOwn(each));
  refuseUnlessAllowed(tools, request, { what: "the chart contains", objects: others });
  for (const object of existing)
    await claim(tools, object, { release: module.name, keep: others.includes(object), signal });
  reportTakeover(reconciliation, existing, others);
}

/**
 * Whether an owner is this release, or another one of this operator that yields its objects, because a template moved or a
 * module was renamed.
 */
function isOwnOwner(tools: Reconciler, own: string, { release, namespace }: Owner): boolean {
  if (release === own) return namespace === tools.namespace;
  const { isOurs, keepsObjects, store } = tools;
  return namespace === store.namespaceOf(release) && isOurs(release) && !keepsObjects(release);
}

/** The objects of the chart that helm refuses: they exist, the release does not record them, and they lack its marks. */
async function existingObjects(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
  recorded: readonly ObjectRef[],
): Promise<LiveObject[]> {
  const { tools, request } = reconciliation;
  const known = new Set(recorded.map((each) => keyIn(tools.namespace, each)));
  const documents = (await manifestsOf(reconciliation, options)).flatMap(documentsOf);
  const applied = documents.filter((document) => hookEvents(document) === undefined);
  const refs = objectsOf(applied).filter((ref) => !known.has(keyIn(tools.namespace, ref)));
  const marks = helmMarks(request.module.name, tools.namespace);
  return (await liveObjects(tools, refs, request.signal)).filter((each) => !hasMarks(each, marks));
}

/** `liveObject` for several objects; missing ones are left out. */
export async function liveObjects(
  tools: CheckTools,
  refs: readonly ObjectRef[],
  signal: AbortSignal | undefined,
): Promise<LiveObject[]> {
  const found = await inParallel(AT_ONCE, refs, (ref) => liveObject(tools, ref, signal));
  return found.filter((each) => each !== undefined);
}

/** Whether an object has all labels and annotations that helm expects. */
function hasMarks({ labels, annotations }: LiveObject, marks: ReturnType<typeof helmMarks>): boolean {
  const has = (wanted: object, given: Readonly<Record<string, string>>): boolean =>
    Object.entries(wanted).every(([key, value]) => given[key] === value);
  return has(marks.labels, labels) && has(marks.annotations, annotations);
}

/** A refused adoption or replacement. */
interface Refused {
  readonly what: string;
  readonly objects: readonly LiveObject[];
}

/** Throws ExistingObjectsError, unless the list is empty or a user has confirmed exactly these objects. */
export function refuseUnlessAllowed(
  { logger, operator }: Pick<Reconciler, "logger" | "operator">,
  { module, confirmedTakeover: confirmed = "" }: TakeoverRequest,
  { what, objects }: Refused,
): void {
  const token = tokenOf(objects);
  if (objects.length === 0 || module.helm?.takeOwnership === true || confirmed === token) return;
  const named = objects.map(describeWithOwner);
  logger.warn("Existing objects are not adopted", {
    module: module.name,
    objects: named.slice(0, MOST_LOGGED),
  });
  const stale = confirmed === "" ? "" : `; ${oneLine(confirmed, 20)} does not confirm this`;
  const command = annotateCommand(`addonmodule/${module.name}`, operator.namespace, {
    [CONFIRM_TAKEOVER]: token,
  });
  const remedy = `remove them from chart or cluster, or take them over: helm.takeOwnership in addon.yaml, or once: ${command}${stale}`;
  const question = { annotation: CONFIRM_TAKEOVER, token, command };
  throw new ExistingObjectsError(what, named, { remedy, question });
}

/**
 * A token for exactly these objects, their owners and versions: each write to one of them, such as the adoption itself,
 * makes it stale.
 */
function tokenOf(objects: readonly LiveObject[]): string {
  const parts = objects.map(
    ({ ref, uid, resourceVersion, owner }) =>
      `${uid} ${resourceVersion} ${resourceName(ref)} ${owner?.namespace}/${owner?.release}`,
  );
  return digest(...parts.sort()).slice(3, 3 + TOKEN_LENGTH);
}

/** For people: the object, and the release that owns it. */
export function describeWithOwner({ ref, owner }: LiveObject): string {
  return `${resourceName(ref)} of ${owner === undefined ? "no release" : `${owner.namespace}/${owner.release}`}`;
}

/** Logs and counts the objects that change their owner. */
function reportTakeover(
  { tools, request }: Reconciliation,
  existing: readonly LiveObject[],
  others: readonly LiveObject[],
): void {
  const { name } = request.module;
  const { logger, recorder } = tools;
  const moved = existing.filter(
    ({ owner }) => owner?.release !== name || owner.namespace !== tools.namespace,
  );
  if (moved.length === 0) return;
  const objects = moved.map(describeWithOwner).slice(0, MOST_LOGGED);
  if (others.length > 0)
    logger.warn("Existing objects are adopted, and retained when the module is removed", {
      module: name,
      objects,
    });
  else logger.warn("Objects of other releases are adopted", { module: name, objects });
  recorder?.tookOver(name, objects);
}
