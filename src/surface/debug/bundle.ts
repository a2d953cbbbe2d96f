/** The files of a support archive, without secrets (docs/guides/on-call.md, "For a bug report"). `sources` are the operator's data and objects. */

import { yieldToEventLoop, oneLine } from "../../base/index.ts";
import { GLOBAL, type Json, type JsonObject } from "../../base/model/index.ts";
import { listMissingObjects } from "../../engine/state/index.ts";
import { buildOverview, explainProjected, summarizeState } from "../../report/index.ts";
import { dumpQueues } from "./queue-dump.ts";
import type { DebugSources } from "./sources.ts";

type ContentBuilder = (sources: DebugSources) => unknown;

/** Settings whose values are always secret. */
const SECRET_SETTINGS = new Set(["/settings/otlpHeaders"]);

const FILE_CONTENTS: Readonly<Record<string, ContentBuilder>> = {
  "about.json": ({ version, platformInfo, secrets, state: { view } }) => ({
    version,
    ...(secrets.redactValues(platformInfo(), SECRET_SETTINGS) as JsonObject),
    kubernetes: view.serverVersion ?? "unknown",
    missingRights: view.missingRights,
  }),
  "overview.json": ({ project, clock }) => buildOverview(project(), clock.now()),
  "queues.json": ({ queues, clock, secrets }) => dumpQueues(queues(), { now: clock.now(), secrets }, true),
  "global.json": buildGlobalContent,
  "modules.json": buildModulesContent,
  "directories.json": ({ state: { tree } }) => ({
    problems: tree.problems,
    warnings: [...tree.warnings, ...(tree.notExecutableWarnings ?? [])],
    refused: tree.refused,
    purgeHolds: tree.purgeBlockers,
  }),
  "sources.json": ({ moduleSourceState }) => moduleSourceState() ?? {},
  "runs.json": ({ runs }) => runs.listRuns({ lines: true }),
  "metrics.txt": ({ metrics }) => metrics(),
};

/** Builds the content of each file of the support archive, by file name. A file that fails contains its error. */
export async function buildBundleFiles(sources: DebugSources): Promise<Record<string, Json>> {
  const files: Record<string, Json> = {};
  for (const [name, buildContent] of Object.entries(FILE_CONTENTS))
    files[name] = await buildRedactedContent(sources, buildContent);
  return files;
}

/** Builds the content of one file and redacts its secrets. A failure does not spoil the archive: its error becomes the content. */
async function buildRedactedContent(sources: DebugSources, buildContent: ContentBuilder): Promise<Json> {
  try {
    return sources.secrets.redactDeep((await buildContent(sources)) as Json);
  } catch (error) {
    return { error: sources.secrets.redactDeep(oneLine(error)) };
  }
}

/** The global hooks and the global values. */
function buildGlobalContent(sources: DebugSources): Json {
  return {
    hooks: sources.state.globalHooks.map(({ name }) => name),
    values: readRedactedValues(sources, GLOBAL),
  };
}

/** The merged values of a section without secrets. The values are put below their key, because the secret paths of schemas begin with it. */
function readRedactedValues({ state, secrets }: DebugSources, key: string): Json {
  const { values, secretPaths } = state.values.mergedSection(key);
  return secrets.redactValues({ [key]: values }, new Set(secretPaths));
}

/** State, values and reasons of each module. Yields to the event loop after each one: otherwise a thousand modules would delay the renewal of the Lease. */
async function buildModulesContent(sources: DebugSources): Promise<unknown> {
  const { state } = sources;
  const projection = sources.project();
  const contents: unknown[] = [];
  for (const module of projection.explanation.view.modules.values()) {
    const { valuesKey, dir, chartVersion, requires } = module.module;
    contents.push({
      name: module.name,
      ...summarizeState(projection, module.name),
      why: explainProjected(projection, module.name),
      dir,
      chartVersion,
      requires,
      hooks: state.hooksOf(module.name).map(({ name }) => name),
      release: module.release,
      absent: listMissingObjects(module),
      values: readRedactedValues(sources, valuesKey),
      layers: state.values.explainSection(valuesKey),
    });
    await yieldToEventLoop();
  }
  return contents;
}
