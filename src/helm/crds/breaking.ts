/** Refuses definitions that would break objects that live; writes those anew once a person confirms it. */

import {
  ApiError,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isNotFound,
  listObjects,
  mergePatch,
  type Resource,
  type WatchedObject,
} from "../../kube/index.ts";
import { digestJson, inParallel, oneLine, plainLine, sleep, type Clock } from "../../lib/index.ts";
import { objectOf, ProblemError, type JsonObject, type Problem } from "../../model/index.ts";
import { lossesOf, nameOf, resourceIn, storageVersion, unstored } from "./crd.ts";
import type { CrdFile, CrdTools, Loss, StoredCrd } from "./crd.ts";

/** Annotation of the AddonModule that confirms a change of its CRDs, by its token. */
export const CONFIRM_CRDS = "addon-operator.io/confirm-crds";

/** Annotation of a CRD while a confirmed change of it is under way: after a failure or a restart it goes on. */
const UNDER_WAY = "addon-operator.io/confirmed-change";

const LOOK_MS = 30_000;
const MOST_NAMED = 5;
const TOKEN_LENGTH = 12;
const FORBIDDEN = 403;

/** A definition that differs from the one that is in force. */
interface Change extends CrdFile {
  readonly live: StoredCrd;
  readonly losses: readonly Loss[];
}

/** A change, what it breaks in words, and the objects that it breaks. */
interface Breaking {
  readonly change: Change;
  readonly hurt: readonly string[];
  readonly affected: readonly string[];
}

/** What is said of definitions beside those in force. */
interface Judgement {
  /** Why they are refused. */
  readonly problem: Problem | undefined;
  /** Changes that break something, and that a person has confirmed. */
  readonly confirmed: readonly Change[];
}

/**
 * Compares definitions with those in force. One that drops a stored version, no longer serves a version that objects are
 * written in, or has a schema that living objects break, is refused with the objects named; the old one stays. With
 * `confirmed`, the token of exactly this change, it passes: objects in a stored version that goes are written anew
 * first. Returns the names of the confirmed CRDs, for `endConfirmed`. Throws ProblemError, ApiError, ConnectionError.
 */
export async function refuseBreaking(crds: readonly CrdFile[], tools: CrdTools): Promise<string[]> {
  const { problem, confirmed } = await judgeCrds(crds, tools);
  if (problem !== undefined) throw new ProblemError([problem]);
  for (const { live, crd } of confirmed) await markUnderWay(live.metadata.name, markOf(crd, tools), tools);
  for (const change of confirmed)
    if (unstored(change.live, change.crd).length > 0) await migrate(change, change.live, tools);
  return confirmed.map(({ crd }) => nameOf(crd));
}

/** The confirmation of a change is used up once the change is in force. */
export async function endConfirmed(names: readonly string[], tools: CrdTools): Promise<void> {
  for (const name of names) await markUnderWay(name, null, tools);
}

async function markUnderWay(name: string, mark: string | null, { client, signal }: CrdTools): Promise<void> {
  const body = { metadata: { annotations: { [UNDER_WAY]: mark } } };
  await mergePatch(client, { resource: CUSTOM_RESOURCE_DEFINITIONS, name }, { body, signal });
}

/** A confirmation that was given for a change to exactly this definition. */
function markOf(crd: JsonObject, { confirmed = "" }: CrdTools): string {
  return digestJson([confirmed, objectOf(crd["spec"])]);
}

function isUnderWay({ live, crd }: Change, tools: CrdTools): boolean {
  return tools.confirmed !== undefined && live.metadata.annotations?.[UNDER_WAY] === markOf(crd, tools);
}

/** The same as a look: changes nothing. Throws ApiError, ConnectionError. */
export async function judgeCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<Judgement> {
  const changes = (await Promise.all(crds.map((each) => changeOf(each, tools)))).flat();
  const found = await Promise.all(changes.map((change) => hurtBy(change, tools)));
  const breaking = found.filter(({ hurt }) => hurt.length > 0);
  const [first, ...more] = breaking;
  if (first === undefined) return { problem: undefined, confirmed: [] };
  const token = tokenOf(breaking);
  if (token === tools.confirmed || breaking.every(({ change }) => isUnderWay(change, tools)))
    return { problem: undefined, confirmed: breaking.map(({ change }) => change) };
  const message = [first, ...more].map(({ change, hurt }) => `${nameOf(change.crd)} ${hurt.join("; ")}`);
  const remedy = `mend the objects or the definition, or confirm: annotate the AddonModule with ${CONFIRM_CRDS}=${token}, and ask for a run${staleNote(tools.confirmed)}`;
  return { problem: { file: first.change.file, message: message.join("; "), remedy }, confirmed: [] };
}

/** Covers the definitions in force, those that are to follow, and the objects that they break. */
function tokenOf(breaking: readonly Breaking[]): string {
  const covered = breaking.map(({ change: { live, crd }, affected }) => {
    const { uid = null, generation = null } = live.metadata;
    const inForce = live.spec as unknown as JsonObject;
    return [uid, generation, inForce, objectOf(crd["spec"]), affected.toSorted()];
  });
  return digestJson(covered).slice(3, 3 + TOKEN_LENGTH);
}

function staleNote(confirmed: string | undefined): string {
  if (confirmed === undefined || confirmed === "") return "";
  return `; its present value ${plainLine(confirmed, TOKEN_LENGTH + 1)} does not confirm this change`;
}

async function changeOf({ file, crd }: CrdFile, { client, signal }: CrdTools): Promise<Change[]> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: nameOf(crd) };
  const found = await get(client, target, { signal }).catch(ignoreNotFound);
  const live = found as unknown as StoredCrd | undefined;
  const losses = live === undefined ? [] : lossesOf(live, crd);
  return live === undefined || losses.length === 0 ? [] : [{ file, crd, live, losses }];
}

/** A sentence for each loss that somebody has, and the objects. */
async function hurtBy(change: Change, tools: CrdTools): Promise<Breaking> {
  const affected: string[] = [];
  const told = await Promise.all(
    change.losses.map((loss) => describe(change.live, { loss, affected }, tools)),
  );
  return { change, hurt: told.filter((each) => each !== undefined), affected };
}

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
  const trouble = await look(resourceIn(spec, loss.version), take, tools);
  // Objects that were not all read cannot be covered one by one.
  affected.push(...(trouble === undefined ? ids : [`${loss.what} unread`]));
  if (trouble !== undefined) return `${loss.what}: its objects cannot be looked at (${trouble})`;
  if (count === 0) return loss.always ? `${loss.what}, though none is there` : undefined;
  const more = count > named.length ? ` and ${count - named.length} more` : "";
  return `${loss.what}: ${spec.names.kind} ${named.join(", ")}${more}`;
}

/** Hands all objects over, page by page; resolves with the reason where they cannot be read, or not in time. */
async function look(
  resource: ReturnType<typeof resourceIn>,
  take: (object: WatchedObject) => void,
  { client, clock, signal }: CrdTools,
): Promise<string | undefined> {
  const limit = timeLimit(clock, LOOK_MS);
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
    if (limit.signal.aborted) return `not all in ${LOOK_MS / 1000} s`;
    // Nothing is served, or it is not ours to see.
    if (isNotFound(error) || (error instanceof ApiError && error.status === FORBIDDEN)) return undefined;
    return oneLine(error);
  } finally {
    limit.end();
  }
}

function timeLimit(clock: Clock, ms: number): { readonly signal: AbortSignal; readonly end: () => void } {
  const controller = new AbortController();
  const timer = clock.setTimer(ms, () => controller.abort());
  return { signal: controller.signal, end: () => timer.cancel() };
}

/** Objects written at the same time; the client's other requests have connections left. */
const AT_ONCE = 12;
/** Until then all API servers of a cluster know the version to store; the API server itself waits as long for a new CRD. */
const KNOWN_MS = 5000;
const TELL_MS = 3000;

/**
 * Leaves no object in a version that `next` drops: the definition in force stores the version that `next` stores, each
 * object is written unchanged, and the CRD's record of stored versions says so. May be repeated after any failure. Throws
 * ProblemError where the definition in force does not know that version, ApiError, ConnectionError.
 */
async function migrate({ file, crd }: CrdFile, live: StoredCrd, tools: CrdTools): Promise<void> {
  const { client, signal } = tools;
  const version = storageVersion(crd);
  const { spec, metadata } = live;
  if (version === undefined || !spec.versions.some(({ name }) => name === version)) {
    const message = `stores version ${version}, which the definition in force does not have: objects cannot be converted`;
    throw new ProblemError([{ file, message, remedy: "take a definition that has both versions first" }]);
  }
  await storeIn(version, live, tools);
  const resource = resourceIn(spec, version);
  const objects = await namesOf(resource, tools);
  const tell = teller(`objects of ${metadata.name} in ${version}`, objects.length, tools);
  await inParallel(AT_ONCE, objects, async ({ namespace, name }) => {
    const target = { resource, namespace, name };
    await mergePatch(client, target, { body: {}, signal }).catch(ignoreNotFound);
    tell();
  });
  const status = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: metadata.name, subresource: "status" };
  await mergePatch(client, status, { body: { status: { storedVersions: [version] } }, signal });
}

/** The definition in force stores objects in that version, and every API server knows it. */
async function storeIn(
  version: string,
  { metadata, spec }: StoredCrd,
  { client, clock, signal }: CrdTools,
): Promise<void> {
  if (spec.versions.some((each) => each.name === version && each.storage && each.served)) return;
  const versions = spec.versions.map((each) => ({
    ...each,
    storage: each.name === version,
    served: each.served || each.name === version,
  }));
  const definition = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: metadata.name };
  await mergePatch(client, definition, { body: { spec: { versions } }, signal });
  await sleep(clock, KNOWN_MS, signal);
}

async function namesOf(
  resource: Resource,
  { client, clock, signal = new AbortController().signal }: CrdTools,
): Promise<WatchedObject["metadata"][]> {
  const objects: WatchedObject["metadata"][] = [];
  const options = { client, clock, signal, unpaged: false };
  await listObjects({ resource, metadataOnly: true }, options, ({ metadata }) => void objects.push(metadata));
  return objects;
}

/** Called with each object that is done; tells how many are, at first and every few seconds. */
function teller(what: string, all: number, { clock, tell }: CrdTools): () => void {
  let done = 0;
  let toldAt = clock.monotonic();
  const progress = (): void => tell?.(`Rewrites ${count(done)} of ${count(all)} ${what}`);
  progress();
  return () => {
    done += 1;
    if (clock.monotonic() - toldAt < TELL_MS) return;
    toldAt = clock.monotonic();
    progress();
  };
}

function count(number: number): string {
  return number.toLocaleString("en-US");
}
