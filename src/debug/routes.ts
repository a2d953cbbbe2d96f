/** The routes of the debug socket. */

import {
  LOG_LEVELS,
  oneLine,
  parseDuration,
  type Clock,
  type KnownSecrets,
  type LogLevel,
} from "../lib/index.ts";
import { describeProblem, GLOBAL, MAIN_QUEUE } from "../model/index.ts";
import type { Hook, Json, JsonObject, Module, Task } from "../model/index.ts";
import { drawGraph, explainModule, graphData, graphOf, heldBy } from "../plan/index.ts";
import type { QueueView } from "../queue/index.ts";
import type { State } from "../state/index.ts";
import { judge, overviewOf, standingOf } from "../status/index.ts";
import { happened, type RunRing } from "../trace/index.ts";
import type { Page } from "../ui/index.ts";
import { withMeant } from "../values/index.ts";
import { bundleOf } from "./bundle.ts";
import type { LeaderSources } from "./from-leader.ts";
import { dumpQueues, type QueueDump } from "./queue-dump.ts";
import type { TemporaryLevel } from "./server.ts";

/** What the debug views read. */
export interface Sources extends LeaderSources {
  readonly version: string;
  readonly clock: Clock;
  readonly state: State;
  readonly queues: () => readonly QueueView<Task>[];
  readonly secrets: KnownSecrets;
  /** Snapshots of a hook for people; keys are binding names. */
  readonly snapshots: (hookId: string) => Json;
  readonly render: (module: Module, diff: boolean) => Promise<string>;
  /** How the cluster differs from what a run would make of it; "" for nothing. */
  readonly diff: (module: Module) => Promise<string>;
  /** Objects that are watched for a module, as `namespace/Kind/name`; undefined = no release. */
  readonly objects: (module: string) => readonly string[] | undefined;
  /** The revision that a release would go back to. Throws where there is none. */
  readonly wayBack: (module: string, revision: number | undefined) => number;
  readonly plan: () => Promise<Json>;
  /** The last runs of tasks. */
  readonly runs: Pick<RunRing, "view" | "views">;
  /** Of what runs here: settings, platform. */
  readonly about: () => JsonObject;
  /** The operator's own series. */
  readonly metrics: () => Promise<string>;
  readonly log: { level: LogLevel };
  /** What is served below /ui. */
  readonly page?: Page | undefined;
  /** Called with an error that occurred while a request was answered. */
  readonly failed: (error: unknown) => void;
}

/** An answer: data (rendered as the client asks) or text as it is. */
export type Answer =
  | { readonly status: number; readonly data: Json }
  | { readonly status: number; readonly text: string }
  | { readonly status: number; readonly queues: QueueDump };

/** A request on the debug socket, already parsed. */
export interface Ask {
  readonly method: string;
  /** Segments of the path without the format ending. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Form fields of a POST. */
  readonly form: URLSearchParams;
}

/** What the routes read: the sources, and what `config set` has changed. */
export interface Answers extends Sources {
  readonly level: TemporaryLevel;
}

type Handler = (sources: Answers, ask: Ask) => Answer | Promise<Answer>;

const data = (value: Json): Answer => ({ status: 200, data: value });
const failure = (status: number, text: string): Answer => ({ status, text: `${text}\n` });

/** Routes of the debug socket. */
export async function answer(sources: Answers, ask: Ask): Promise<Answer> {
  const [first = "", ...rest] = ask.path;
  const handler = Object.hasOwn(ROUTES, first) ? ROUTES[first] : undefined;
  if (handler === undefined) return failure(404, `no such path: /${ask.path.join("/")}; see /discovery`);
  const leader = OF_LEADER.has(first) ? sources.leader?.() : undefined;
  if (leader !== undefined) return failure(503, `this operator does not lead: ask ${leader}, which does`);
  return handler(sources, { ...ask, path: rest });
}

/** What only the operator knows that works. */
const OF_LEADER = new Set(["overview", "queue", "runs", "global", "module", "plan"]);

const ROUTES: Readonly<Record<string, Handler>> = {
  "": () => ({ status: 200, text: "addon-operator is alive\n" }),
  version: (sources) => data({ version: sources.version }),
  discovery: () => data(Object.keys(ROUTES).map((route) => `/${route}`)),
  overview,
  bundle: async (sources) => data(await bundleOf(sources)),
  runs,
  queue,
  config,
  global,
  module,
  plan: async (sources) => data(await sources.plan()),
};

/** All modules at a glance. */
function overview({ state: { view }, queues, clock, secrets }: Sources): Answer {
  return data(secrets.redactDeep(overviewOf({ view, queues: queues() }, clock.now())) as unknown as Json);
}

function queue({ queues, clock, secrets }: Sources, { path, query }: Ask): Answer {
  const shown = path[0] === "main" ? queues().filter((each) => each.name === MAIN_QUEUE) : queues();
  const context = { now: clock.now(), secrets };
  return { status: 200, queues: dumpQueues(shown, context, query.get("showEmpty") === "true") };
}

/** The last runs, or one of them by its id, with its lines. */
function runs({ runs, secrets }: Sources, { path: [id], query }: Ask): Answer {
  if (id !== undefined) {
    const run = runs.view(id);
    return run === undefined
      ? failure(404, `no such run: ${id}`)
      : data(secrets.redactDeep(run) as unknown as Json);
  }
  const since = query.get("since") ?? "0";
  if (!/^\d{1,15}$/.test(since))
    return failure(400, `since: "${since}" is not accepted; use the cursor of an answer`);
  const module = query.get("module") ?? undefined;
  const shown = runs.views({ module, after: Number(since), lines: query.get("lines") === "true" });
  return data(secrets.redactDeep(shown) as unknown as Json);
}

function config(sources: Answers, { method, path, form }: Ask): Answer {
  if (path[0] === "set" && method === "POST") return setParameter(sources, form);
  return data({ "log.level": sources.level.now });
}

const DEFAULT_MS: Readonly<Partial<Record<LogLevel, number>>> = { debug: 1_800_000 };

/** Runtime parameters. `debug` falls back after 30 minutes, or after the given duration. */
function setParameter(sources: Answers, form: URLSearchParams): Answer {
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

function global(sources: Sources, { path }: Ask): Answer {
  const [what = ""] = path;
  const show = Object.hasOwn(GLOBAL_VIEWS, what) ? GLOBAL_VIEWS[what] : undefined;
  return show === undefined
    ? failure(404, `global: use ${Object.keys(GLOBAL_VIEWS).join(", ")}`)
    : data(show(sources));
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

function module(sources: Sources, ask: Ask): Answer | Promise<Answer> {
  const [name = "", what = ""] = ask.path;
  const ofAll = ask.path.length === 1 && Object.hasOwn(ALL_MODULES, name) ? ALL_MODULES[name] : undefined;
  if (ofAll !== undefined) return ofAll(sources, ask);
  const found = sources.state.module(name);
  if (found === undefined) return notFound(name, sources.state);
  const handler = Object.hasOwn(MODULE_VIEWS, what) ? MODULE_VIEWS[what] : undefined;
  if (handler === undefined) return failure(404, `module: use ${Object.keys(MODULE_VIEWS).join(", ")}`);
  return handler(sources, found.module, ask);
}

function notFound(name: string, { view }: State): Answer {
  return failure(500, `module not found: ${withMeant(name, [...view.modules.keys()])}`);
}

/** The graph of modules and what they require, as data or drawn. */
function graph({ state: { view }, clock, secrets }: Sources, { query }: Ask): Answer {
  const facts = { now: clock.now(), boot: view.boot };
  const nodes = secrets.redactDeep(
    graphOf(view, (each) => judge(each, { ...facts, wait: heldBy(each, view) }).state),
  );
  const format = query.get("as");
  if (format === null) return data(graphData(nodes));
  if (format === "text" || format === "dot" || format === "mermaid")
    return { status: 200, text: drawGraph(nodes, format) };
  return failure(400, `as: "${format}" is not accepted; use text, dot or mermaid`);
}

function monitors(sources: Sources): Answer {
  const objectsOf = (name: string): Json => {
    const objects = sources.objects(name) ?? [];
    return objects.length === 0 ? "No monitor" : [...objects].sort();
  };
  const names = sources.state.view.enabledModules;
  return data(Object.fromEntries(names.map((name) => [name, objectsOf(name)])));
}

const ALL_MODULES: Readonly<Record<string, (sources: Sources, ask: Ask) => Answer>> = {
  list: ({ state }) => data({ enabledModules: state.view.enabledModules.toSorted() }),
  "resource-monitor": monitors,
  graph,
};

type ModuleView = (sources: Sources, module: Module, ask: Ask) => Answer | Promise<Answer>;

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
    happened("request", { module: found.name }, () => sources.state.recordRequest(found.name));
    return { status: 200, text: `run of ${found.name} asked for\n` };
  },
  rollback(sources, found, { method, form }) {
    if (method !== "POST") return failure(405, "module rollback: use POST");
    return rollBack(sources, found.name, form.get("revision") ?? "");
  },
};

/** Asks for the way back to a revision; "" is the last that was in force before. */
function rollBack({ state, wayBack }: Sources, name: string, wanted: string): Answer {
  if (!/^\d{0,9}$/.test(wanted)) return failure(400, `"${wanted}" is no number of a revision`);
  const { enabled = false, problem } = state.view.modules.get(name) ?? {};
  if (!enabled) return failure(409, `${name} is off: nothing is rolled back`);
  if (problem !== undefined) return failure(409, `${name} does not run: ${describeProblem(problem)}`);
  const revision = wanted === "" ? undefined : Number(wanted);
  try {
    const to = wayBack(name, revision);
    happened("request", { module: name }, () => state.recordWayBack(name, to));
    const holds = "it stays in force until chart or values change, or a run is asked for";
    const look = `addon-operator module why ${name} says how far it is`;
    return { status: 200, text: `rollback of ${name} to revision ${to} asked for; ${holds}; ${look}\n` };
  } catch (error) {
    return failure(409, `${name}: ${oneLine(error)}`);
  }
}

/** What `wait` waits for: Ready and Healthy of the module's status, and why. */
function statusOf({ state: { view }, queues, clock }: Sources, name: string): Json {
  const module = view.modules.get(name);
  return module === undefined ? {} : { ...standingOf(module, { view, queues: queues() }, clock.now()) };
}

function withGlobal(module: Module, query: URLSearchParams, section: (key: string) => Json): Answer {
  if (query.get("global") !== "true") return data(section(module.valuesKey));
  return data({ [GLOBAL]: section(GLOBAL), [module.valuesKey]: section(module.valuesKey) });
}
