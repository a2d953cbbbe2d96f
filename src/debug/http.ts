/** The pages of the public HTTP port: probes, queues and metrics. */

import { oneLine, type Clock, type KnownSecrets } from "../lib/index.ts";
import type { Exposition } from "../metrics/index.ts";
import { ProblemError, type Task } from "../model/index.ts";
import type { QueueView } from "../queue/index.ts";
import type { View } from "../state/index.ts";
import { isOfPage, isPageFile, refusal, type Page } from "../ui/index.ts";
import { fromLeader, type LeaderSources } from "./from-leader.ts";
import { dumpQueues, queueText } from "./queue-dump.ts";
import { serve, type Limits, type Listening, type WebAnswer, type WebRequest } from "./web.ts";

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
  const listening = serve(
    { host: address, port },
    {
      methods: ["GET", "HEAD"],
      limits,
      failed: sources.failed,
      async answer(request) {
        const { path } = request;
        const isPage = sources.page !== undefined && isOfPage(path);
        const isOwn = isPage ? isPageFile(path) || refusal(request) !== undefined : !OF_LEADER.has(path);
        const passedOn = isOwn ? undefined : await fromLeader(sources, request);
        if (passedOn !== undefined) return passedOn;
        if (isPage) return sources.page.answerGuarded(request);
        const route = ROUTES.get(path);
        return route === undefined ? { status: 404, body: "not found\n" } : route(sources, request);
      },
    },
  );
  return listening.catch((error: unknown) => {
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
