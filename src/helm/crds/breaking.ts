/**
 * Refuses CRDs that would break existing objects, until a user confirms them. A change is *lossy* if the new definition takes something
 * away from the installed one (a *loss*, such as a served version), and *breaking* if that affects objects. A user confirms breaking
 * changes by their token, in an annotation of the AddonModule.
 */

import {
  annotateCommand,
  isForbidden,
  isNotFound,
  listObjects,
  mergePatch,
  type WatchedObject,
} from "../../kube/index.ts";
import {
  canonicalJson,
  confirmationToken,
  Deadline,
  digestJson,
  oneLine,
  plainLine,
  retryAfterErrors,
} from "../../base/index.ts";
import {
  objectOf,
  ProblemError,
  REQUESTED_AT,
  type JsonObject,
  type Problem,
  type Question,
} from "../../base/model/index.ts";
import {
  crdName,
  crdTarget,
  findDroppedStoredVersions,
  findLosses,
  readInstalledCrd,
  toResource,
} from "./crd.ts";
import type { CrdFile, CrdTools, Loss, InstalledCrd } from "./crd.ts";
import { migrateObjects, findMigrationObstacle } from "./storage-migration.ts";

/** Annotation of the AddonModule that confirms a change of its CRDs, by its token. */
export const CONFIRM_CRDS = "addon-operator.io/confirm-crds";

/** Annotation of a CRD during a confirmed change, so that the change continues after a failure or a restart. */
const CHANGE_MARK = "addon-operator.io/confirmed-change";

const LIST_TIMEOUT_MS = 30_000;
/** A read may fail by chance, and a refusal stays until something changes. A conversion webhook that is broken fails each time. */
const MAX_READS = 4;
const READ_DELAYS = { firstMs: 1000, maxMs: 4000 };
const MAX_NAMED_OBJECTS = 5;
/** Limits what a message names, so that the command after it is not cut off. */
const MAX_MESSAGE_LENGTH = 500;
/** Shows a whole token, and of another text only that it is longer. */
const MAX_QUOTED_TOKEN_LENGTH = 13;

interface LossyChange extends CrdFile {
  readonly live: InstalledCrd;
  readonly losses: readonly Loss[];
}

/** A change, sentences about what it breaks, and the ids of the objects that it breaks. */
interface BreakingChange {
  readonly change: LossyChange;
  readonly breaks: readonly string[];
  readonly affected: readonly string[];
}

interface CrdCheckResult {
  readonly problem: Problem | undefined;
  readonly confirmed: readonly LossyChange[];
}

/**
 * Refuses definitions that would break existing objects: a definition that drops a stored version, no longer serves a version in
 * use, or has a schema that existing objects violate. With `confirmed`, the token of exactly this change, the definition is
 * accepted, after objects in a dropped stored version are migrated. Returns the names of the confirmed CRDs, for
 * `removeChangeMarks`. Throws ProblemError, which names the objects; ApiError, ConnectionError.
 */
export async function refuseBreakingChanges(crds: readonly CrdFile[], tools: CrdTools): Promise<string[]> {
  const { problem, confirmed } = await checkCrds(crds, tools);
  if (problem !== undefined) throw new ProblemError(problem);
  // Before anything changes the CRDs: after a failure, the next run recognizes the confirmed changes by their marks.
  for (const { live, crd } of confirmed)
    await setChangeMark(live.metadata.name, computeChangeMark(crd, tools), tools);
  for (const change of confirmed)
    if (findDroppedStoredVersions(change.live, change.crd).length > 0) await migrateObjects(change, tools);
  return confirmed.map(({ crd }) => crdName(crd));
}

/** Removes the annotation that marks a confirmed change from CRDs, once the change is applied. */
export async function removeChangeMarks(names: readonly string[], tools: CrdTools): Promise<void> {
  for (const name of names) await setChangeMark(name, null, tools);
}

/** Sets the annotation that marks a confirmed change on an installed CRD; null removes it. */
async function setChangeMark(name: string, mark: string | null, { client, signal }: CrdTools): Promise<void> {
  const body = { metadata: { annotations: { [CHANGE_MARK]: mark } } };
  await mergePatch(client, crdTarget(name), { body, signal });
}

/** Computes the value of the annotation that marks a change to exactly this definition, confirmed by exactly this token. */
function computeChangeMark(crd: JsonObject, { confirmed = "" }: CrdTools): string {
  return digestJson([confirmed, objectOf(crd["spec"])]);
}

/**
 * Whether an earlier run began to apply exactly this confirmed change. That run may have changed the CRD, and with it the token of the
 * change: without the annotation on the CRD, the user would have to confirm again.
 */
function wasStartedBefore({ live, crd }: LossyChange, tools: CrdTools): boolean {
  return (
    tools.confirmed !== undefined &&
    live.metadata.annotations?.[CHANGE_MARK] === computeChangeMark(crd, tools)
  );
}

/**
 * Checks whether definitions would break existing objects. Returns the problem for the user, or the breaking changes that the
 * user has confirmed. Changes nothing. Throws ApiError, ConnectionError.
 */
export async function checkCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<CrdCheckResult> {
  const lossyChanges = await Promise.all(crds.map((each) => findLossyChange(each, tools)));
  const effects = await Promise.all(
    lossyChanges.filter((change) => change !== undefined).map((change) => findBreakage(change, tools)),
  );
  const breaking = effects.filter(({ breaks }) => breaks.length > 0);
  const [first] = breaking;
  if (first === undefined) return { problem: undefined, confirmed: [] };
  const obstacles = await Promise.all(breaking.map(({ change }) => findMigrationObstacle(change, tools)));
  const obstacle = obstacles.find((each) => each !== undefined);
  const token = computeConfirmationToken(breaking);
  const isConfirmed =
    token === tools.confirmed || breaking.every(({ change }) => wasStartedBefore(change, tools));
  if (isConfirmed && obstacle === undefined)
    return { problem: undefined, confirmed: breaking.map(({ change }) => change) };
  const texts = breaking.map(({ change, breaks }) => `${crdName(change.crd)} ${breaks.join("; ")}`);
  if (obstacle !== undefined) texts.push(obstacle.message);
  const problem = { file: first.change.file, message: oneLine(texts.join("; "), MAX_MESSAGE_LENGTH) };
  // Where objects cannot be migrated, a confirmation does not help, so the operator requests none.
  if (obstacle !== undefined) return { problem: { ...problem, remedy: obstacle.remedy }, confirmed: [] };
  const question = buildQuestion(token, tools);
  const remedy = `fix the objects or the definition, or confirm: ${question.command}${describeStaleConfirmation(tools.confirmed)}`;
  return { problem: { ...problem, remedy, question }, confirmed: [] };
}

/** Computes the token by which a user confirms exactly these changes: the installed and the new definitions, and the broken objects. */
function computeConfirmationToken(breaking: readonly BreakingChange[]): string {
  const covered = breaking.map(({ change: { live, crd }, affected }) => {
    const { uid = null, generation = null } = live.metadata;
    return [uid, generation, live.spec as unknown as JsonObject, objectOf(crd["spec"]), affected.toSorted()];
  });
  return confirmationToken(canonicalJson(covered));
}

/** Builds the question for the user: the command that confirms the change and requests the run that applies it. */
function buildQuestion(token: string, { namespace = "NAMESPACE", release = "NAME" }: CrdTools): Question {
  const annotations = { [CONFIRM_CRDS]: token, [REQUESTED_AT]: '"$(date +%s)"' };
  const command = annotateCommand(`addonmodule/${release}`, namespace, annotations);
  return { annotation: CONFIRM_CRDS, token, command };
}

/** Describes that the present confirmation of the user is for another change; "" without a confirmation. */
function describeStaleConfirmation(confirmed: string | undefined): string {
  if (confirmed === undefined || confirmed === "") return "";
  return `; its present value ${plainLine(confirmed, MAX_QUOTED_TOKEN_LENGTH)} does not confirm this change`;
}

/** Compares a definition with the installed one. Undefined if no definition is installed, or if nothing can break. */
async function findLossyChange({ file, crd }: CrdFile, tools: CrdTools): Promise<LossyChange | undefined> {
  const found = await readInstalledCrd(crdName(crd), tools);
  const live = found as unknown as InstalledCrd | undefined;
  if (live === undefined) return undefined;
  const losses = findLosses(live, crd);
  return losses.length === 0 ? undefined : { file, crd, live, losses };
}

/** Finds the objects that a change breaks, with a sentence for each loss that affects objects. */
async function findBreakage(change: LossyChange, tools: CrdTools): Promise<BreakingChange> {
  // `describeLoss` adds the ids of the objects.
  const affected: string[] = [];
  const sentences = await Promise.all(
    change.losses.map((loss) => describeLoss(change.live, { loss, affected }, tools)),
  );
  return { change, breaks: sentences.filter((each) => each !== undefined), affected };
}

/**
 * Lists the objects of a CRD and describes those that a loss affects. Adds their ids to `affected`, which the confirmation token
 * covers. Undefined if no object is affected, except for a loss that the API server refuses even without objects.
 */
async function describeLoss(
  { spec }: InstalledCrd,
  { loss, affected }: { readonly loss: Loss; readonly affected: string[] },
  tools: CrdTools,
): Promise<string | undefined> {
  let named: string[] = [];
  let ids: string[] = [];
  const checkObject = (object: WatchedObject): void => {
    const effect = loss.describeEffect(object);
    // The loss does not affect the object.
    if (effect === undefined) return;
    const { namespace, name } = object.metadata;
    const fullName = namespace === undefined ? name : `${namespace}/${name}`;
    ids.push(`${loss.description} ${fullName} ${String(object.metadata["uid"])}`);
    if (named.length < MAX_NAMED_OBJECTS)
      named.push(effect === "" ? fullName : `${fullName} (${oneLine(effect)})`);
  };
  const startRead = (): typeof checkObject => {
    [named, ids] = [[], []];
    return checkObject;
  };
  const readError = await visitObjects(toResource(spec, loss.version), startRead, tools);
  if (readError !== undefined) {
    // The token cannot cover the objects one by one.
    affected.push(`${loss.description} unread`);
    return `${loss.description}: its objects cannot be read (${readError})`;
  }
  affected.push(...ids);
  if (ids.length === 0)
    return loss.countsWithoutObjects ? `${loss.description}, though none is there` : undefined;
  // The token covers `ids`; the message names only the first objects.
  const more = ids.length > named.length ? ` and ${ids.length - named.length} more` : "";
  return `${loss.description}: ${spec.names.kind} ${named.join(", ")}${more}`;
}

/**
 * Lists all objects of a resource and passes each to the callback that `startRead` returns, page by page; after a failure all of them, to another
 * callback. Returns why not all objects could be read;
 * undefined after a success, and for a kind that is not served. A kind that may not be listed counts as one without objects:
 * otherwise an operator with the permissions of the documents could not change a CRD (docs/reference/modules.md, "CRDs that change").
 */
async function visitObjects(
  resource: ReturnType<typeof toResource>,
  startRead: () => (object: WatchedObject) => void,
  { client, clock, signal }: CrdTools,
): Promise<string | undefined> {
  const deadline = new Deadline(clock, LIST_TIMEOUT_MS, signal);
  // `managedFields` show who still writes objects in a version that is no longer served.
  const spec = { resource, keepManagedFields: true };
  const options = { client, clock, signal: deadline.signal, unpaged: false };
  const isFinal = (error: unknown, { tries }: { readonly tries: number }): boolean =>
    isNotFound(error) || isForbidden(error) || deadline.signal.aborted || tries === MAX_READS;
  try {
    await retryAfterErrors(() => listObjects(spec, options, startRead()), {
      clock,
      delays: READ_DELAYS,
      signal: deadline.signal,
      isFinal,
    });
    signal?.throwIfAborted();
    return undefined;
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error) || isForbidden(error)) return undefined;
    return deadline.isTimedOut ? `not all in ${LIST_TIMEOUT_MS / 1000} s` : oneLine(error);
  } finally {
    deadline.release();
  }
}
