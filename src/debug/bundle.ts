/** The files of a support archive, without secrets (docs/guides/debug.md, "For a bug report"). */

import { yieldToEventLoop, oneLine } from "../lib/index.ts";
import { GLOBAL, type Json, type JsonObject } from "../model/index.ts";
import { explainModule } from "../plan/index.ts";
import { missingObjects } from "../state/index.ts";
import { overviewOf, stateSummaryOf } from "../status/index.ts";
import { dumpQueues } from "./queue-dump.ts";
import type { Sources } from "./sources.ts";

type FileContent = (sources: Sources) => unknown;

/** Settings whose values are always secret. */
const SECRET_SETTINGS = new Set(["/settings/otlpHeaders"]);

const FILES: Readonly<Record<string, FileContent>> = {
  "about.json": ({ version, about, secrets, state: { view } }) => ({
    version,
    ...(secrets.redactValues(about(), SECRET_SETTINGS) as JsonObject),
    kubernetes: view.serverVersion ?? "unknown",
    missingRights: view.missingRights,
  }),
  "overview.json": ({ state: { view }, queues, clock }) =>
    overviewOf({ view, queues: queues() }, clock.now()),
  "queues.json": ({ queues, clock, secrets }) => dumpQueues(queues(), { now: clock.now(), secrets }, true),
  "global.json": globalFile,
  "modules.json": modulesFile,
  "directories.json": ({ state: { tree } }) => ({
    problems: tree.problems,
    warnings: [...tree.warnings, ...(tree.idleFiles ?? [])],
    refused: tree.refused,
    purgeHolds: tree.purgeHolds,
  }),
  "sources.json": ({ supply }) => supply() ?? {},
  "runs.json": ({ runs }) => runs.listRuns({ lines: true }),
  "metrics.txt": ({ metrics }) => metrics(),
};

/** The content of each file by its name; the error of one that fails. */
export async function bundleFiles(sources: Sources): Promise<Record<string, Json>> {
  const files: Record<string, Json> = {};
  for (const [name, part] of Object.entries(FILES)) files[name] = await contentOf(sources, part);
  return files;
}

/** The content of a file without secrets; its error if it cannot be computed. */
async function contentOf(sources: Sources, part: FileContent): Promise<Json> {
  try {
    return sources.secrets.redactDeep((await part(sources)) as Json);
  } catch (error) {
    return { error: sources.secrets.redactDeep(oneLine(error)) };
  }
}

function globalFile(sources: Sources): Json {
  return {
    hooks: sources.state.globalHooks.map(({ name }) => name),
    values: redactedValues(sources, GLOBAL),
  };
}

/** Merged values below their key, where the paths begin that schemas mark as secret. */
function redactedValues({ state, secrets }: Sources, key: string): Json {
  const { values, secretPaths } = state.values.merged(key);
  return secrets.redactValues({ [key]: values }, new Set(secretPaths));
}

/** Yields to the event loop after each module, so that a thousand modules do not delay the renewal of the Lease. */
async function modulesFile(sources: Sources): Promise<unknown> {
  const { state, queues, clock } = sources;
  const { view } = state;
  const snapshot = { view, queues: queues() };
  const all: unknown[] = [];
  for (const module of view.modules.values()) {
    const { valuesKey, dir, chartVersion, requires } = module.module;
    all.push({
      name: module.name,
      ...stateSummaryOf(module, snapshot, clock.now()),
      why: explainModule(module, snapshot),
      dir,
      chartVersion,
      requires,
      hooks: state.hooksOf(module.name).map(({ name }) => name),
      release: module.release,
      absent: missingObjects(module),
      values: redactedValues(sources, valuesKey),
      layers: state.values.explain(valuesKey),
    });
    await yieldToEventLoop();
  }
  return all;
}
