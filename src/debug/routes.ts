/** The routes of the debug socket. */

import { LOG_LEVELS, oneLine, parseDuration, withSuggestion, type LogLevel } from "../lib/index.ts";
import { describeProblem, GLOBAL, MAIN_QUEUE } from "../model/index.ts";
import type { Hook, Json, Module } from "../model/index.ts";
import { drawGraph, explainModule, graphData, graphOf, blockedBy } from "../plan/index.ts";
import type { State } from "../state/index.ts";
import { evaluateModule, overviewOf, stateSummaryOf } from "../status/index.ts";
import { traceEvent } from "../trace/index.ts";
import { suspendingKey } from "../values/index.ts";
import { bundleFiles } from "./bundle.ts";
import { followerResponse } from "./leader-proxy.ts";
import { dumpQueues, type QueueDump } from "./queue-dump.ts";
import type { Sources } from "./sources.ts";
import type { TemporaryLevel } from "./temporary-level.ts";

/** Data, which is rendered in the requested format, or text. */
export type RouteResponse =
  | { readonly status: number; readonly data: Json }
  | { readonly status: number; readonly text: string }
  | { readonly status: number; readonly queues: QueueDump };

/** A parsed request on the debug socket. */
export interface RouteRequest {
  readonly method: string;
  /** Segments of the path without the format. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Form fields of a POST. */
  readonly form: URLSearchParams;
}

/** What the routes read: the sources, and the log level that `config set` changes. */
export interface RouteContext extends Sources {
  readonly level: TemporaryLevel;
}

type Handler = (sources: RouteContext, request: RouteRequest) => RouteResponse | Promise<RouteResponse>;

const data = (value: Json): RouteResponse => ({ status: 200, data: value });
const failure = (status: number, text: string): RouteResponse => ({ status, text: `${text}\n` });

/** Answers a request on the debug socket. */
export async function handleRoute(sources: RouteContext, request: RouteRequest): Promise<RouteResponse> {
  const [first = "", ...rest] = request.path;
  const handler = Object.hasOwn(ROUTES, first) ? ROUTES[first] : undefined;
  if (handler === undefined) return failure(404, `no such path: /${request.path.join("/")}; see /discovery`);
  const leader = LEADER_ROUTES.has(first) ? sources.leader?.() : undefined;
  if (leader !== undefined) {
    const { status, body } = followerResponse(leader);
    return { status, text: body };
  }
  return handler(sources, { ...request, path: rest });
}

/** A follower refuses these routes and names the leader. */
const LEADER_ROUTES = new Set(["overview", "queue", "runs", "global", "module", "plan"]);

const ROUTES: Readonly<Record<string, Handler>> = {
  "": () => ({ status: 200, text: "addon-operator is alive\n" }),
  version: (sources) => data({ version: sources.version }),
  discovery: () => data(Object.keys(ROUTES).map((route) => `/${route}`)),
  overview,
  bundle: async (sources) => data(await bundleFiles(sources)),
  runs,
  queue,
  config,
  global,
  module,
  plan: async (sources) => data(await sources.plan()),
};

function overview({ state: { view }, queues, clock, secrets }: Sources): RouteResponse {
  return data(secrets.redactDeep(overviewOf({ view, queues: queues() }, clock.now())) as unknown as Json);
}

/** All queues with their tasks, or only the main queue. */
function queue({ queues, clock, secrets }: Sources, { path, query }: RouteRequest): RouteResponse {
  const displayed = path[0] === "main" ? queues().filter((each) => each.name === MAIN_QUEUE) : queues();
  const context = { now: clock.now(), secrets };
  return { status: 200, queues: dumpQueues(displayed, context, query.get("showEmpty") === "true") };
}

/** The last runs, or one run by its id, with its log lines. */
function runs({ runs, secrets }: Sources, { path: [id], query }: RouteRequest): RouteResponse {
  if (id !== undefined) {
    const run = runs.getRun(id);
    return run === undefined
      ? failure(404, `no such run: ${id}`)
      : data(secrets.redactDeep(run) as unknown as Json);
  }
  const since = query.get("since") ?? "0";
  if (!/^\d{1,15}$/.test(since))
    return failure(400, `since: "${since}" is not accepted; use the cursor of an answer`);
  const module = query.get("module") ?? undefined;
  const displayed = runs.listRuns({ module, after: Number(since), lines: query.get("lines") === "true" });
  return data(secrets.redactDeep(displayed) as unknown as Json);
}

/** Sets a runtime parameter on `POST set`; otherwise returns the parameters. */
function config(sources: RouteContext, { method, path, form }: RouteRequest): RouteResponse {
  if (path[0] === "set" && method === "POST") return setParameter(sources, form);
  return data({ "log.level": sources.level.current });
}

/** How long a level stays if the request has no duration; other levels stay. */
const DEFAULT_MS: Readonly<Partial<Record<LogLevel, number>>> = { debug: 1_800_000 };

/** Sets a runtime parameter. The level `debug` reverts after the given duration, or after 30 minutes. */
function setParameter(sources: RouteContext, form: URLSearchParams): RouteResponse {
  const [name, value, duration] = [form.get("name"), form.get("value") ?? "", form.get("duration")];
  if (name !== "log.level") return failure(400, `unknown parameter "${name ?? ""}"; known: log.level`);
  const level = LOG_LEVELS.find((each) => each === value);
  if (level === undefined)
    return failure(400, `log.level: "${value}" is not accepted; use ${LOG_LEVELS.join(", ")}`);
  const ms = duration === null || duration === "" ? DEFAULT_MS[level] : parseDuration(duration);
  if (ms === undefined && duration)
    return failure(400, `duration: "${duration}" is not accepted; use a duration such as 90s or 1m30s`);
  sources.level.set(level, ms);
  return data({ "log.level": level });
}

function global(sources: Sources, { path }: RouteRequest): RouteResponse {
  const [name = ""] = path;
  const view = Object.hasOwn(GLOBAL_VIEWS, name) ? GLOBAL_VIEWS[name] : undefined;
  return view === undefined
    ? failure(404, `global: use ${Object.keys(GLOBAL_VIEWS).join(", ")}`)
    : data(view(sources));
}

const GLOBAL_VIEWS: Readonly<Record<string, (sources: Sources) => Json>> = {
  list: ({ state }) => state.globalHooks.map((hook) => hook.name),
  values: ({ state }) => state.values.merged(GLOBAL).values,
  config: ({ state }) => state.values.configSection(GLOBAL) ?? {},
  patches: ({ state }) => state.values.patches(GLOBAL) as unknown as Json,
  snapshots: (sources) => snapshotsOf(sources, sources.state.globalHooks),
};

function snapshotsOf({ snapshots }: Sources, hooks: readonly Hook[]): Json {
  return Object.fromEntries(hooks.map((hook) => [hook.name, snapshots(hook.id)]));
}

/** Routes a request to the views of all modules, or to a view of one. */
function module(sources: Sources, request: RouteRequest): RouteResponse | Promise<RouteResponse> {
  const [name = "", view = ""] = request.path;
  const handlerOfAll =
    request.path.length === 1 && Object.hasOwn(ALL_MODULES, name) ? ALL_MODULES[name] : undefined;
  if (handlerOfAll !== undefined) return handlerOfAll(sources, request);
  const found = sources.state.module(name);
  if (found === undefined) return notFound(name, sources.state);
  const handler = Object.hasOwn(MODULE_VIEWS, view) ? MODULE_VIEWS[view] : undefined;
  if (handler === undefined) return failure(404, `module: use ${Object.keys(MODULE_VIEWS).join(", ")}`);
  return handler(sources, found.module, request);
}

function notFound(name: string, { view }: State): RouteResponse {
  return failure(500, `module not found: ${withSuggestion(name, [...view.modules.keys()])}`);
}

/** The graph of requirements between modules, as data or drawn. */
function graph({ state: { view }, clock, secrets }: Sources, { query }: RouteRequest): RouteResponse {
  const now = clock.now();
  const nodes = secrets.redactDeep(
    graphOf(view, (each) => evaluateModule(each, { now, wait: blockedBy(each, view) }).state),
  );
  const format = query.get("as");
  if (format === null) return data(graphData(nodes));
  if (format === "text" || format === "dot" || format === "mermaid")
    return { status: 200, text: drawGraph(nodes, format) };
  return failure(400, `as: "${format}" is not accepted; use text, dot or mermaid`);
}

/** The watched objects of the release of each enabled module. */
function monitors(sources: Sources): RouteResponse {
  const objectsOf = (name: string): Json => {
    const objects = sources.objects(name) ?? [];
    return objects.length === 0 ? "No monitor" : [...objects].sort();
  };
  const names = sources.state.view.enabledModules;
  return data(Object.fromEntries(names.map((name) => [name, objectsOf(name)])));
}

const ALL_MODULES: Readonly<Record<string, (sources: Sources, request: RouteRequest) => RouteResponse>> = {
  list: ({ state }) => data({ enabledModules: state.view.enabledModules.toSorted() }),
  "resource-monitor": monitors,
  graph,
};

type ModuleView = (
  sources: Sources,
  module: Module,
  request: RouteRequest,
) => RouteResponse | Promise<RouteResponse>;

const MODULE_VIEWS: Readonly<Record<string, ModuleView>> = {
  values(sources, found, { query }) {
    if (query.get("explain") === "true") return data(sources.state.values.explain(found.valuesKey));
    return withGlobal(found, query, (key) => sources.state.values.merged(key).values);
  },
  config: (sources, found, { query }) =>
    withGlobal(found, query, (key) => sources.state.values.configSection(key) ?? {}),
  patches({ state }, { valuesKey }) {
    const patches = state.values.patches(valuesKey);
    return data(patches.map((each) => ({ Operations: [each as unknown as Json] })));
  },
  snapshots: (sources, { name }) => data(snapshotsOf(sources, sources.state.module(name)?.hooks ?? [])),
  async render(sources, found, { query }) {
    return { status: 200, text: await sources.render(found, query.get("diff") === "true") };
  },
  diff: async (sources, found) => ({ status: 200, text: await sources.diff(found) }),
  status: (sources, { name }) => data(sources.secrets.redactDeep(statusOf(sources, name))),
  why({ state: { view }, queues, secrets }, { name }) {
    const module = view.modules.get(name);
    const sentences = module === undefined ? [] : explainModule(module, { view, queues: queues() });
    return { status: 200, text: `${secrets.redactDeep(sentences).join("\n")}\n` };
  },
  run(sources, found, { method }) {
    if (method !== "POST") return failure(405, "module run: use POST");
    traceEvent("request", { module: found.name }, () => sources.state.recordModule(found.name, "requested"));
    return { status: 200, text: `run of ${found.name} requested\n` };
  },
  rollback(sources, found, { method, form }) {
    if (method !== "POST") return failure(405, "module rollback: use POST");
    return requestRollback(sources, found.name, form.get("revision") ?? "");
  },
};

/** Requests a rollback to a revision; "" is the one before the current. */
function requestRollback(
  { state, rollbackTarget }: Sources,
  name: string,
  revisionText: string,
): RouteResponse {
  if (!/^\d{0,9}$/.test(revisionText)) return failure(400, `"${revisionText}" is not a revision number`);
  const { config, modules } = state.view;
  const { enabled = false, problem, suspended, module } = modules.get(name) ?? {};
  if (!enabled) return failure(409, `module ${name} is disabled. Enable it before you roll it back`);
  if (suspended === true && module !== undefined) {
    const key = suspendingKey(config, module.valuesKey);
    return failure(
      409,
      `module ${name} is suspended. Remove ${key} from the ConfigMap before you roll it back`,
    );
  }
  if (problem !== undefined) return failure(409, `module ${name} is Invalid: ${describeProblem(problem)}`);
  const revision = revisionText === "" ? undefined : Number(revisionText);
  try {
    const to = rollbackTarget(name, revision);
    traceEvent("request", { module: name }, () => state.recordModule(name, "rollbackRequested", to));
    const lasts = "It stays in force until you change chart or values, or request a run.";
    const next = `Follow it with: addon-operator module why ${name}`;
    return { status: 200, text: `rollback of ${name} to revision ${to} requested. ${lasts} ${next}\n` };
  } catch (error) {
    return failure(409, `${name}: ${oneLine(error)}`);
  }
}

/** Ready and Healthy of a module with their reasons, for the command `wait`. */
function statusOf({ state: { view }, queues, clock }: Sources, name: string): Json {
  const module = view.modules.get(name);
  return module === undefined ? {} : { ...stateSummaryOf(module, { view, queues: queues() }, clock.now()) };
}

/** A section of values, with the global section if the query requests it. */
function withGlobal(module: Module, query: URLSearchParams, section: (key: string) => Json): RouteResponse {
  if (query.get("global") !== "true") return data(section(module.valuesKey));
  return data({ [GLOBAL]: section(GLOBAL), [module.valuesKey]: section(module.valuesKey) });
}
