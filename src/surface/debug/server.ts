/** Serves the debug socket, a unix socket, at which the command line queries the running operator: parses paths, renders formats and errors. */

import { attempt, oneLine, toYaml, type Logger } from "../../base/index.ts";
import { isPagePath, isPageFile, type PageResponse } from "../ui/index.ts";
import { proxyToLeader } from "./leader-proxy.ts";
import { handleRoute, type RouteResponse, type RouteContext } from "./routes.ts";
import { SocketFile } from "./socket-file.ts";
import type { DebugSources } from "./sources.ts";
import { LogLevelControl } from "./sources.ts";
import { serve } from "./web.ts";
import type { Service, StreamResponse, WebLimits, WebRequest, WebResponse } from "./web.ts";

const FORMATS = ["text", "yaml", "json"];
/** Long enough to render a chart. */
const IDLE_MS = 600_000;

/** Serves the debug routes at the first usable path, and recreates the socket file if it is removed. Undefined if no path is usable. */
export async function serveFirstUsableSocket(
  paths: readonly string[],
  sources: DebugSources,
  logger: Logger,
): Promise<SocketFile | undefined> {
  const errors: string[] = [];
  for (const path of paths) {
    try {
      const socket = await serveSocket(path, sources);
      socket.restoreWhenRemoved(sources.clock, logger);
      return socket;
    } catch (error) {
      errors.push(`${path}: ${oneLine(error)}`);
    }
  }
  logger.warn(
    "No debug socket can be opened, so debug commands do not work. Set --debug-unix-socket to a usable path",
    { errors },
  );
  return undefined;
}

/** Serves the debug routes on a unix socket. Throws as `SocketFile.open`. */
export function serveSocket(
  path: string,
  sources: DebugSources,
  limits: Partial<WebLimits> = {},
): Promise<SocketFile> {
  const context = { ...sources, level: new LogLevelControl(sources) };
  const service: Service = {
    methods: ["GET", "HEAD", "POST"],
    limits: { idleMs: IDLE_MS, ...limits },
    onError: sources.onError,
    handle: (request) => answerRequest(context, request),
  };
  // The socket file is created under a temporary path first.
  return SocketFile.open(path, (temporaryPath) => serve({ path: temporaryPath }, service));
}

/** Answers a request for the web page or a debug route. A follower proxies the page's data to the leader. An error becomes a response with its message. */
async function answerRequest(
  context: RouteContext,
  request: WebRequest,
): Promise<WebResponse | StreamResponse | PageResponse> {
  const { method, path, query, body } = request;
  if (context.page !== undefined && isPagePath(path) && method !== "POST") {
    const proxied = isPageFile(path) ? undefined : await proxyToLeader(context, request);
    return proxied ?? context.page.answer(request);
  }
  const { segments, format } = parsePath(path);
  if (segments === undefined) return { status: 400, body: "the path contains an invalid percent-encoding\n" };
  try {
    const form = new URLSearchParams(body);
    const response = await handleRoute(context, { method, path: segments, query, form });
    return { status: response.status, body: renderResponse(response, format) };
  } catch (error) {
    return { status: 500, body: `${context.secrets.redact(oneLine(error))}\n` };
  }
}

/** Splits a path such as `/module/web/values.yaml` into its decoded segments and its format. Segments are undefined if one cannot be decoded. */
function parsePath(path: string): { segments: string[] | undefined; format: string | undefined } {
  const format = FORMATS.find((each) => path.endsWith(`.${each}`));
  const pathWithoutFormat = format === undefined ? path : path.slice(0, -format.length - 1);
  const segments = attempt(() => pathWithoutFormat.split("/").filter(Boolean).map(decodeURIComponent));
  return { segments, format };
}

/**
 * Renders the response as text, YAML or JSON. Without a requested format, a response that has a text is sent as text, others as YAML.
 * Data without a text is JSON in the format text, as the Go operator sends it.
 */
function renderResponse(response: RouteResponse, format: string | undefined): string {
  const { data } = response;
  if ("text" in response && (data === undefined || format === undefined || format === "text"))
    return response.text;
  return format === "json" || format === "text" ? `${JSON.stringify(data)}\n` : toYaml(data ?? null);
}
