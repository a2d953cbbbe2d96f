/** Existing objects that a chart contains: who owns them, and which of them a release takes over (docs/RUNNING.md, "Taking over"). */

import { getMetadata, isNotFound, mergePatch, type Target, type WatchedObject } from "../kube/index.ts";
import { digest, inParallel, oneLine } from "../lib/index.ts";
import { isJsonObject, objectOf } from "../model/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import type { Reconciliation } from "./decide.ts";
import { helmMarks, ownerOf, type LookTools, type Owner } from "./live-objects.ts";
import { bodiesOf, documentsOf, keyIn, nameOf, refOf, type ObjectRef } from "./manifest/manifest.ts";
import { manifestsOf } from "./rendering.ts";

/** helm looks for it in manifests and, in upgrades, on objects. */
export const RESOURCE_POLICY = "helm.sh/resource-policy";
export const KEEP = "keep";

/** Annotation of the AddonModule that confirms once that existing objects are taken over, by the token of these objects. */
export const CONFIRM_TAKEOVER = "addon-operator.io/confirm-takeover";

/** Requests at the same time. */
export const AT_ONCE = 8;
const TOKEN_LENGTH = 12;
const MOST_LOGGED = 20;
/** The remedy behind the names must not be cut off. */
const LONGEST_NAMES = 200;

/** helm has no code for it: an object exists already, and its marks do not name this release. */
const NOT_OURS = "cannot be imported into the current release";

/** Whether helm changed nothing, since an object exists that does not belong to the release. */
export function isTaken(error: unknown): error is HelmError {
  return error instanceof HelmError && error.result.stderr.includes(NOT_OURS);
}

/** Objects of a chart exist that the release does not own, and nobody allows it to take them over. */
export class ExistingObjectsError extends Error {
  constructor(objects: readonly string[], remedy: string) {
    super(
      `the chart contains existing objects that this release does not own: ${namesIn(objects)}; ${remedy}`,
    );
    this.name = "ExistingObjectsError";
  }
}

/** As many as there is space for, and how many more there are. */
function namesIn(objects: readonly string[]): string {
  let text = objects[0] ?? "";
  for (const [index, each] of objects.entries()) {
    if (index === 0) continue;
    if (text.length + each.length > LONGEST_NAMES) return `${text} and ${objects.length - index} more`;
    text = `${text}, ${each}`;
  }
  return text;
}

/** What the server has of an object, without its content. */
export interface LiveObject {
  readonly ref: ObjectRef;
  readonly target: Target;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owner: Owner | undefined;
}

/** Reads the metadata of an object; undefined where it does not exist. Throws an Error that names the object. */
export async function liveObject(
  { client, discovery, namespace }: LookTools,
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
    return { ref, target, uid: String(metadata["uid"]), labels, annotations, owner };
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error)) return undefined;
    throw new Error(`cannot tell whose ${nameOf(ref)} is: ${oneLine(error)}`, { cause: error });
  }
}

interface Claim {
  readonly release: string;
  /** It outlives the release. */
  readonly keep?: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Marks an object as the release's, so that helm accepts this very object. Throws ApiError where another one took its place. */
export async function claim(tools: LookTools, object: LiveObject, how: Claim): Promise<void> {
  const { labels, annotations } = helmMarks(how.release, tools.namespace);
  const keep = how.keep === true ? { [RESOURCE_POLICY]: KEEP } : {};
  const metadata = { uid: object.uid, labels, annotations: { ...annotations, ...keep } };
  await mergePatch(tools.client, object.target, { body: { metadata }, signal: how.signal });
}

/**
 * After helm's refusal (`taken`): claims the existing objects of the chart that the release may have. Objects of other
 * releases of this operator change hands freely: a template moved, or a module was renamed. All others need
 * `helm.takeOwnership` or a confirmation, and are kept when the module goes. Throws ExistingObjectsError, with nothing
 * changed; `taken` where no object is found; ApiError.
 */
export async function claimExisting(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  { recorded, taken }: { readonly recorded: readonly ObjectRef[]; readonly taken: HelmError },
): Promise<void> {
  const { tools, request } = reconciliation;
  const { module, signal } = request;
  const { namespace } = tools;
  const existing = await existingObjects(reconciliation, call, recorded);
  if (existing.length === 0) throw taken;
  const isOwn = ({ owner }: LiveObject): boolean =>
    owner?.namespace === namespace && (owner.release === module.name || tools.isOurs(owner.release));
  const others = existing.filter((each) => !isOwn(each));
  if (others.length > 0) refuseUnlessAllowed(reconciliation, others);
  for (const object of existing)
    await claim(tools, object, { release: module.name, keep: others.includes(object), signal });
  report(reconciliation, existing, others);
}

/** Objects of the chart that helm refuses: they exist, the release's record does not have them, and their marks differ. */
async function existingObjects(
  reconciliation: Reconciliation,
  call: UpgradeCall,
  recorded: readonly ObjectRef[],
): Promise<LiveObject[]> {
  const { tools, request } = reconciliation;
  const known = new Set(recorded.map((each) => keyIn(tools.namespace, each)));
  const documents = (await manifestsOf(reconciliation, call)).flatMap(documentsOf);
  const applied = bodiesOf(documents).filter((body) => !isHelmHook(body));
  const refs = applied.flatMap(refOf).filter((ref) => !known.has(keyIn(tools.namespace, ref)));
  const found = await inParallel(AT_ONCE, refs, (ref) => liveObject(tools, ref, request.signal));
  const marks = helmMarks(request.module.name, tools.namespace);
  return found.filter((each) => each !== undefined).filter((each) => !hasMarks(each, marks));
}

function isHelmHook(body: ReturnType<typeof bodiesOf>[number]): boolean {
  const annotations = objectOf(body["metadata"])["annotations"];
  return isJsonObject(annotations) && annotations["helm.sh/hook"] !== undefined;
}

function hasMarks({ labels, annotations }: LiveObject, marks: ReturnType<typeof helmMarks>): boolean {
  const has = (wanted: object, given: Readonly<Record<string, string>>): boolean =>
    Object.entries(wanted).every(([key, value]) => given[key] === value);
  return has(marks.labels, labels) && has(marks.annotations, annotations);
}

function refuseUnlessAllowed({ tools, request }: Reconciliation, objects: readonly LiveObject[]): void {
  const { module, confirmedTakeover: confirmed } = request;
  const token = tokenOf(objects);
  if (module.helm?.takeOwnership === true || confirmed === token) return;
  const named = objects.map(describe);
  tools.logger.warn("Existing objects are not taken over", {
    module: module.name,
    objects: named.slice(0, MOST_LOGGED),
  });
  const stale =
    confirmed === undefined || confirmed === "" ? "" : `; ${oneLine(confirmed, 20)} confirms others`;
  const command = `kubectl annotate --overwrite -n ${tools.namespace} addonmodule/${module.name} ${CONFIRM_TAKEOVER}=${token}`;
  const remedy = `remove them from chart or cluster, or take them over: helm.takeOwnership in addon.yaml, or once: ${command}${stale}`;
  throw new ExistingObjectsError(named, remedy);
}

/** Covers exactly these objects with their owners; an object that is made again is another one. */
function tokenOf(objects: readonly LiveObject[]): string {
  const parts = objects.map(
    ({ ref, uid, owner }) => `${uid} ${nameOf(ref)} ${owner?.namespace}/${owner?.release}`,
  );
  return digest(...parts.sort()).slice(3, 3 + TOKEN_LENGTH);
}

function describe({ ref, owner }: LiveObject): string {
  return `${nameOf(ref)} of ${owner === undefined ? "no release" : `${owner.namespace}/${owner.release}`}`;
}

function report(
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
  const objects = moved.map(describe).slice(0, MOST_LOGGED);
  if (others.length > 0)
    logger.warn("Existing objects are taken over, and kept when the module goes", { module: name, objects });
  else logger.warn("Objects of other releases are taken over", { module: name, objects });
  recorder?.tookOver(name, objects);
}
