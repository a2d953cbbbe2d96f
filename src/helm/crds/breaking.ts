/** Refuses definitions that would break objects that live, until a person confirms it. */

import { digestJson, oneLine, type Clock } from "../../lib/index.ts";
import {
  ApiError,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isNotFound,
  listObjects,
  type WatchedObject,
} from "../../kube/index.ts";
import { objectOf, ProblemError, type Problem } from "../../model/index.ts";
import { nameOf, resourceIn, type CrdFile, type CrdTools, type StoredCrd } from "./crd.ts";
import { lossesOf, unstored, type Loss } from "./crd-changes.ts";
import { migrate } from "./migrate.ts";

/** Annotation of the AddonModule that confirms a change of its CRDs, by its token. */
export const CONFIRM_CRDS = "addon-operator.io/confirm-crds";

const LOOK_MS = 30_000;
const MOST_NAMED = 5;
const TOKEN_LENGTH = 12;
const FORBIDDEN = 403;

/** A definition that differs from the one that is in force. */
interface Change extends CrdFile {
  readonly live: StoredCrd;
  readonly losses: readonly Loss[];
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
 * `confirmed`, the token of exactly these definitions, it passes: objects in a stored version that goes are written anew
 * first. Throws ProblemError, ApiError, ConnectionError.
 */
export async function refuseBreaking(crds: readonly CrdFile[], tools: CrdTools): Promise<void> {
  const { problem, confirmed } = await judgeCrds(crds, tools);
  if (problem !== undefined) throw new ProblemError([problem]);
  for (const change of confirmed)
    if (unstored(change.live, change.crd).length > 0) await migrate(change, change.live, tools);
}

/** The same as a look: changes nothing. Throws ApiError, ConnectionError. */
export async function judgeCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<Judgement> {
  const changes = (await Promise.all(crds.map((each) => changeOf(each, tools)))).flat();
  const token = digestJson(changes.map(({ crd }) => objectOf(crd["spec"]))).slice(3, 3 + TOKEN_LENGTH);
  if (token === tools.confirmed) return { problem: undefined, confirmed: changes };
  const found = await Promise.all(
    changes.map(async (change) => ({ change, hurt: await hurtBy(change, tools) })),
  );
  const [first, ...more] = found.filter(({ hurt }) => hurt.length > 0);
  if (first === undefined) return { problem: undefined, confirmed: [] };
  const message = [first, ...more].map(({ change, hurt }) => `${nameOf(change.crd)} ${hurt.join("; ")}`);
  const remedy = `mend the objects or the definition, or confirm: annotate the AddonModule with ${CONFIRM_CRDS}=${token}, and ask for a run`;
  return { problem: { file: first.change.file, message: message.join("; "), remedy }, confirmed: [] };
}

async function changeOf({ file, crd }: CrdFile, { client, signal }: CrdTools): Promise<Change[]> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: nameOf(crd) };
  const found = await get(client, target, { signal }).catch(ignoreNotFound);
  const live = found as unknown as StoredCrd | undefined;
  const losses = live === undefined ? [] : lossesOf(live, crd);
  return live === undefined || losses.length === 0 ? [] : [{ file, crd, live, losses }];
}

/** A sentence for each loss that somebody has. */
async function hurtBy({ live, losses }: Change, tools: CrdTools): Promise<string[]> {
  const told = await Promise.all(losses.map((loss) => describe(live, loss, tools)));
  return told.filter((each) => each !== undefined);
}

async function describe({ spec }: StoredCrd, loss: Loss, tools: CrdTools): Promise<string | undefined> {
  const named: string[] = [];
  let count = 0;
  const take = (object: WatchedObject): void => {
    const how = loss.hits(object);
    if (how === undefined) return;
    count += 1;
    const { namespace, name } = object.metadata;
    const at = namespace === undefined ? name : `${namespace}/${name}`;
    if (named.length < MOST_NAMED) named.push(how === "" ? at : `${at} (${oneLine(how)})`);
  };
  const trouble = await look(resourceIn(spec, loss.version), take, tools);
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
