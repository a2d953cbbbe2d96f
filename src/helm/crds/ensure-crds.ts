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
import { bothEnds, oneLine, readPlain, sameJson, sleep, type Logger } from "../../lib/index.ts";
import { collect, conditionOf, isJsonObject, objectOf, ProblemError, textOf } from "../../model/index.ts";
import type { JsonObject, Problem } from "../../model/index.ts";
import { documentsOf, plain } from "../manifest/manifest.ts";
import type { CrdRequest } from "../decide.ts";
import { judgeCrds, refuseBreaking } from "./breaking.ts";
import { nameOf, resourceIn, type CrdFile, type CrdTools, type StoredCrd } from "./crd.ts";

/** A busy API server may need this long to serve new kinds. */
const SERVED_WITHIN_MS = 60_000;
/** Definitions are large: they are read ever less often. */
const FIRST_STEP_MS = 50;
const LONGEST_STEP_MS = 1000;
/** What the server answers to content that it will never accept. */
const REFUSED: ReadonlySet<number> = new Set([400, 422]);

/**
 * Creates or updates the CustomResourceDefinitions in `files`; never deletes one. What belongs to others stays: a
 * conversion that the file does not have, the status. Resolves with their names when the API serves them all.
 * Throws ProblemError for a file that is broken, holds anything else, would break objects that live or is refused by the
 * server; ApiError.
 */
export async function ensureCrds(files: readonly string[], tools: CrdTools): Promise<string[]> {
  const crds = readCrds(files);
  await refuseBreaking(crds, tools);
  return applyCrds(crds, tools);
}

/** The same without a look at objects. */
async function applyCrds(crds: readonly CrdFile[], tools: CrdTools): Promise<string[]> {
  const applied = await Promise.all(crds.map((each) => applyCrd(each, tools)));
  const deadline = tools.clock.monotonic() + SERVED_WITHIN_MS;
  for (const crd of applied) await served(crd, deadline, tools);
  return applied.map(nameOf);
}

/** The definitions in files. Throws ProblemError. */
function readCrds(files: readonly string[]): CrdFile[] {
  return files.flatMap(readOne);
}

/** What makes files with definitions unusable. */
export function crdFaults(files: readonly string[]): Problem[] {
  const faults: Problem[] = [];
  for (const file of files) collect(faults, () => readOne(file));
  return faults;
}

function readOne(file: string): CrdFile[] {
  return documentsOf(readPlain(file).toString("utf8")).map((document) => {
    if (isJsonObject(document) && isCrd(document)) return { file, crd: document };
    const message = "holds something that is no CustomResourceDefinition of apiextensions.k8s.io/v1";
    throw problem(file, message, "move it to templates/, or correct its apiVersion and kind");
  });
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError([{ file, message, remedy }]);
}

function isCrd(document: JsonObject): boolean {
  const { apiVersion, kind } = document;
  return (
    apiVersion === "apiextensions.k8s.io/v1" && kind === "CustomResourceDefinition" && nameOf(document) !== ""
  );
}

/** Applies one, or asks what that would make of it. Throws ProblemError where the server refuses it, ApiError. */
async function applyCrd(
  { file, crd }: CrdFile,
  { client, signal, fieldManager }: CrdTools,
  dryRun = false,
): Promise<JsonObject> {
  const { status: _, ...body } = crd;
  const { creationTimestamp: __, ...metadata } = objectOf(body["metadata"]);
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
    if (error instanceof ApiError && REFUSED.has(error.status))
      throw problem(file, bothEnds(error), "correct the definition");
    throw error;
  }
}

async function served(crd: JsonObject, deadline: number, { client, clock, signal }: CrdTools): Promise<void> {
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name: nameOf(crd) };
  let now = crd;
  let step = FIRST_STEP_MS;
  while (conditionOf(now, "Established", "True") === undefined || !(await isServed(now, client, signal))) {
    signal?.throwIfAborted();
    const taken = conditionOf(now, "NamesAccepted", "False");
    if (taken) throw new Error(`CRD ${nameOf(crd)}: its names are not accepted: ${textOf(taken["message"])}`);
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
  const path = pathOf(resourceIn(spec, spec.versions.find((each) => each.served)?.name ?? ""));
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
    await applyCrds(readCrds(OWN_FILES.map(fileOf)), { client, clock, fieldManager: "helm" });
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
  /** Why nothing of it would happen: a broken file, or a change that is refused. */
  readonly problem: Problem | undefined;
}

/** Compares definitions in files with those in force, by dry runs. Throws ApiError, ConnectionError. */
export async function previewCrds({ files, confirmed }: CrdRequest, tools: CrdTools): Promise<CrdPreview> {
  try {
    const crds = readCrds(files);
    const { problem } = await judgeCrds(crds, { ...tools, confirmed });
    const changes = (await Promise.all(crds.map((each) => changeBy(each, tools)))).flat();
    return { changes, problem };
  } catch (error) {
    if (error instanceof ProblemError) return { changes: [], problem: error.problems[0] };
    throw error;
  }
}

async function changeBy(file: CrdFile, tools: CrdTools): Promise<CrdChange[]> {
  const name = nameOf(file.crd);
  const target = { resource: CUSTOM_RESOURCE_DEFINITIONS, name };
  const live = await get(tools.client, target, { signal: tools.signal }).catch(ignoreNotFound);
  const after = plain(await applyCrd(file, tools, true));
  const before = live === undefined ? undefined : plain(live);
  return sameJson(before, after) ? [] : [{ name, before, after }];
}
