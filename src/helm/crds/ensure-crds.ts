/** Creates and upgrades CRDs, or previews that (docs/reference/modules.md, "The chart"). */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import {
  ApiError,
  serverSideApply,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isNotFound,
  pathOf,
  type KubeClient,
} from "../../kube/index.ts";
import { bothEnds, growingDelay, oneLine, sameJson, sleep, type Logger } from "../../lib/index.ts";
import { conditionOf, objectOf, ProblemError, asString } from "../../model/index.ts";
import type { JsonObject, Problem } from "../../model/index.ts";
import { plain } from "../manifest/manifest.ts";
import { endConfirmed, checkCrds, refuseBreaking } from "./breaking.ts";
import { crdName, resourceIn, type CrdFile, type CrdRequest, type CrdTools, type StoredCrd } from "./crd.ts";
import { readCrds, readModuleCrds } from "./read-crds.ts";

/** A busy API server may need this long to serve new kinds. */
const SERVED_WITHIN_MS = 60_000;
/** Delays between reads. They grow, because definitions are large. */
const PACE = { firstMs: 50, mostMs: 1000 };
/** Status codes of the server for content that it will never accept. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 422]);
/** RBAC's message with status 403; other messages with that status come from admission policies. */
const MISSING_RIGHT = /\bUser ".*" cannot \w+ resource\b/;
/** Message of server-side apply, with status 500, for an object that does not fit its type, such as two versions of one name. */
const UNTYPED = "failed to create typed patch object";
/** Fields of metadata that belong to the author of a definition; all others belong to the server. */
const OWN_METADATA = ["name", "labels", "annotations", "finalizers", "ownerReferences"];

/**
 * Creates or updates the CustomResourceDefinitions in `files`; never deletes one. Fields of others stay, such as the status
 * or a conversion that the file lacks. Returns the names once the API serves them all. Throws ApiError, ConnectionError for
 * failures that may pass. Throws ProblemError for a change that would break existing objects: then nothing is applied.
 * Throws it also for documents that are no definitions or that the server refuses: then all others are applied.
 */
export async function ensureCrds(files: readonly string[], tools: CrdTools): Promise<string[]> {
  const { crds, problems, dropped } = readModuleCrds(files);
  if (dropped.size > 0) tools.onDropped?.(dropped);
  const confirmed = await refuseBreaking(crds, tools);
  const { applied, refused } = await applyCrds(crds, tools);
  await endConfirmed(
    confirmed.filter((name) => applied.includes(name)),
    tools,
  );
  const all = [...problems, ...refused];
  if (all.length > 0) throw new ProblemError(...all);
  return applied;
}

interface Applied {
  /** Names of definitions that are applied and served. */
  readonly applied: string[];
  /** Why the others are not. */
  readonly refused: readonly Problem[];
}

/** Applies definitions without checking objects. Throws ApiError, ConnectionError. */
async function applyCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<Applied> {
  const refused: Problem[] = [];
  const collectRefused = collectorOf(refused);
  const tries = crds.map(async (each) => [{ ...each, crd: await applyCrd(each, tools) }]);
  const accepted = (await Promise.all(tries.map((each) => each.catch(collectRefused)))).flat();
  const deadline = tools.clock.monotonic() + SERVED_WITHIN_MS;
  const applied: string[] = [];
  for (const each of accepted) {
    const names = await waitUntilServed(each, deadline, tools).then(
      () => [crdName(each.crd)],
      collectRefused,
    );
    applied.push(...names);
  }
  return { applied, refused };
}

/** A handler of errors that adds the problems of a refused definition to the list, and throws all other errors. */
function collectorOf(refused: Problem[]): (error: unknown) => [] {
  return (error) => {
    if (!(error instanceof ProblemError)) throw error;
    refused.push(...error.problems);
    return [];
  };
}

/** Problems of files with definitions, and warnings about fields that are not applied. */
export function crdProblems(files: readonly string[]): { problems: readonly Problem[]; warnings: Problem[] } {
  const { problems, dropped } = readModuleCrds(files);
  const warnings = [...dropped].map(([file, fields]) => ({
    file,
    message: `has fields that no CustomResourceDefinition has, which are not applied: ${fields.join(", ")}`,
  }));
  return { problems, warnings };
}

/** Whether the server will never accept this definition. A missing permission does not count, because it may be granted later. */
function isRefusal(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  const { status, message } = error;
  if (status === 403) return !MISSING_RIGHT.test(message);
  return REFUSED.has(status) || (status === 500 && message.includes(UNTYPED));
}

/** Applies one definition, or does a dry run. Throws ProblemError where the server refuses it, ApiError. */
async function applyCrd(
  { file, crd }: CrdFile,
  { client, signal, fieldManager, labels }: CrdTools,
  dryRun = false,
): Promise<JsonObject> {
  const { status: _, metadata: given, ...body } = crd;
  const metadata = Object.fromEntries(
    Object.entries(objectOf(given)).filter(([field]) => OWN_METADATA.includes(field)),
  );
  const withExtraLabels = labels && { labels: { ...objectOf(metadata["labels"]), ...labels } };
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: crdName(crd) };
  try {
    return await serverSideApply(client, target, {
      body: { ...body, metadata: { ...metadata, ...withExtraLabels } },
      force: true,
      signal,
      dryRun,
      ...(fieldManager && { fieldManager }),
    });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const message = `the API server refuses CRD ${crdName(crd)}: ${bothEnds(error)}`;
    throw new ProblemError({ file, message, remedy: remedyFor(error) });
  }
}

function remedyFor({ status }: ApiError): string {
  return `${status === 403 ? "satisfy the admission policy" : "correct the definition"}, then request a converge`;
}

/** Waits until the API serves a definition. Throws ProblemError where another definition has its names, ApiError. */
async function waitUntilServed(
  { file, crd }: CrdFile,
  deadline: number,
  { client, clock, signal }: CrdTools,
): Promise<void> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: crdName(crd) };
  let now = crd;
  for (let reads = 1; ; reads++) {
    if (conditionOf(now, "Established", "True") !== undefined && (await isServed(now, client, signal)))
      return;
    signal?.throwIfAborted();
    const taken = conditionOf(now, "NamesAccepted", "False");
    if (taken) {
      const message = `CRD ${crdName(crd)}: its names are not accepted: ${asString(taken["message"])}`;
      const remedy = "choose other names or remove the CRD that has them, then request a converge";
      throw new ProblemError({ file, message, remedy });
    }
    if (clock.monotonic() > deadline)
      throw new Error(`CRD ${crdName(crd)} is not served after ${SERVED_WITHIN_MS / 1000}s`);
    await sleep(clock, growingDelay(reads, PACE), signal);
    now = await get(client, target, { signal });
  }
}

/** Whether the server answers for the kind. The condition `Established` becomes true a moment before that. */
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
    // Without permission to list its objects, it suffices that the kind exists.
    return !isNotFound(error);
  }
}

const OWN_FILES = ["addonmodules.yaml", "addonoperators.yaml"];
const SOURCES_FILE = "modulesources.yaml";

interface OwnCrdTools extends Pick<CrdTools, "client" | "clock"> {
  readonly logger: Logger;
  readonly settings: { readonly sources: boolean };
}

/** Creates or upgrades the operator's own CRDs, that of ModuleSources only where they are read; without permission, logs that once and continues. */
export async function applyOwnCrds({ client, clock, logger, settings }: OwnCrdTools): Promise<void> {
  try {
    // The chart contains the same definitions, and helm would refuse to change fields of another manager.
    const { crds } = readCrds([...OWN_FILES, ...(settings.sources ? [SOURCES_FILE] : [])].map(fileOf));
    const { refused } = await applyCrds(crds, { client, clock, fieldManager: "helm" });
    if (refused.length > 0) throw new ProblemError(...refused);
  } catch (error) {
    logger.warn("The CRDs of the operator could not be applied; statuses need them", {
      error: oneLine(error),
    });
  }
}

/** The path of a CRD file, next to the bundle or in the source tree. */
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

/** Compares definitions in files with the installed ones, by dry runs. Throws ApiError, ConnectionError. */
export async function previewCrds({ files, ...request }: CrdRequest, tools: CrdTools): Promise<CrdPreview> {
  const { crds, problems } = readModuleCrds(files);
  const { problem } = await checkCrds(crds, { ...tools, ...request });
  const refused: Problem[] = [];
  const collectRefused = collectorOf(refused);
  const changes = (await Promise.all(crds.map((each) => changeBy(each, tools).catch(collectRefused)))).flat();
  return { changes, problem: problem ?? problems[0] ?? refused[0] };
}

/** What a definition would change in the installed one, by a dry run. Empty if nothing. */
async function changeBy(file: CrdFile, tools: CrdTools): Promise<CrdChange[]> {
  const name = crdName(file.crd);
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name };
  const live = await get(tools.client, target, { signal: tools.signal }).catch(ignoreNotFound);
  const after = plain(await applyCrd(file, tools, true));
  const before = live === undefined ? undefined : plain(live);
  return sameJson(before, after) ? [] : [{ name, before, after }];
}
