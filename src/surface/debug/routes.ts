/** The routes of the debug socket. A handler gets the path below its route, as segments, and returns text, data or an error. */

import { LOG_LEVELS, oneLine, parseDuration, withSuggestion, type LogLevel } from "../../base/index.ts";
import { describeProblem, GLOBAL, MAIN_QUEUE, member } from "../../base/model/index.ts";
import type { Hook, Json, Module } from "../../base/model/index.ts";
import { drawGraph, graphToJson, buildGraph } from "../../engine/plan/index.ts";
import type { State } from "../../engine/state/index.ts";
import { buildOverview, explainProjected, summarizeState } from "../../report/index.ts";
import { digestUserValues, suspendingKey } from "../../values/index.ts";
import { buildBundleFiles } from "./bundle.ts";
import { followerResponse } from "./leader-proxy.ts";
import { dumpQueue, dumpQueues, renderQueue, renderQueues } from "./queue-dump.ts";
import type { DebugSources, LogLevelControl } from "./sources.ts";

/** Data, which is rendered in the requested format, or text; text with data is the default among the formats. */
export type RouteResponse =
  | { readonly status: number; readonly data: Json }
  | { readonly status: number; readonly text: string; readonly data?: Json };

/** A parsed request on the debug socket. */
export interface RouteRequest {
  readonly method: string;
  /** Segments of the path without the format. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  readonly form: URLSearchParams;
}

/** What the routes read: the sources, and the log level that `config set` changes. */
export interface RouteContext extends DebugSources {
  readonly level: LogLevelControl;
}

type Handler = (sources: RouteContext, request: RouteRequest) => RouteResponse | Promise<RouteResponse>;

const dataResponse = (value: Json): RouteResponse => ({ status: 200, data: value });
const errorResponse = (status: number, text: string): RouteResponse => ({ status, text: `${text}\n` });

/** Answers a request on the debug socket. */
export async function handleRoute(sources: RouteContext, request: RouteRequest): Promise<RouteResponse> {
  const [first = "", ...pathBelow] = request.path;
  const handler = member(ROUTES, first);
  if (handler === undefined)
    return errorResponse(404, `no such path: /${request.path.join("/")}; see /discovery`);
  // Of what only the leader knows, a follower has no data.
  const otherLeader = LEADER_ROUTES.has(first) ? sources.leader?.() : undefined;
  if (otherLeader !== undefined) {
    const { status, body } = followerResponse(otherLeader);
    return { status, text: body };
  }
  return handler(sources, { ...request, path: pathBelow });
}

/** A follower refuses these routes and names the leader. */
const LEADER_ROUTES = new Set(["overview", "queue", "runs", "global", "module", "plan"]);

const ROUTES: Readonly<Record<string, Handler>> = {
  "": () => ({ status: 200, text: "addon-operator is alive\n" }),
  version: (sources) => dataResponse({ version: sources.version }),
  discovery: () => dataResponse(Object.keys(ROUTES).map((route) => `/${route}`)),
  overview: answerOverview,
  bundle: async (sources) => dataResponse(await buildBundleFiles(sources)),
  runs: answerRuns,
  queue: answerQueue,
  config: answerConfig,
  global: answerGlobal,
  module: answerModule,
  plan: async (sources) => dataResponse(await sources.plan()),
};

/** The states of the operator and of all modules, for `status` and `module list`. */
function answerOverview({ project, clock, secrets }: DebugSources): RouteResponse {
  const overview = buildOverview(project(), clock.now());
  return dataResponse(secrets.redactDeep(overview) as unknown as Json);
}

/** The main queue before it has had a task. */
const EMPTY_MAIN_QUEUE = { name: MAIN_QUEUE, length: 0, tasks: [] };

/** All queues with their tasks, or only the main queue. */
function answerQueue({ queues, clock, secrets }: DebugSources, { path, query }: RouteRequest): RouteResponse {
  const context = { now: clock.now(), secrets };
  if (path[0] === "main") {
    const main = queues().find((each) => each.name === MAIN_QUEUE) ?? EMPTY_MAIN_QUEUE;
    const mainDump = dumpQueue(main, context);
    return { status: 200, text: `${renderQueue(mainDump)}\n`, data: mainDump };
  }
  const dump = dumpQueues(queues(), context, query.get("showEmpty") === "true");
  return { status: 200, text: renderQueues(dump), data: dump as unknown as Json };
}

/** The last runs, or one run by its id, with its log lines. `since` is the cursor of an earlier answer: only runs that have changed later are returned. */
function answerRuns({ runs, secrets }: DebugSources, { path: [id], query }: RouteRequest): RouteResponse {
  if (id !== undefined) {
    const run = runs.getRun(id);
    return run === undefined
      ? errorResponse(404, `no such run: ${id}`)
      : dataResponse(secrets.redactDeep(run) as unknown as Json);
  }
  const since = query.get("since") ?? "0";
  if (!/^\d{1,15}$/.test(since))
    return errorResponse(400, `since: "${since}" is not accepted; use the cursor of an answer`);
  const module = query.get("module") ?? undefined;
  const displayed = runs.listRuns({ module, after: Number(since), lines: query.get("lines") === "true" });
  return dataResponse(secrets.redactDeep(displayed) as unknown as Json);
}

/** Sets a runtime parameter on `POST set`; otherwise returns the parameters. */
function answerConfig(sources: RouteContext, { method, path, form }: RouteRequest): RouteResponse {
  if (path[0] === "set" && method === "POST") return setParameter(sources, form);
  const description = "The level of the log";
  return dataResponse([{ name: "log.level", value: sources.level.current, default: "info", description }]);
}

/** How long a log level lasts if the request has no duration; a level without an entry is permanent. */
const DEFAULT_DURATION_MS: Readonly<Partial<Record<LogLevel, number>>> = { debug: 1_800_000 };

/** Sets a runtime parameter. The level `debug` reverts after the given duration or 30 minutes: a forgotten one would flood the log. */
function setParameter(sources: RouteContext, form: URLSearchParams): RouteResponse {
  const [name, value, duration] = [form.get("name"), form.get("value") ?? "", form.get("duration")];
  if (name !== "log.level") return errorResponse(400, `unknown parameter "${name ?? ""}"; known: log.level`);
  const level = LOG_LEVELS.find((each) => each === value);
  if (level === undefined)
    return errorResponse(400, `log.level: "${value}" is not accepted; use ${LOG_LEVELS.join(", ")}`);
  const ms = duration === null || duration === "" ? DEFAULT_DURATION_MS[level] : parseDuration(duration);
  if (ms === undefined && duration)
    return errorResponse(400, `duration: "${duration}" is not accepted; use a duration such as 90s or 1m30s`);
  sources.level.set(level, ms);
  return dataResponse({ "log.level": level });
}

/** Answers with what `global NAME` displays, such as the values or the hooks. */
function answerGlobal(sources: DebugSources, { path }: RouteRequest): RouteResponse {
  const [name = ""] = path;
  const view = member(GLOBAL_VIEWS, name);
  return view === undefined
    ? errorResponse(404, `global: use ${Object.keys(GLOBAL_VIEWS).join(", ")}`)
    : dataResponse(view(sources));
}

const GLOBAL_VIEWS: Readonly<Record<string, (sources: DebugSources) => Json>> = {
  list: ({ state }) => ({ globalHooks: state.globalHooks.map((hook) => hook.name) }),
  values: ({ state }) => state.values.mergedSection(GLOBAL).values,
  config: ({ state }) => state.values.configSection(GLOBAL) ?? {},
  patches: ({ state }) => state.values.patches(GLOBAL) as unknown as Json,
  snapshots: (sources) => readSnapshotsByHook(sources, sources.state.globalHooks),
};

/** The snapshots of hooks, by hook name and binding name. */
function readSnapshotsByHook({ snapshots }: DebugSources, hooks: readonly Hook[]): Json {
  return Object.fromEntries(hooks.map((hook) => [hook.name, snapshots(hook.id)]));
}

/** Routes a request to the views of all modules, or to a view of one. */
function answerModule(sources: DebugSources, request: RouteRequest): RouteResponse | Promise<RouteResponse> {
  const [name = "", view = ""] = request.path;
  const viewOfAll = request.path.length === 1 ? member(ALL_MODULES_VIEWS, name) : undefined;
  if (viewOfAll !== undefined) return viewOfAll(sources, request);
  const record = sources.state.module(name);
  if (record === undefined) return moduleNotFound(name, sources.state);
  const handler = member(MODULE_VIEWS, view);
  if (handler === undefined) return errorResponse(404, `module: use ${Object.keys(MODULE_VIEWS).join(", ")}`);
  return handler(sources, record.module, request);
}

/** The response for an unknown module. Suggests the most similar name. */
function moduleNotFound(name: string, { view }: State): RouteResponse {
  return errorResponse(500, `module not found: ${withSuggestion(name, [...view.modules.keys()])}`);
}

/** Answers with the graph of requirements between modules: as data, or drawn in the format of the parameter `as`. */
function answerGraph({ project, secrets }: DebugSources, { query }: RouteRequest): RouteResponse {
  const { view, modules } = project().explanation;
  const nodes = buildGraph(view, ({ name }) => modules.get(name)?.state ?? "");
  const format = query.get("as");
  const redacted = secrets.redactDeep(nodes);
  if (format === null) return dataResponse(graphToJson(redacted));
  if (format === "text" || format === "dot" || format === "mermaid")
    return { status: 200, text: drawGraph(redacted, format) };
  return errorResponse(400, `as: "${format}" is not accepted; use text, dot or mermaid`);
}

/** The watched objects of the release of each enabled module. */
function answerMonitors(sources: DebugSources): RouteResponse {
  const watchedObjectsOf = (name: string): Json => {
    const objects = sources.watchedObjects(name) ?? [];
    return objects.length === 0 ? "No monitor" : [...objects].sort();
  };
  const names = sources.state.view.enabledModules;
  return dataResponse(Object.fromEntries(names.map((name) => [name, watchedObjectsOf(name)])));
}

const ALL_MODULES_VIEWS: Readonly<
  Record<string, (sources: DebugSources, request: RouteRequest) => RouteResponse>
> = {
  list: ({ state }) => dataResponse({ enabledModules: state.view.enabledModules.toSorted() }),
  "resource-monitor": answerMonitors,
  graph: answerGraph,
};

type ModuleView = (
  sources: DebugSources,
  module: Module,
  request: RouteRequest,
) => RouteResponse | Promise<RouteResponse>;

const MODULE_VIEWS: Readonly<Record<string, ModuleView>> = {
  values(sources, found, { query }) {
    // The layer that set each value, instead of the value.
    if (query.get("explain") === "true")
      return dataResponse(sources.state.values.explainSection(found.valuesKey));
    return answerSection(found, query, (key) => sources.state.values.mergedSection(key).values);
  },
  config: (sources, found, { query }) =>
    answerSection(found, query, (key) => sources.state.values.configSection(key) ?? {}),
  patches({ state }, { valuesKey }) {
    const patches = state.values.patches(valuesKey);
    return dataResponse(patches.map((each) => ({ Operations: [each as unknown as Json] })));
  },
  snapshots: (sources, { name }) =>
    dataResponse(readSnapshotsByHook(sources, sources.state.module(name)?.hooks ?? [])),
  async render(sources, found, { query }) {
    return { status: 200, text: await sources.render(found, query.get("diff") === "true") };
  },
  diff: async (sources, found) => ({ status: 200, text: await sources.diff(found) }),
  status: ({ project, secrets }, { name }) =>
    dataResponse(secrets.redactDeep({ ...summarizeState(project(), name) })),
  why({ project, secrets }, { name }) {
    const reasons = secrets.redactDeep(explainProjected(project(), name));
    return { status: 200, text: `${reasons.join("\n")}\n`, data: { module: name, reasons } };
  },
  run(sources, found, { method }) {
    if (method !== "POST") return errorResponse(405, "module run: use POST");
    sources.state.beginEvent("request", { module: found.name });
    sources.state.recordModule(found.name, "runRequested");
    return { status: 200, text: `run of ${found.name} requested\n` };
  },
  rollback(sources, found, { method, form }) {
    if (method !== "POST") return errorResponse(405, "module rollback: use POST");
    return requestRollback(sources, found, form.get("revision") ?? "");
  },
};

/**
 * Requests a rollback of a module's release; an empty text selects the revision before the current one. Refuses the request, with the reason,
 * where the module cannot run. The module's next run carries it out.
 */
function requestRollback(
  { state, rollbackTarget }: DebugSources,
  module: Module,
  revisionText: string,
): RouteResponse {
  const { name } = module;
  if (!/^\d{0,9}$/.test(revisionText))
    return errorResponse(400, `"${revisionText}" is not a revision number`);
  const { config, modules } = state.view;
  const { enabled = false, problem, suspended } = modules.get(name) ?? {};
  if (!enabled) return errorResponse(409, `module ${name} is disabled. Enable it before you roll it back`);
  if (suspended === true) {
    const remedy = `Remove ${suspendingKey(config, module.valuesKey)} from the ConfigMap before you roll it back`;
    return errorResponse(409, `module ${name} is suspended. ${remedy}`);
  }
  if (problem !== undefined)
    return errorResponse(409, `module ${name} is Invalid: ${describeProblem(problem)}`);
  const revision = revisionText === "" ? undefined : Number(revisionText);
  try {
    const targetRevision = rollbackTarget(name, revision);
    state.beginEvent("request", { module: name });
    const userValuesDigest = digestUserValues(state.values, module);
    state.recordModule(name, "rollbackRequested", { revision: targetRevision, userValuesDigest });
    const requestText = `rollback of ${name} to revision ${targetRevision} requested.`;
    const lastsText = "It stays in force until you change chart or values, or request a run.";
    const nextText = `Follow it with: addon-operator module why ${name}`;
    return { status: 200, text: `${requestText} ${lastsText} ${nextText}\n` };
  } catch (error) {
    return errorResponse(409, `${name}: ${oneLine(error)}`);
  }
}

/** Answers with the module's section of values, and with the global section if the query has `global=true`. */
function answerSection(
  module: Module,
  query: URLSearchParams,
  readSection: (key: string) => Json,
): RouteResponse {
  const { valuesKey } = module;
  if (query.get("global") !== "true") return dataResponse(readSection(valuesKey));
  return dataResponse({ [GLOBAL]: readSection(GLOBAL), [valuesKey]: readSection(valuesKey) });
}
