/** Creates and upgrades CRDs, or previews that (docs/reference/modules.md, "The chart"). */

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import {
  ApiError,
  CONVERSION_ANNOTATION,
  OWN_CRDS,
  serverSideApply,
  get,
  isNotFound,
  pathOf,
  type KubeClient,
} from "../../kube/index.ts";
import {
  shortenMiddle,
  exponentialDelay,
  mapInParallel,
  oneLine,
  sameJson,
  sleep,
  type Logger,
  type Scope,
} from "../../base/index.ts";
import { conditionOf, objectOf, ProblemError, asString } from "../../base/model/index.ts";
import type { Json, JsonObject, Problem } from "../../base/model/index.ts";
import { Loop } from "../../runtime/index.ts";
import { withoutServerFields } from "../manifest/difference.ts";
import { removeChangeMarks, checkCrds, refuseBreakingChanges } from "./breaking.ts";
import {
  crdName,
  crdTarget,
  readInstalledCrd,
  toResource,
  type CrdFile,
  type CrdRequest,
  type CrdTools,
  type InstalledCrd,
} from "./crd.ts";
import { takeOverConversion, takeOverFromHelm } from "./field-owners.ts";
import { readModuleCrds } from "./read-crds.ts";

/** A busy API server may need this long to serve new kinds. */
const SERVED_WITHIN_MS = 60_000;
/** Delays between reads. They grow, because definitions are large. */
const READ_DELAYS = { firstMs: 50, maxMs: 1000 };
/** Status codes of the server for content that it will never accept. */
const REFUSED_STATUSES: ReadonlySet<number> = new Set([400, 413, 422]);
/** RBAC's message with status 403; other messages with that status come from admission policies. */
const MISSING_PERMISSION = /\bUser ".*" cannot \w+ resource\b/;
const UNTYPED = "failed to create typed patch object";
/** Fields of metadata that belong to the author of a definition; all others belong to the server. */
const AUTHOR_METADATA = ["name", "labels", "annotations", "finalizers", "ownerReferences"];

/**
 * Creates or updates the CustomResourceDefinitions in `files`; never deletes one. Fields of others stay, such as the status
 * or a conversion that the file lacks. Returns the names once the API serves them all. Throws ApiError, ConnectionError for
 * failures that may pass. Throws ProblemError for a change that would break existing objects: then nothing is applied.
 * Throws it also for documents that are no definitions or that the server refuses: then all others are applied.
 */
export async function ensureCrds(files: readonly string[], tools: CrdTools): Promise<string[]> {
  const { crds, problems, dropped } = await readModuleCrds(files);
  if (dropped.size > 0) tools.onDropped?.(dropped);
  const confirmed = await refuseBreakingChanges(crds, tools);
  const { applied, refused } = await applyCrds(crds, tools);
  // A definition that the server refuses keeps its mark, so that a later run need not ask the user again.
  const confirmedAndApplied = confirmed.filter((name) => applied.includes(name));
  await removeChangeMarks(confirmedAndApplied, tools);
  const allProblems = [...problems, ...refused];
  if (allProblems.length > 0) throw new ProblemError(...allProblems);
  return applied;
}

/**
 * How many definitions of one module are applied at once. An API server needs up to a second of processor time for a large one, so that too
 * many would exceed the time limit of requests together, and so would each repetition.
 */
const MAX_APPLIED_AT_ONCE = 4;

/**
 * Applies all definitions, a few at a time, then waits until the API serves each. Does not check existing objects. Returns the names of
 * the applied definitions, and why the server refuses the others. Throws ApiError, ConnectionError.
 */
async function applyCrds(crds: readonly CrdFile[], tools: CrdTools) {
  const refused: Problem[] = [];
  const apply = async (each: CrdFile): Promise<CrdFile> => ({ ...each, crd: await applyCrd(each, tools) });
  const accepted = await mapInParallel(MAX_APPLIED_AT_ONCE, crds, (each) =>
    collectRefusal(apply(each), refused),
  );
  const deadline = tools.clock.monotonic() + SERVED_WITHIN_MS;
  const applied: string[] = [];
  for (const definition of accepted) {
    if (definition === undefined) continue;
    const served = waitUntilServed(definition, tools, deadline).then(() => crdName(definition.crd));
    const name = await collectRefusal(served, refused);
    if (name !== undefined) applied.push(name);
  }
  return { applied, refused };
}

/**
 * Waits for work on a definition. If the server refuses the definition, adds the problems to `refused` and returns undefined, so that
 * the caller still applies the other definitions. Throws all other errors.
 */
async function collectRefusal<T>(work: Promise<T>, refused: Problem[]): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    refused.push(...error.problems);
    return undefined;
  }
}

/** Checks files with definitions, for `lint`: problems, and warnings about fields that would not be applied. */
export async function checkCrdFiles(
  files: readonly string[],
): Promise<{ problems: readonly Problem[]; warnings: Problem[] }> {
  const { problems, dropped } = await readModuleCrds(files);
  const warnings = [...dropped].map(([file, fields]) => ({
    file,
    message: `has fields that no CustomResourceDefinition has, which are not applied: ${fields.join(", ")}`,
  }));
  return { problems, warnings };
}

/**
 * Whether the server will never accept this definition, so that only a user can help and retries are useless. A missing permission is no
 * such refusal: it may be granted later.
 */
function isPermanentRefusal(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  const { status, message } = error;
  // Otherwise an admission policy refuses the definition.
  if (status === 403) return !MISSING_PERMISSION.test(message);
  // Server-side apply has status 500 for an object that does not fit its type, such as two versions of one name.
  return REFUSED_STATUSES.has(status) || (status === 500 && message.includes(UNTYPED));
}

/** With `dryRun`, nothing is stored. */
interface ApplyTools extends CrdTools {
  readonly dryRun?: boolean;
}

/** Applies one definition, or only tries to. Throws ProblemError where the server refuses it for good, ApiError. */
async function applyCrd({ file, crd }: CrdFile, tools: ApplyTools): Promise<JsonObject> {
  try {
    const applied = await applyWithConversion(crd, tools);
    const hasTakenOver = tools.dryRun !== true && (await takeOverFromHelm(applied, tools));
    return hasTakenOver ? await applyWithConversion(crd, tools) : applied;
  } catch (error) {
    if (!isPermanentRefusal(error)) throw error;
    const message = `the API server refuses CRD ${crdName(crd)}: ${shortenMiddle(error)}`;
    const cure = error.status === 403 ? "satisfy the admission policy" : "correct the definition";
    throw new ProblemError({ file, message, remedy: `${cure}, then request a converge` });
  }
}

/**
 * Applies one definition. A conversion of another kind replaces the installed one as a whole, because the server refuses a mixture.
 * A conversion that a hook of the operator has configured stays. Throws ApiError.
 */
async function applyWithConversion(crd: JsonObject, tools: ApplyTools): Promise<JsonObject> {
  const { conversion, ...spec } = objectOf(crd["spec"]);
  if (conversion === undefined) return sendCrd(crd, tools);
  const live = (await readInstalledCrd(crdName(crd), tools)) ?? {};
  if (!isOtherConversion(objectOf(live["spec"])["conversion"], conversion)) return sendCrd(crd, tools);
  const isOfHook = CONVERSION_ANNOTATION in objectOf(objectOf(live["metadata"])["annotations"]);
  if (isOfHook) return sendCrd({ ...crd, spec }, tools);
  if (tools.dryRun === true) {
    const applied = await sendCrd({ ...crd, spec }, tools);
    return { ...applied, spec: { ...objectOf(applied["spec"]), conversion } };
  }
  await takeOverConversion(live, tools);
  return sendCrd(crd, tools);
}

/** Whether the installed conversion has a webhook, and the new one has none, or one that is called in another way. */
function isOtherConversion(installed: Json | undefined, wanted: Json): boolean {
  const [before = {}, after = {}] = [installed, wanted].map((conversion) =>
    objectOf(objectOf(objectOf(conversion)["webhook"])["clientConfig"]),
  );
  return ["url", "service"].some((way) => before[way] !== undefined && after[way] === undefined);
}

/** Applies one definition by server-side apply. Omits its status and metadata that belong to the server. Throws ApiError. */
function sendCrd(
  crd: JsonObject,
  { client, signal, labels, dryRun = false }: ApplyTools,
): Promise<JsonObject> {
  const { status: _, metadata: fullMetadata, ...body } = crd;
  const metadata = Object.fromEntries(
    Object.entries(objectOf(fullMetadata)).filter(([field]) => AUTHOR_METADATA.includes(field)),
  );
  const withExtraLabels = labels && { labels: { ...objectOf(metadata["labels"]), ...labels } };
  return serverSideApply(client, crdTarget(crdName(crd)), {
    body: { ...body, metadata: { ...metadata, ...withExtraLabels } },
    force: true,
    signal,
    dryRun,
  });
}

/**
 * Waits until the API serves the objects of a definition, because a chart with such objects fails before. Throws ProblemError
 * where another definition has its names, ApiError, and Error after the deadline.
 */
export async function waitUntilServed(
  { file, crd }: CrdFile,
  { client, clock, signal }: CrdTools,
  deadline = clock.monotonic() + SERVED_WITHIN_MS,
): Promise<void> {
  const target = crdTarget(crdName(crd));
  let installed = crd;
  for (let reads = 1; ; reads++) {
    if (
      conditionOf(installed, "Established", "True") !== undefined &&
      (await isServed(installed, client, signal))
    )
      return;
    signal?.throwIfAborted();
    const nameConflict = conditionOf(installed, "NamesAccepted", "False");
    if (nameConflict !== undefined) {
      const message = `CRD ${crdName(crd)}: its names are not accepted: ${asString(nameConflict["message"])}`;
      const remedy = "choose other names or remove the CRD that has them, then request a converge";
      throw new ProblemError({ file, message, remedy });
    }
    if (clock.monotonic() > deadline)
      throw new Error(`CRD ${crdName(crd)} is not served after ${SERVED_WITHIN_MS / 1000}s`);
    await sleep(clock, exponentialDelay(reads, READ_DELAYS), signal);
    installed = await get(client, target, { signal });
  }
}

/** Whether the server answers requests for the kind. The condition `Established` becomes true a moment before it does. */
async function isServed(
  crd: JsonObject,
  client: KubeClient,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { spec } = crd as unknown as InstalledCrd;
  const version = spec.versions.find((each) => each.served)?.name;
  // A definition that serves no version has nothing to wait for.
  if (version === undefined) return true;
  const path = pathOf(toResource(spec, version));
  try {
    await client.json({ path, query: { limit: 1 }, signal });
    return true;
  } catch (error) {
    // Without permission to list its objects, it suffices that the kind exists.
    return !isNotFound(error);
  }
}

const SOURCES_CRD = "modulesources.addon-operator.io";

/** Until the CRDs of the operator are applied again after an error. */
const OWN_CRDS_RETRY = { firstMs: 1000, maxMs: 300_000 };

interface OwnCrdTools extends Pick<CrdTools, "client" | "clock"> {
  readonly logger: Logger;
  readonly scope: Pick<Scope, "closeAtEnd">;
  readonly settings: { readonly sources: boolean };
}

/**
 * Creates or upgrades the operator's own CRDs at its start; that of ModuleSources only if `--sources` is set. Resolves after the first try: after an
 * error, such as without permission, logs a warning and tries again later, because modules run without statuses, too.
 */
export async function applyOwnCrds(tools: OwnCrdTools): Promise<void> {
  const { clock, logger, scope, settings } = tools;
  const names = OWN_CRDS.filter((name) => settings.sources || name !== SOURCES_CRD);
  let reported = "";
  const loop = new Loop({
    clock,
    retry: OWN_CRDS_RETRY,
    run: async (signal) => {
      await Promise.all(names.map((name) => applyOwnCrd(name, { ...tools, signal })));
    },
    onError: (cause) => {
      const error = oneLine(cause);
      if (error !== reported)
        logger.warn("The CRDs of the operator could not be applied; statuses need them", { error });
      reported = error;
    },
  });
  await scope
    .closeAtEnd(loop)
    .flush()
    .catch(() => {});
}

/** Applies an own CRD and waits until it is served. Sends the file as it is, because reading it as YAML delays each start. */
async function applyOwnCrd(name: string, tools: CrdTools): Promise<void> {
  const file = findOwnCrdFile(`${name.split(".", 1)[0]}.yaml`);
  const crd = await serverSideApply(tools.client, crdTarget(name), {
    body: await readFile(file, "utf8"),
    force: true,
    signal: tools.signal,
    // The operator's chart contains the same definitions, and helm would refuse to change fields of another manager.
    fieldManager: "helm",
  });
  await waitUntilServed({ file, crd }, tools);
}

/** Finds a CRD file of the operator, next to the bundled program or in the source tree. Where there is none, reading the path fails. */
function findOwnCrdFile(name: string): string {
  const paths = [`./crds/${name}`, `../../../crds/${name}`].map((path) =>
    fileURLToPath(new URL(path, import.meta.url)),
  );
  return paths.find((path) => existsSync(path)) ?? paths[0] ?? name;
}

/** A definition that would be changed, or created if `before` is undefined. */
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

/** Finds out by dry runs what applying the definitions in files would change. Throws ApiError, ConnectionError. */
export async function previewCrds({ files, ...request }: CrdRequest, tools: CrdTools): Promise<CrdPreview> {
  const { crds, problems } = await readModuleCrds(files);
  const { problem } = await checkCrds(crds, { ...tools, ...request });
  const refused: Problem[] = [];
  const previews = await mapInParallel(MAX_APPLIED_AT_ONCE, crds, (each) =>
    collectRefusal(previewCrd(each, tools), refused),
  );
  const changes = previews.filter((each) => each !== undefined);
  return { changes, problem: problem ?? problems[0] ?? refused[0] };
}

/** Finds out by a dry run what a definition would change in the installed one; undefined for nothing. */
async function previewCrd(file: CrdFile, tools: CrdTools): Promise<CrdChange | undefined> {
  const name = crdName(file.crd);
  const live = await readInstalledCrd(name, tools);
  const after = withoutServerFields(await applyCrd(file, { ...tools, dryRun: true }));
  const before = live === undefined ? undefined : withoutServerFields(live);
  return sameJson(before, after) ? undefined : { name, before, after };
}
