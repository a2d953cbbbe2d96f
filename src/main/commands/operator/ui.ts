/** The command `ui`: serves the operator's web page on loopback, by forwarding requests to its debug socket (docs/guides/web-page.md). */

import { request, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { pipeline } from "node:stream";

import { UsageError, socketPaths } from "../../../config/settings/index.ts";
import { serve, type RunningServer } from "../../../surface/debug/index.ts";
import { Children } from "../../../base/process/index.ts";
import { isPagePath, findRefusalReason, type RequestOrigin } from "../../../surface/ui/index.ts";
import { getFromSocket, type CommandLine, type Terminal } from "../table/row.ts";
import { queryFirstOperator } from "./socket.ts";

const LOOPBACK = "127.0.0.1";

/** Serves the page, prints its address and opens a browser. Never resolves: an interrupt ends the process. Throws NoOperatorError. */
export async function serveUi(line: CommandLine, terminal: Terminal): Promise<number> {
  const { port } = await startUiServer(line, terminal);
  const address = `http://localhost:${port}/ui/`;
  terminal.print(`The page is at ${address}. To stop the server, press Control+C.\n`);
  if (terminal.isTerminal) await openBrowser(address, terminal);
  return new Promise(() => {});
}

/** Opens a browser. A failure is ignored, because the address is printed. */
export async function openBrowser(address: string, { env }: Pick<Terminal, "env">): Promise<void> {
  const file = process.platform === "darwin" ? "open" : "xdg-open";
  const variables = Object.entries(env).filter((each): each is [string, string] => each[1] !== undefined);
  await new Children().run({ file, args: [address], cwd: tmpdir(), env: Object.fromEntries(variables) });
}

/** Starts a server on loopback that forwards requests for the page to the operator's debug socket. Throws NoOperatorError if no operator is running now. */
export async function startUiServer(
  { settings, flags }: CommandLine,
  { env }: Terminal,
): Promise<RunningServer> {
  const port = parsePort(flags.port);
  const socketFiles = socketPaths(settings(env).settings);
  await queryFirstOperator(socketFiles, getFromSocket("/version"));
  const handle = (requested: PageRequest): Promise<Answer> => forwardPageRequest(socketFiles, requested);
  try {
    return await serve({ host: LOOPBACK, port }, { methods: ["GET"], onError: () => {}, handle });
  } catch (error) {
    throw new UsageError([`port ${port} cannot be used (${(error as Error).message}); set --port`]);
  }
}

/** The number of `--port`; 0, which selects any free port, without the flag. Throws UsageError. */
function parsePort(text = "0"): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  throw new UsageError([`--port: "${text}" is not accepted; use a number below 65536`]);
}

interface PageRequest extends RequestOrigin {
  readonly path: string;
  readonly query: URLSearchParams;
}

type Answer = Awaited<ReturnType<Parameters<typeof serve>[1]["handle"]>>;

/** Forwards a request for the page to the first operator that listens. Refuses requests of other sites, which could read the state through the user's browser. */
async function forwardPageRequest(socketFiles: readonly string[], requested: PageRequest): Promise<Answer> {
  const reason = findRefusalReason(requested);
  if (reason !== undefined) return { status: 403, body: `${reason}\n` };
  if (requested.path === "/") return { status: 308, body: "see /ui/\n", headers: { location: "/ui/" } };
  if (!isPagePath(requested.path)) return { status: 404, body: "not found\n" };
  const path = `${requested.path}?${requested.query.toString()}`;
  for (const socketFile of socketFiles) {
    const response = await requestFromSocket(socketFile, path);
    if (response !== undefined) return streamResponse(response);
  }
  return { status: 502, body: "the operator no longer responds\n" };
}

/** Sends a GET request to a socket; undefined if no operator listens there. */
function requestFromSocket(socketPath: string, path: string): Promise<IncomingMessage | undefined> {
  return new Promise((resolve) => {
    const sent = request({ socketPath, path, agent: false }, resolve);
    sent.on("error", () => resolve(undefined));
    sent.end();
  });
}

/** Passes a response of the operator on as a stream, without headers that concern only one connection. When either side ends, so does the other. */
function streamResponse(operatorResponse: IncomingMessage): Answer {
  const headers = Object.fromEntries(
    Object.entries(operatorResponse.headers).filter(
      (each): each is [string, string] => typeof each[1] === "string" && !HOP_BY_HOP.has(each[0]),
    ),
  );
  return {
    status: operatorResponse.statusCode ?? 502,
    headers,
    stream: (response) => pipeline(operatorResponse, response, () => operatorResponse.destroy()),
  };
}

/** Headers that concern only one connection, and the date, which the server sets. */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);
