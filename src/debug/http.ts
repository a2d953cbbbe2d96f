/** The pages of the public HTTP port: probes, queues and metrics. */

import { oneLine, type Clock, type KnownSecrets } from "../lib/index.ts";
import type { Exposition } from "../metrics/index.ts";
import { ProblemError, type Task } from "../model/index.ts";
import type { QueueView } from "../queue/index.ts";
import type { View } from "../state/index.ts";
import { isOfPage, isPageFile, refusal, type Page, type PageAnswer } from "../ui/index.ts";
import { fromLeader, type LeaderSources } from "./from-leader.ts";
import { dumpQueues, queueText } from "./queue-dump.ts";
import { serve, type Limits, type Listening } from "./web.ts";
import type { StreamAnswer, WebAnswer, WebRequest } from "./web.ts";

/** What the public port shows. None of it shows values or changes anything. */
export interface PublicSources extends LeaderSources {
  readonly clock: Clock;
  readonly view: () => View;
  readonly queues: () => readonly QueueView<Task>[];
  readonly secrets: KnownSecrets;
  readonly metrics: (exposition: Exposition) => Promise<string | Buffer>;
  readonly hookMetrics: () => Promise<string>;
  /** The answer to /readyz of a follower, which is its leader's; undefined for a leader. */
  readonly mirrored?: () => Promise<{ status: number; text: string } | undefined>;
  /** What is served below /ui; undefined where it is off. */
  readonly page?: Page | undefined;
  /** Called with an error that occurred while a request was answered. */
  readonly failed: (error: unknown) => void;
}

type Answer = WebAnswer | StreamAnswer | PageAnswer;
type Route = (sources: PublicSources, request: WebRequest) => WebAnswer | Promise<WebAnswer>;

const TYPES: Readonly<Record<Exposition, string>> = {
  plain: "text/plain; version=0.0.4; charset=utf-8",
  open: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ["/", (sources) => ({ status: 200, body: index(sources), type: "text/html; charset=utf-8" })],
  ["/healthz", () => ({ status: 200, body: "" })],
  ["/readyz", readyz],
  ["/status/converge", converge],
  ["/metrics", metrics],
  [
    "/metrics/hooks",
    async ({ hookMetrics }) => ({ status: 200, body: await hookMetrics(), type: TYPES.plain }),
  ],
  ["/queue", queue],
]);

/** What only the operator knows that works. */
const OF_LEADER = new Set(["/status/converge", "/queue"]);

/** Serves the public port. Throws ProblemError when the address cannot be used. */
export function servePublic(
  { address, port, limits = {} }: { address: string; port: number; limits?: Partial<Limits> },
  sources: PublicSources,
): Promise<Listening> {
  return listen({ address, port, limits }, sources.failed, async (request) => {
    const { path } = request;
    if (sources.page !== undefined && isOfPage(path)) return answerPage(sources.page, sources, request);
    const passedOn = OF_LEADER.has(path) ? await fromLeader(sources, request) : undefined;
    if (passedOn !== undefined) return passedOn;
    const route = ROUTES.get(path);
    return route === undefined ? NOT_FOUND : route(sources, request);
  });
}

/** Serves the page alone, so that it can be allowed to others than metrics are. Throws as `servePublic`. */
export function servePage(
  { address, port, limits = {} }: { address: string; port: number; limits?: Partial<Limits> },
  sources: LeaderSources & Pick<PublicSources, "failed"> & { readonly page: Page },
): Promise<Listening> {
  return listen({ address, port, limits }, sources.failed, async (request) =>
    isOfPage(request.path) ? answerPage(sources.page, sources, request) : NOT_FOUND,
  );
}

const NOT_FOUND: WebAnswer = { status: 404, body: "not found\n" };

async function answerPage(page: Page, sources: LeaderSources, request: WebRequest): Promise<Answer> {
  const isOwn = isPageFile(request.path) || refusal(request) !== undefined;
  return (isOwn ? undefined : await fromLeader(sources, request)) ?? page.answerGuarded(request);
}

function listen(
  { address, port, limits }: { address: string; port: number; limits: Partial<Limits> },
  failed: (error: unknown) => void,
  answer: (request: WebRequest) => Promise<Answer>,
): Promise<Listening> {
  const service = { methods: ["GET", "HEAD"], limits, failed, answer };
  return serve({ host: address, port }, service).catch((error: unknown) => {
    throw noPort({ address, port }, error);
  });
}

function noPort({ address, port }: { address: string; port: number }, error: unknown): ProblemError {
  const isTaken = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  return new ProblemError([
    {
      file: "the HTTP server",
      message: isTaken ? `port ${port} of ${address} is taken by another program` : oneLine(error),
      remedy: "end that program, or set --listen-address and --listen-port",
    },
  ]);
}

async function readyz(sources: PublicSources): Promise<WebAnswer> {
  const mirrored = await sources.mirrored?.();
  if (mirrored !== undefined) return { status: mirrored.status, body: mirrored.text };
  return sources.view().boot === "running"
    ? text("Startup converge done.\n")
    : { status: 500, body: "Startup converge in progress\n" };
}

/** OpenMetrics, which alone tells of exemplars, for who would rather have it, as Prometheus does. */
async function metrics(sources: PublicSources, { accept = "" }: WebRequest): Promise<WebAnswer> {
  const ranks = new Map(accept.split(",").map(rankOf).reverse());
  const open = ranks.get("application/openmetrics-text") ?? 0;
  const exposition = open > 0 && open >= (ranks.get("text/plain") ?? 0) ? "open" : "plain";
  return { status: 200, body: await sources.metrics(exposition), type: TYPES[exposition] };
}

/** A media type of the header Accept, and how much it is wanted: `text/plain;q=0.5`. */
function rankOf(wanted: string): [type: string, rank: number] {
  const [type = "", ...rest] = wanted.split(";").map((part) => part.trim().toLowerCase());
  const rank = rest.find((part) => part.startsWith("q="));
  return [type, rank === undefined ? 1 : Number(rank.slice(2))];
}

function converge(sources: PublicSources, { query }: WebRequest): WebAnswer {
  const { boot, reload: state } = sources.view();
  const tasks = state.phase === "idle" ? 0 : state.remaining.length + 1;
  const status = {
    STARTUP_CONVERGE_NOT_STARTED: boot !== "converging" && boot !== "running",
    STARTUP_CONVERGE_IN_PROGRESS: boot === "converging" ? tasks : 0,
    STARTUP_CONVERGE_DONE: boot === "running",
    CONVERGE_IN_PROGRESS: boot === "running" ? tasks : 0,
    CONVERGE_WAIT_TASK: boot === "running" && tasks === 0,
  };
  if (query.get("output") === "json") return json(status);
  if (status.STARTUP_CONVERGE_NOT_STARTED) return text("STARTUP_CONVERGE_NOT_STARTED\n");
  if (boot === "converging") return text(`STARTUP_CONVERGE_IN_PROGRESS: ${tasks} tasks\n`);
  const second = tasks === 0 ? "CONVERGE_WAIT_TASK" : `CONVERGE_IN_PROGRESS: ${tasks} tasks`;
  return text(`STARTUP_CONVERGE_DONE\n${second}\n`);
}

function queue(sources: PublicSources, { query }: WebRequest): WebAnswer {
  const { clock, secrets } = sources;
  const dump = dumpQueues(sources.queues(), { now: clock.now(), secrets }, true);
  return query.get("output") === "json" ? json(dump) : text(queueText(dump));
}

function index({ page }: PublicSources): string {
  const paths = [...ROUTES.keys(), ...(page === undefined ? [] : ["/ui/"])];
  const links = paths.map((path) => `<li><a href="${path}">${path}</a></li>`);
  return `<!doctype html><title>addon-operator</title><h1>addon-operator</h1><ul>${links.join("")}</ul>\n`;
}

function text(body: string): WebAnswer {
  return { status: 200, body };
}

function json(data: object): WebAnswer {
  return { status: 200, body: `${JSON.stringify(data)}\n`, type: "application/json" };
}
