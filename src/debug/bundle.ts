/** What is put into a support archive (docs/DEBUG.md, "For a bug report"): all of it without secrets. */

import { breathe, oneLine } from "../lib/index.ts";
import { GLOBAL, type Json, type JsonObject } from "../model/index.ts";
import { explainModule } from "../plan/index.ts";
import { missingObjects } from "../state/index.ts";
import { overviewOf, standingOf } from "../status/index.ts";
import { dumpQueues } from "./queue-dump.ts";
import type { Sources } from "./routes.ts";

type Part = (sources: Sources) => unknown;

/** Settings that hold a secret whatever it looks like. */
const SECRET_SETTINGS = new Set(["/settings/otlpHeaders"]);

/** The files of the archive, by name. */
const PARTS: Readonly<Record<string, Part>> = {
  "about.json": ({ version, about, secrets, state: { view } }) => ({
    version,
    ...(secrets.redactValues(about(), SECRET_SETTINGS) as JsonObject),
    kubernetes: view.serverVersion ?? "not asked for",
    missingRights: view.missingRights,
  }),
  "overview.json": ({ state: { view }, queues, clock }) =>
    overviewOf({ view, queues: queues() }, clock.now()),
  "queues.json": ({ queues, clock, secrets }) => dumpQueues(queues(), { now: clock.now(), secrets }, true),
  "global.json": globals,
  "modules.json": modules,
  "directories.json": ({ state: { tree } }) => ({
    problems: tree.problems,
    warnings: [...tree.warnings, ...(tree.idleFiles ?? [])],
    refused: tree.refused,
    purgeHolds: tree.purgeHolds,
  }),
  "runs.json": ({ runs }) => runs.views({ lines: true }),
  "metrics.txt": ({ metrics }) => metrics(),
};

/** Every file with its content; one that cannot be made says why. */
export async function bundleOf(sources: Sources): Promise<Record<string, Json>> {
  const files: Record<string, Json> = {};
  for (const [name, part] of Object.entries(PARTS)) files[name] = await contentOf(sources, part);
  return files;
}

async function contentOf(sources: Sources, part: Part): Promise<Json> {
  try {
    return sources.secrets.redactDeep((await part(sources)) as Json);
  } catch (error) {
    return { error: sources.secrets.redactDeep(oneLine(error)) };
  }
}

function globals(sources: Sources): Json {
  return { hooks: sources.state.globalHooks.map(({ name }) => name), values: valuesOf(sources, GLOBAL) };
}

/** Merged values below their key: there the paths begin that schemas mark as secret. */
function valuesOf({ state, secrets }: Sources, key: string): Json {
  const { values, secretPaths } = state.values.merged(key);
  return secrets.redactValues({ [key]: values }, new Set(secretPaths));
}

/** A thousand modules must not keep the lease from being renewed. */
async function modules(sources: Sources): Promise<unknown> {
  const { state, queues, clock } = sources;
  const { view } = state;
  const moment = { view, queues: queues() };
  const all: unknown[] = [];
  for (const module of view.modules.values()) {
    const { valuesKey, dir, chartVersion, requires } = module.module;
    all.push({
      name: module.name,
      ...standingOf(module, moment, clock.now()),
      why: explainModule(module, moment),
      dir,
      chartVersion,
      requires,
      hooks: state.hooksOf(module.name).map(({ name }) => name),
      release: module.release,
      absent: missingObjects(module),
      values: valuesOf(sources, valuesKey),
      layers: state.values.explain(valuesKey),
    });
    await breathe();
  }
  return all;
}
