/** The public HTTP port: probes, queues, metrics, and the web page. */

import { oneLine, type Clock, type KnownSecrets } from "../lib/index.ts";
import type { Exposition } from "../metrics/index.ts";
import { ProblemError, type Task } from "../model/index.ts";
import type { QueueView } from "../queue/index.ts";
import type { View } from "../state/index.ts";
import { isPagePath, isPageFile, refusalReason, type Page, type PageResponse } from "../ui/index.ts";
import { proxyToLeader, type LeaderSources } from "./leader-proxy.ts";
import { dumpQueues, queueText } from "./queue-dump.ts";
import { serve, type WebLimits, type RunningServer } from "./web.ts";
import type { StreamResponse, WebResponse, WebRequest } from "./web.ts";

/** The data of the public port. It contains no values, and no request changes anything. */
export interface PublicSources extends LeaderSources {
  readonly clock: Clock;
  readonly view: () => View;
  readonly queues: () => readonly QueueView<Task>[];
  readonly secrets: KnownSecrets;
  readonly metrics: (exposition: Exposition) => Promise<string | Buffer>;
  readonly hookMetrics: () => Promise<string>;
  /** The leader's answer to /readyz, which a follower repeats; undefined while this operator leads. */
  readonly leaderReadiness?: () => Promise<{ status: number; text: string } | undefined>;
  /** Served below /ui; undefined if it is disabled. */
  readonly page?: Page | undefined;
  /** Called with errors of handlers. */
  readonly failed: (error: unknown) => void;
}

type HttpResponse = WebResponse | StreamResponse | PageResponse;
type Route = (sources: PublicSources, request: WebRequest) => WebResponse | Promise<WebResponse>;

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

/** A follower proxies these paths to the leader. */
const LEADER_PATHS = new Set(["/status/converge", "/queue"]);

/** Where a server listens, and its limits. */
interface Address {
  readonly address: string;
  readonly port: number;
  readonly limits?: Partial<WebLimits>;
}

/** Serves the public port. Throws ProblemError if the address cannot be used. */
export function servePublic(at: Address, sources: PublicSources): Promise<RunningServer> {
  return listen(at, sources.failed, async (request) => {
    const { path } = request;
    if (sources.page !== undefined && isPagePath(path)) return answerPage(sources.page, sources, request);
    const proxied = LEADER_PATHS.has(path) ? await proxyToLeader(sources, request) : undefined;
    if (proxied !== undefined) return proxied;
    const route = ROUTES.get(path);
    return route === undefined ? NOT_FOUND : route(sources, request);
  });
}

/** Serves only the page, so that access to it and to metrics can be granted separately. Throws as `servePublic`. */
export function servePage(
  at: Address,
  sources: LeaderSources & Pick<PublicSources, "failed"> & { readonly page: Page },
): Promise<RunningServer> {
  return listen(at, sources.failed, async (request) =>
    isPagePath(request.path) ? answerPage(sources.page, sources, request) : NOT_FOUND,
  );
}

const NOT_FOUND: WebResponse = { status: 404, body: "not found\n" };

/** Answers a request for the page. A follower proxies data to the leader, but serves files and refusals itself. */
async function answerPage(page: Page, sources: LeaderSources, request: WebRequest): Promise<HttpResponse> {
  const isLocal = isPageFile(request.path) || refusalReason(request) !== undefined;
  return (isLocal ? undefined : await proxyToLeader(sources, request)) ?? page.answerGuarded(request);
}

function listen(
  { address, port, limits = {} }: Address,
  failed: (error: unknown) => void,
  handle: (request: WebRequest) => Promise<HttpResponse>,
): Promise<RunningServer> {
  const service = { methods: ["GET", "HEAD"], limits, failed, handle };
  return serve({ host: address, port }, service).catch((error: unknown) => {
    throw listenError({ address, port }, error);
  });
}

/** An error that names the address and says how to choose another one. */
function listenError({ address, port }: Address, error: unknown): ProblemError {
  const isInUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  return new ProblemError({
    file: "the HTTP server",
    message: isInUse ? `port ${port} of ${address} is in use by another program` : oneLine(error),
    remedy: "stop that program, or set --listen-address and --listen-port",
  });
}

/** 200 after the start-up converge, 500 before it. A follower repeats the answer of the leader. */
async function readyz(sources: PublicSources): Promise<WebResponse> {
  const mirrored = await sources.leaderReadiness?.();
  if (mirrored !== undefined) return { status: mirrored.status, body: mirrored.text };
  return sources.view().boot === "running"
    ? text("Startup converge done.\n")
    : { status: 500, body: "Startup converge in progress\n" };
}

/** Answers in OpenMetrics, which alone supports exemplars, if the client prefers it, as Prometheus does. */
async function metrics(sources: PublicSources, { accept = "" }: WebRequest): Promise<WebResponse> {
  // Reversed, so that the first of equal media ranges is in force.
  const quality = new Map(accept.split(",").map(parseMediaRange).reverse());
  const openQuality = quality.get("application/openmetrics-text") ?? 0;
  const exposition = openQuality > 0 && openQuality >= (quality.get("text/plain") ?? 0) ? "open" : "plain";
  return { status: 200, body: await sources.metrics(exposition), type: TYPES[exposition] };
}

/** A media range of the header Accept with its quality: `text/plain;q=0.5`. */
function parseMediaRange(range: string): [type: string, quality: number] {
  const [type = "", ...rest] = range.split(";").map((part) => part.trim().toLowerCase());
  const quality = rest.find((part) => part.startsWith("q="));
  return [type, quality === undefined ? 1 : Number(quality.slice(2))];
}

/** The state of the start-up converge and of later ones. */
function converge(sources: PublicSources, { query }: WebRequest): WebResponse {
  const { boot, converge: state } = sources.view();
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

function queue(sources: PublicSources, { query }: WebRequest): WebResponse {
  const { clock, secrets } = sources;
  const dump = dumpQueues(sources.queues(), { now: clock.now(), secrets }, true);
  return query.get("output") === "json" ? json(dump) : text(queueText(dump));
}

function index({ page }: PublicSources): string {
  const paths = [...ROUTES.keys(), ...(page === undefined ? [] : ["/ui/"])];
  const links = paths.map((path) => `<li><a href="${path}">${path}</a></li>`);
  return `<!doctype html><title>addon-operator</title><h1>addon-operator</h1><ul>${links.join("")}</ul>\n`;
}

function text(body: string): WebResponse {
  return { status: 200, body };
}

function json(data: object): WebResponse {
  return { status: 200, body: `${JSON.stringify(data)}\n`, type: "application/json" };
}
