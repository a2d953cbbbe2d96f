/**
 * The public HTTP port: probes, queues, metrics, and the web page. `sources` are functions that return the operator's data at the moment of a
 * request. A follower is an operator that waits to become the leader.
 */

import { oneLine, shareCalls, type Clock, type KnownSecrets } from "../../base/index.ts";
import type { Exposition } from "../../report/metrics/index.ts";
import { ProblemError, type Task } from "../../base/model/index.ts";
import type { QueueView } from "../../engine/queue/index.ts";
import type { View } from "../../engine/state/index.ts";
import { isPagePath, isPageFile, findRefusalReason, type Page, type PageResponse } from "../ui/index.ts";
import { proxyToLeader, type LeaderSources } from "./leader-proxy.ts";
import { dumpQueues, renderQueues } from "./queue-dump.ts";
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
  readonly onError: (error: unknown) => void;
}

type HttpResponse = WebResponse | StreamResponse | PageResponse;
type Route = (sources: PublicSources, request: WebRequest) => WebResponse | Promise<WebResponse>;

const CONTENT_TYPES: Readonly<Record<Exposition, string>> = {
  plain: "text/plain; version=0.0.4; charset=utf-8",
  open: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

const ROUTES: ReadonlyMap<string, Route> = new Map<string, Route>([
  ["/", (sources) => ({ status: 200, body: renderIndexPage(sources), type: "text/html; charset=utf-8" })],
  ["/healthz", () => ({ status: 200, body: "" })],
  ["/readyz", answerReadyz],
  ["/status/converge", answerConverge],
  ["/metrics", answerMetrics],
  [
    "/metrics/hooks",
    async ({ hookMetrics }) => ({ status: 200, body: await hookMetrics(), type: CONTENT_TYPES.plain }),
  ],
  ["/queue", answerQueue],
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
export function servePublic(address: Address, given: PublicSources): Promise<RunningServer> {
  const sources = { ...given, metrics: shareRendering(given) };
  return serveReadOnly(address, sources.onError, async (request) => {
    const { path } = request;
    if (sources.page !== undefined && isPagePath(path)) return answerPage(sources.page, sources, request);
    const proxied = LEADER_PATHS.has(path) ? await proxyToLeader(sources, request) : undefined;
    if (proxied !== undefined) return proxied;
    const route = ROUTES.get(path);
    return route === undefined ? NOT_FOUND : route(sources, request);
  });
}

/** For so long, in ms, a rendered text of the metrics answers further requests: rendering takes some milliseconds, and anyone may request it. */
const METRICS_CACHE_MS = 50;

/** Returns a function that renders the metrics at most every METRICS_CACHE_MS in each format. */
function shareRendering({ clock, metrics }: PublicSources): PublicSources["metrics"] {
  const render = {
    plain: shareCalls(clock, METRICS_CACHE_MS, () => metrics("plain")),
    open: shareCalls(clock, METRICS_CACHE_MS, () => metrics("open")),
  };
  return (exposition) => render[exposition]();
}

/** Serves only the page, so that access to it and to metrics can be granted separately. Throws as `servePublic`. */
export function servePage(
  address: Address,
  sources: LeaderSources & Pick<PublicSources, "onError"> & { readonly page: Page },
): Promise<RunningServer> {
  return serveReadOnly(address, sources.onError, async (request) =>
    isPagePath(request.path) ? answerPage(sources.page, sources, request) : NOT_FOUND,
  );
}

const NOT_FOUND: WebResponse = { status: 404, body: "not found\n" };

/** Answers a request for the web page. A follower proxies requests for data to the leader, but serves static files and refusals itself. */
async function answerPage(page: Page, sources: LeaderSources, request: WebRequest): Promise<HttpResponse> {
  const isLocal = isPageFile(request.path) || findRefusalReason(request) !== undefined;
  const proxied = isLocal ? undefined : await proxyToLeader(sources, request);
  return proxied ?? page.answerGuarded(request);
}

/** Starts an HTTP server that accepts only GET and HEAD. Throws ProblemError if the address cannot be used. */
function serveReadOnly(
  { address, port, limits = {} }: Address,
  onError: (error: unknown) => void,
  handle: (request: WebRequest) => Promise<HttpResponse>,
): Promise<RunningServer> {
  const service = { methods: ["GET", "HEAD"], limits, onError, handle };
  return serve({ host: address, port }, service).catch((error: unknown) => {
    throw toListenError({ address, port }, error);
  });
}

/** The error for an address on which the server cannot listen, with the settings that choose another one. */
function toListenError({ address, port }: Address, error: unknown): ProblemError {
  const isInUse = error instanceof Error && "code" in error && error.code === "EADDRINUSE";
  return new ProblemError({
    file: "the HTTP server",
    message: isInUse ? `port ${port} of ${address} is in use by another program` : oneLine(error),
    remedy: isInUse
      ? "stop that program, or set --listen-address and --listen-port"
      : "set --listen-address to an address of this machine, or to :: for all",
  });
}

/** 200 after the start-up converge, 500 before it. A follower repeats the answer of the leader: only a converged leader makes it ready. */
async function answerReadyz(sources: PublicSources): Promise<WebResponse> {
  const leaderAnswer = await sources.leaderReadiness?.();
  if (leaderAnswer !== undefined) return { status: leaderAnswer.status, body: leaderAnswer.text };
  return sources.view().boot === "running"
    ? textResponse("Startup converge done.\n")
    : { status: 500, body: "Startup converge in progress\n" };
}

/**
 * Answers with the metrics: in OpenMetrics, the only format with exemplars, if the client prefers it as Prometheus does;
 * otherwise in the plain text format.
 */
async function answerMetrics(sources: PublicSources, { accept = "" }: WebRequest): Promise<WebResponse> {
  // Reversed, so that the first of equal media ranges is in force.
  const qualityByType = new Map(accept.split(",").map(parseMediaRange).reverse());
  const openQuality = qualityByType.get("application/openmetrics-text") ?? 0;
  const plainQuality = qualityByType.get("text/plain") ?? 0;
  const exposition = openQuality > 0 && openQuality >= plainQuality ? "open" : "plain";
  return { status: 200, body: await sources.metrics(exposition), type: CONTENT_TYPES[exposition] };
}

/** Parses a media range of the header Accept, such as `text/plain;q=0.5`, into its type and quality. */
function parseMediaRange(range: string): [type: string, quality: number] {
  const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
  const quality = parameters.find((part) => part.startsWith("q="));
  return [type, quality === undefined ? 1 : Number(quality.slice(2))];
}

/** Answers with the state of the start-up converge and of later ones. Names and texts are those of the Go operator, for scripts. */
function answerConverge(sources: PublicSources, { query }: WebRequest): WebResponse {
  const { boot, converge } = sources.view();
  // The modules that have not run yet, and the converge itself.
  const taskCount = converge.phase === "idle" ? 0 : converge.remaining.length + 1;
  const status = {
    STARTUP_CONVERGE_NOT_STARTED: boot !== "converging" && boot !== "running",
    STARTUP_CONVERGE_IN_PROGRESS: boot === "converging" ? taskCount : 0,
    STARTUP_CONVERGE_DONE: boot === "running",
    CONVERGE_IN_PROGRESS: boot === "running" ? taskCount : 0,
    CONVERGE_WAIT_TASK: boot === "running" && taskCount === 0,
  };
  if (query.get("output") === "json") return jsonResponse(status);
  if (status.STARTUP_CONVERGE_NOT_STARTED) return textResponse("STARTUP_CONVERGE_NOT_STARTED\n");
  if (boot === "converging") return textResponse(`STARTUP_CONVERGE_IN_PROGRESS: ${taskCount} tasks\n`);
  const convergeText = taskCount === 0 ? "CONVERGE_WAIT_TASK" : `CONVERGE_IN_PROGRESS: ${taskCount} tasks`;
  return textResponse(`STARTUP_CONVERGE_DONE\n${convergeText}\n`);
}

/** Answers with all queues and their tasks, as text or JSON. */
function answerQueue(sources: PublicSources, { query }: WebRequest): WebResponse {
  const { clock, secrets } = sources;
  const dump = dumpQueues(sources.queues(), { now: clock.now(), secrets }, true);
  return query.get("output") === "json" ? jsonResponse(dump) : textResponse(renderQueues(dump));
}

/** An HTML page with a link to each route. */
function renderIndexPage({ page }: PublicSources): string {
  const paths = [...ROUTES.keys(), ...(page === undefined ? [] : ["/ui/"])];
  const links = paths.map((path) => `<li><a href="${path}">${path}</a></li>`);
  return `<!doctype html><title>addon-operator</title><h1>addon-operator</h1><ul>${links.join("")}</ul>\n`;
}

function textResponse(body: string): WebResponse {
  return { status: 200, body };
}

function jsonResponse(data: object): WebResponse {
  return { status: 200, body: `${JSON.stringify(data)}\n`, type: "application/json" };
}
