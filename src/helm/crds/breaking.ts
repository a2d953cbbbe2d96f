/** Refuses CRDs that would break existing objects, until a user confirms them. */

import {
  annotateCommand,
  ApiError,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isNotFound,
  listObjects,
  mergePatch,
  type WatchedObject,
} from "../../kube/index.ts";
import { digestJson, oneLine, plainLine, type Clock } from "../../lib/index.ts";
import {
  objectOf,
  ProblemError,
  REQUESTED_AT,
  type JsonObject,
  type Problem,
  type Question,
} from "../../model/index.ts";
import { lossesOf, crdName, resourceIn, unstored } from "./crd.ts";
import type { CrdFile, CrdTools, Loss, StoredCrd } from "./crd.ts";
import { migrate, migrationObstacle } from "./storage-migration.ts";

/** Annotation of the AddonModule that confirms a change of its CRDs, by its token. */
export const CONFIRM_CRDS = "addon-operator.io/confirm-crds";

/** Annotation of a CRD during a confirmed change, so that the change continues after a failure or a restart. */
const UNDER_WAY = "addon-operator.io/confirmed-change";

const CHECK_MS = 30_000;
const MOST_NAMED = 5;
/** Limits what a message names, so that the command after it is not cut off. */
const LONGEST_NAMED = 500;
const TOKEN_LENGTH = 12;
const FORBIDDEN = 403;

/** A definition that differs from the installed one. */
interface Change extends CrdFile {
  readonly live: StoredCrd;
  readonly losses: readonly Loss[];
}

/** A change, what it breaks in words, and the objects that it breaks. */
interface Breaking {
  readonly change: Change;
  readonly breaks: readonly string[];
  readonly affected: readonly string[];
}

/** The result of comparing definitions with the installed ones. */
interface CrdCheck {
  /** Why they are refused. */
  readonly problem: Problem | undefined;
  /** Breaking changes that a user has confirmed. */
  readonly confirmed: readonly Change[];
}

/**
 * Compares definitions with the installed ones. Refuses a definition that drops a stored version, no longer serves a version
 * in use, or has a schema that existing objects violate, and names these objects. With `confirmed`, the token of exactly
 * this change, it is accepted, after objects in a dropped stored version are migrated. Returns the names of the confirmed
 * CRDs, for `endConfirmed`. Throws ProblemError, ApiError, ConnectionError.
 */
export async function refuseBreaking(crds: readonly CrdFile[], tools: CrdTools): Promise<string[]> {
  const { problem, confirmed } = await checkCrds(crds, tools);
  if (problem !== undefined) throw new ProblemError(problem);
  for (const { live, crd } of confirmed) await markUnderWay(live.metadata.name, markOf(crd, tools), tools);
  for (const change of confirmed)
    if (unstored(change.live, change.crd).length > 0) await migrate(change, tools);
  return confirmed.map(({ crd }) => crdName(crd));
}

/** Removes the annotation of a confirmed change once the change is applied. */
export async function endConfirmed(names: readonly string[], tools: CrdTools): Promise<void> {
  for (const name of names) await markUnderWay(name, null, tools);
}

/** Sets the annotation of a confirmed change on an installed CRD; null removes it. */
async function markUnderWay(name: string, mark: string | null, { client, signal }: CrdTools): Promise<void> {
  const body = { metadata: { annotations: { [UNDER_WAY]: mark } } };
  await mergePatch(client, { resource: CUSTOM_RESOURCE_DEFINITIONS, name }, { body, signal });
}

/** The value of the annotation for a confirmed change to exactly this definition. */
function markOf(crd: JsonObject, { confirmed = "" }: CrdTools): string {
  return digestJson([confirmed, objectOf(crd["spec"])]);
}

/** Whether an earlier run began to apply exactly this confirmed change. */
function isUnderWay({ live, crd }: Change, tools: CrdTools): boolean {
  return tools.confirmed !== undefined && live.metadata.annotations?.[UNDER_WAY] === markOf(crd, tools);
}

/** Like `refuseBreaking`, but changes nothing and throws no ProblemError. Throws ApiError, ConnectionError. */
export async function checkCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<CrdCheck> {
  const changes = (await Promise.all(crds.map((each) => changeOf(each, tools)))).flat();
  const found = await Promise.all(changes.map((change) => breakageOf(change, tools)));
  const breaking = found.filter(({ breaks }) => breaks.length > 0);
  const [first] = breaking;
  if (first === undefined) return { problem: undefined, confirmed: [] };
  const obstacles = await Promise.all(breaking.map(({ change }) => migrationObstacle(change, tools)));
  const obstacle = obstacles.find((each) => each !== undefined);
  const token = tokenOf(breaking);
  const isConfirmed = token === tools.confirmed || breaking.every(({ change }) => isUnderWay(change, tools));
  if (isConfirmed && obstacle === undefined)
    return { problem: undefined, confirmed: breaking.map(({ change }) => change) };
  const texts = breaking.map(({ change, breaks }) => `${crdName(change.crd)} ${breaks.join("; ")}`);
  const message = [...texts, ...(obstacle === undefined ? [] : [obstacle.message])].join("; ");
  const question = questionOf(token, tools);
  const confirm = `fix the objects or the definition, or confirm: ${question.command}${staleNote(tools.confirmed)}`;
  const problem = { file: first.change.file, message: oneLine(message, LONGEST_NAMED) };
  return {
    problem:
      obstacle === undefined
        ? { ...problem, remedy: confirm, question }
        : { ...problem, remedy: obstacle.remedy },
    confirmed: [],
  };
}

/** A token for exactly these installed definitions, their successors, and the objects that break. */
function tokenOf(breaking: readonly Breaking[]): string {
  const covered = breaking.map(({ change: { live, crd }, affected }) => {
    const { uid = null, generation = null } = live.metadata;
    const inForce = live.spec as unknown as JsonObject;
    return [uid, generation, inForce, objectOf(crd["spec"]), affected.toSorted()];
  });
  return digestJson(covered).slice(3, 3 + TOKEN_LENGTH);
}

/** The question for a user; its command also requests the run that applies the change. */
function questionOf(token: string, { namespace = "NAMESPACE", release = "NAME" }: CrdTools): Question {
  const annotations = { [CONFIRM_CRDS]: token, [REQUESTED_AT]: '"$(date +%s)"' };
  const command = annotateCommand(`addonmodule/${release}`, namespace, annotations);
  return { annotation: CONFIRM_CRDS, token, command };
}

/** Says that the confirmation which the user gave is for another change; empty without a confirmation. */
function staleNote(confirmed: string | undefined): string {
  if (confirmed === undefined || confirmed === "") return "";
  return `; its present value ${plainLine(confirmed, TOKEN_LENGTH + 1)} does not confirm this change`;
}

/** The change that a definition makes to the installed one. Empty if there is none, or if nothing can break. */
async function changeOf({ file, crd }: CrdFile, { client, signal }: CrdTools): Promise<Change[]> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: crdName(crd) };
  const found = await get(client, target, { signal }).catch(ignoreNotFound);
  const live = found as unknown as StoredCrd | undefined;
  const losses = live === undefined ? [] : lossesOf(live, crd);
  return live === undefined || losses.length === 0 ? [] : [{ file, crd, live, losses }];
}

/** The objects that a change breaks, with a sentence for each kind of loss. */
async function breakageOf(change: Change, tools: CrdTools): Promise<Breaking> {
  const affected: string[] = [];
  const reported = await Promise.all(
    change.losses.map((loss) => describe(change.live, { loss, affected }, tools)),
  );
  return { change, breaks: reported.filter((each) => each !== undefined), affected };
}

/** Describes the objects that a loss affects, and adds their ids to `affected`. Undefined if no object is affected. */
async function describe(
  { spec }: StoredCrd,
  { loss, affected }: { readonly loss: Loss; readonly affected: string[] },
  tools: CrdTools,
): Promise<string | undefined> {
  const named: string[] = [];
  const ids: string[] = [];
  let count = 0;
  const take = (object: WatchedObject): void => {
    const how = loss.hits(object);
    if (how === undefined) return;
    count += 1;
    const { namespace, name } = object.metadata;
    const at = namespace === undefined ? name : `${namespace}/${name}`;
    ids.push(`${loss.what} ${at} ${String(object.metadata["uid"])}`);
    if (named.length < MOST_NAMED) named.push(how === "" ? at : `${at} (${oneLine(how)})`);
  };
  const issue = await visitObjects(resourceIn(spec, loss.version), take, tools);
  // If not all objects could be read, the token cannot cover them one by one.
  affected.push(...(issue === undefined ? ids : [`${loss.what} unread`]));
  if (issue !== undefined) return `${loss.what}: its objects cannot be read (${issue})`;
  if (count === 0) return loss.always ? `${loss.what}, though none is there` : undefined;
  const more = count > named.length ? ` and ${count - named.length} more` : "";
  return `${loss.what}: ${spec.names.kind} ${named.join(", ")}${more}`;
}

/** Passes all objects to a callback, page by page. Returns why not all could be read; undefined after a success. */
async function visitObjects(
  resource: ReturnType<typeof resourceIn>,
  take: (object: WatchedObject) => void,
  { client, clock, signal }: CrdTools,
): Promise<string | undefined> {
  const limit = timeLimit(clock, CHECK_MS);
  const both = AbortSignal.any([limit.signal, ...(signal === undefined ? [] : [signal])]);
  try {
    await listObjects(
      { resource, keepManagedFields: true },
      { client, clock, signal: both, unpaged: false },
      take,
    );
    return undefined;
  } catch (error) {
    signal?.throwIfAborted();
    if (limit.signal.aborted) return `not all in ${CHECK_MS / 1000} s`;
    // The kind is not served, or listing it is forbidden.
    if (isNotFound(error) || (error instanceof ApiError && error.status === FORBIDDEN)) return undefined;
    return oneLine(error);
  } finally {
    limit.end();
  }
}

/** A signal that aborts after a time, unless `end` is called before. */
function timeLimit(clock: Clock, ms: number): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController();
  const timer = clock.setTimer(ms, () => controller.abort());
  return { signal: controller.signal, end: () => timer.cancel() };
}
