import { createServer } from "node:http";
import type { ServerResponse } from "node:http";

import { oneLine } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import type { Task } from "../model/index.ts";
import type { QueueView } from "../queue/index.ts";
import type { View } from "../state/index.ts";
import { dumpQueues, queueText } from "./queue-dump.ts";
import { closeServer } from "./server.ts";
import type { Listening } from "./server.ts";

/** What the public port shows; nothing here tells values or changes anything. */
export interface PublicSources {
  readonly clock: Clock;
  readonly view: () => View;
  readonly queues: () => readonly QueueView<Task>[];
  readonly metrics: () => Promise<string>;
  readonly hookMetrics: () => Promise<string>;
  /** A follower's answer to /readyz: its leader's; undefined for a leader. */
  readonly mirrored?: () => Promise<{ status: number; text: string } | undefined>;
}

type Route = (sources: PublicSources, url: URL) => Promise<[status: number, body: string, type?: string]>;

const TEXT = "text/plain; charset=utf-8";
const EXPOSITION = "text/plain; version=0.0.4; charset=utf-8";

const ROUTES: Readonly<Record<string, Route>> = {
  "/": () => Promise.resolve([200, index(), "text/html; charset=utf-8"]),
  "/healthz": () => Promise.resolve([200, ""]),
  "/readyz": readyz,
  "/status/converge": (sources, url) => Promise.resolve(converge(sources, url)),
  "/metrics": async (sources) => [200, await sources.metrics(), EXPOSITION],
  "/metrics/hooks": async (sources) => [200, await sources.hookMetrics(), EXPOSITION],
  "/queue": (sources, url) => Promise.resolve(queue(sources, url)),
};

/** Serves the public port (design: HTTP). Throws ProblemError when it cannot be had. */
export async function servePublic(
  listen: { address: string; port: number },
  sources: PublicSources,
): Promise<Listening> {
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://operator");
    const route = ROUTES[url.pathname];
    const answer: ReturnType<Route> =
      route === undefined ? Promise.resolve([404, "not found\n"]) : route(sources, url);
    answer.then(
      (given) => send(response, given),
      () => send(response, [500, "internal error\n"]),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(noPort(listen, error)));
    server.listen(listen.port, listen.address, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : listen.port,
    close: () => closeServer(server),
  };
}

function noPort({ address, port }: { address: string; port: number }, error: Error): ProblemError {
  const isTaken = "code" in error && error.code === "EADDRINUSE";
  return new ProblemError([
    {
      file: "the HTTP server",
      message: isTaken ? `port ${port} of ${address} is taken by another program` : oneLine(error),
      remedy: "end that program, or set --listen-address and --listen-port",
    },
  ]);
}

function send(response: ServerResponse, [status, body, type = TEXT]: Awaited<ReturnType<Route>>): void {
  response.writeHead(status, { "content-type": type });
  response.end(body);
}

async function readyz(sources: PublicSources): ReturnType<Route> {
  const mirrored = await sources.mirrored?.();
  if (mirrored !== undefined) return [mirrored.status, mirrored.text];
  return sources.view().boot === "running"
    ? [200, "Startup converge done.\n"]
    : [500, "Startup converge in progress\n"];
}

function converge(sources: PublicSources, url: URL): Awaited<ReturnType<Route>> {
  const { boot, converge: state } = sources.view();
  const tasks = state.phase === "idle" ? 0 : state.remaining + 1;
  const status = {
    STARTUP_CONVERGE_NOT_STARTED: boot !== "converging" && boot !== "running",
    STARTUP_CONVERGE_IN_PROGRESS: boot === "converging" ? tasks : 0,
    STARTUP_CONVERGE_DONE: boot === "running",
    CONVERGE_IN_PROGRESS: boot === "running" ? tasks : 0,
    CONVERGE_WAIT_TASK: boot === "running" && tasks === 0,
  };
  if (url.searchParams.get("output") === "json")
    return [200, `${JSON.stringify(status)}\n`, "application/json"];
  if (status.STARTUP_CONVERGE_NOT_STARTED) return [200, "STARTUP_CONVERGE_NOT_STARTED\n"];
  if (boot === "converging") return [200, `STARTUP_CONVERGE_IN_PROGRESS: ${tasks} tasks\n`];
  const second = tasks === 0 ? "CONVERGE_WAIT_TASK" : `CONVERGE_IN_PROGRESS: ${tasks} tasks`;
  return [200, `STARTUP_CONVERGE_DONE\n${second}\n`];
}

function queue(sources: PublicSources, url: URL): Awaited<ReturnType<Route>> {
  const dump = dumpQueues(sources.queues(), sources.clock.now(), true);
  if (url.searchParams.get("output") === "json")
    return [200, `${JSON.stringify(dump)}\n`, "application/json"];
  return [200, queueText(dump)];
}

function index(): string {
  const links = Object.keys(ROUTES).map((path) => `<li><a href="${path}">${path}</a></li>`);
  return `<!doctype html><title>addon-operator</title><h1>addon-operator</h1><ul>${links.join("")}</ul>\n`;
}
