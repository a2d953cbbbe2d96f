/** Creates and upgrades CRDs, or tells what that would do (docs/MODULES.md, "The chart"). */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import {
  ApiError,
  applyPatch,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isNotFound,
  pathOf,
  type KubeClient,
} from "../../kube/index.ts";
import { bothEnds, oneLine, sameJson, sleep, type Logger } from "../../lib/index.ts";
import { conditionOf, objectOf, ProblemError, textOf } from "../../model/index.ts";
import type { JsonObject, Problem } from "../../model/index.ts";
import { plain } from "../manifest/manifest.ts";
import type { CrdRequest } from "../decide.ts";
import { endConfirmed, judgeCrds, refuseBreaking } from "./breaking.ts";
import { nameOf, resourceIn, type CrdFile, type CrdTools, type StoredCrd } from "./crd.ts";
import { readCrds } from "./read-crds.ts";

/** A busy API server may need this long to serve new kinds. */
const SERVED_WITHIN_MS = 60_000;
/** Definitions are large: they are read ever less often. */
const FIRST_STEP_MS = 50;
const LONGEST_STEP_MS = 1000;
/** What the server answers to content that it will never accept. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 422]);
/** What RBAC answers with status 403; everything else with that status is an admission policy. */
const MISSING_RIGHT = /\bUser ".*" cannot \w+ resource\b/;
/** What server-side apply answers, with status 500, to an object that does not fit its type: two versions of one name. */
const UNTYPED = "failed to create typed patch object";
/** Fields of metadata that belong to the author of a definition; all others belong to the server. */
const OWN_METADATA = ["name", "labels", "annotations", "finalizers", "ownerReferences"];

/**
 * Creates or updates the CustomResourceDefinitions in `files`; never deletes one. What belongs to others stays: a
 * conversion that the file does not have, the status. Resolves with their names when the API serves them all.
 * Throws ApiError, ConnectionError for what may succeed later. Throws ProblemError for a change that would break objects
 * that live: then nothing is applied. Throws it, too, for documents that are no definitions or that the server refuses:
 * then all others are applied.
 */
export async function ensureCrds(files: readonly string[], tools: CrdTools): Promise<string[]> {
  const { crds, problems, dropped } = readCrds(files);
  if (dropped.size > 0) tools.onDropped?.(dropped);
  const confirmed = await refuseBreaking(crds, tools);
  const { applied, refused } = await applyCrds(crds, tools);
  await endConfirmed(
    confirmed.filter((name) => applied.includes(name)),
    tools,
  );
  const all = [...problems, ...refused];
  if (all.length > 0) throw new ProblemError(all);
  return applied;
}

interface Applied {
  /** Names of definitions that are in force and served. */
  readonly applied: string[];
  /** Why the others are not. */
  readonly refused: readonly Problem[];
}

/** The same without a look at objects. Throws ApiError, ConnectionError. */
async function applyCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<Applied> {
  const refused: Problem[] = [];
  const collectRefused = (error: unknown): [] => {
    if (!(error instanceof ProblemError)) throw error;
    refused.push(...error.problems);
    return [];
  };
  const tries = crds.map(async (each) => [{ ...each, crd: await applyCrd(each, tools) }]);
  const accepted = (await Promise.all(tries.map((each) => each.catch(collectRefused)))).flat();
  const deadline = tools.clock.monotonic() + SERVED_WITHIN_MS;
  const applied: string[] = [];
  for (const each of accepted) {
    const names = await served(each, deadline, tools).then(() => [nameOf(each.crd)], collectRefused);
    applied.push(...names);
  }
  return { applied, refused };
}

/** What makes files with definitions unusable, and fields in them that are not applied. */
export function crdFaults(files: readonly string[]): { problems: readonly Problem[]; warnings: Problem[] } {
  const { problems, dropped } = readCrds(files);
  const warnings = [...dropped].map(([file, fields]) => ({
    file,
    message: `has fields that no CustomResourceDefinition has, which are not applied: ${fields.join(", ")}`,
  }));
  return { problems, warnings };
}

/** Whether the server will never accept this definition. A right that is missing may come any moment. */
function isRefusal(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  const { status, message } = error;
  if (status === 403) return !MISSING_RIGHT.test(message);
  return REFUSED.has(status) || (status === 500 && message.includes(UNTYPED));
}

/** Applies one, or asks what that would make of it. Throws ProblemError where the server refuses it, ApiError. */
async function applyCrd(
  { file, crd }: CrdFile,
  { client, signal, fieldManager }: CrdTools,
  dryRun = false,
): Promise<JsonObject> {
  const { status: _, metadata: given, ...body } = crd;
  const metadata = Object.fromEntries(
    Object.entries(objectOf(given)).filter(([field]) => OWN_METADATA.includes(field)),
  );
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: nameOf(crd) };
  try {
    return await applyPatch(client, target, {
      body: { ...body, metadata },
      force: true,
      signal,
      dryRun,
      ...(fieldManager && { fieldManager }),
    });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const message = `the API server refuses CRD ${nameOf(crd)}: ${bothEnds(error)}`;
    throw new ProblemError([{ file, message, remedy: remedyFor(error) }]);
  }
}

function remedyFor({ status }: ApiError): string {
  return `${status === 403 ? "satisfy the admission policy" : "correct the definition"}, then request a reload`;
}

/** Waits until the API serves it. Throws ProblemError where another definition has its names, ApiError. */
async function served(
  { file, crd }: CrdFile,
  deadline: number,
  { client, clock, signal }: CrdTools,
): Promise<void> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: nameOf(crd) };
  let now = crd;
  let step = FIRST_STEP_MS;
  while (conditionOf(now, "Established", "True") === undefined || !(await isServed(now, client, signal))) {
    signal?.throwIfAborted();
    const taken = conditionOf(now, "NamesAccepted", "False");
    if (taken) {
      const message = `CRD ${nameOf(crd)}: its names are not accepted: ${textOf(taken["message"])}`;
      const remedy = "choose other names or remove the CRD that has them, then request a reload";
      throw new ProblemError([{ file, message, remedy }]);
    }
    if (clock.monotonic() > deadline)
      throw new Error(`CRD ${nameOf(crd)} is not served after ${SERVED_WITHIN_MS / 1000}s`);
    await sleep(clock, step, signal);
    step = Math.min(2 * step, LONGEST_STEP_MS);
    now = await get(client, target, { signal });
  }
}

/** The condition is set a moment before the server answers for the kind. */
async function isServed(
  crd: JsonObject,
  client: KubeClient,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { spec } = crd as unknown as StoredCrd;
  const version = spec.versions.find((each) => each.served)?.name;
  if (version === undefined) return true;
  const path = pathOf(resourceIn(spec, version));
  try {
    await client.json({ path, query: { limit: 1 }, signal });
    return true;
  } catch (error) {
    // Without the right to list them, it is enough that the kind is there.
    return !isNotFound(error);
  }
}

const OWN_FILES = ["addonmodules.yaml", "addonoperators.yaml"];

interface OwnCrdTools extends Pick<CrdTools, "client" | "clock"> {
  readonly logger: Logger;
}

/** Creates or upgrades the operator's own CRDs; without the right to do so, logs that once and goes on. */
export async function applyOwnCrds({ client, clock, logger }: OwnCrdTools): Promise<void> {
  try {
    // helm installs the same definitions with the chart, and would refuse to change them if they had another owner.
    const { crds } = readCrds(OWN_FILES.map(fileOf));
    const { refused } = await applyCrds(crds, { client, clock, fieldManager: "helm" });
    if (refused.length > 0) throw new ProblemError(refused);
  } catch (error) {
    logger.warn("The CRDs of the operator could not be applied; statuses need them", {
      error: oneLine(error),
    });
  }
}

/** Beside the bundle, or in the source tree. */
function fileOf(name: string): string {
  const places = [`./crds/${name}`, `../../../crds/${name}`].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  return places.find((path) => existsSync(path)) ?? places[0] ?? name;
}

/** A definition that would be created, where there is nothing before, or changed. */
interface CrdChange {
  readonly name: string;
  readonly before: JsonObject | undefined;
  readonly after: JsonObject;
}

export interface CrdPreview {
  readonly changes: readonly CrdChange[];
  /** The first reason why the module would be Invalid: no definition, or a change that is refused. */
  readonly problem: Problem | undefined;
}

/** Compares definitions in files with those in force, by dry runs. Throws ApiError, ConnectionError. */
export async function previewCrds({ files, confirmed }: CrdRequest, tools: CrdTools): Promise<CrdPreview> {
  const { crds, problems } = readCrds(files);
  const { problem } = await judgeCrds(crds, { ...tools, confirmed });
  const refused: Problem[] = [];
  const changesOf = async (each: CrdFile): Promise<CrdChange[]> =>
    changeBy(each, tools).catch((error: unknown) => {
      if (!(error instanceof ProblemError)) throw error;
      refused.push(...error.problems);
      return [];
    });
  const changes = (await Promise.all(crds.map(changesOf))).flat();
  return { changes, problem: problem ?? problems[0] ?? refused[0] };
}

async function changeBy(file: CrdFile, tools: CrdTools): Promise<CrdChange[]> {
  const name = nameOf(file.crd);
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name };
  const live = await get(tools.client, target, { signal: tools.signal }).catch(ignoreNotFound);
  const after = plain(await applyCrd(file, tools, true));
  const before = live === undefined ? undefined : plain(live);
  return sameJson(before, after) ? [] : [{ name, before, after }];
}
