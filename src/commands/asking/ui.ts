/** The command `ui`: the page of a running operator on a port of loopback (docs/UI.md). */

import { request, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { pipeline } from "node:stream";

import { UsageError, socketPlaces } from "../../config.ts";
import { serve, type Listening } from "../../debug/index.ts";
import { run } from "../../process/index.ts";
import { isOfPage, refusal, type Whence } from "../../ui/index.ts";
import { get, type Line, type World } from "../table/row.ts";
import { callOperator } from "./socket.ts";

const LOOPBACK = "127.0.0.1";

/** Serves the page and says where, until it is interrupted. Throws NoOperatorError where no operator listens. */
export async function ui(line: Line, world: World): Promise<number> {
  const { port } = await openUi(line, world);
  const address = `http://localhost:${port}/ui/`;
  world.print(`The page is at ${address} until this is interrupted.\n`);
  if (world.isTerminal) await openBrowser(address, world);
  return new Promise(() => {});
}

/** Where there is none, the address was printed. */
export async function openBrowser(address: string, { env }: Pick<World, "env">): Promise<void> {
  const file = process.platform === "darwin" ? "open" : "xdg-open";
  const given = Object.entries(env).filter((each): each is [string, string] => each[1] !== undefined);
  await run({ file, args: [address], cwd: tmpdir(), env: Object.fromEntries(given) });
}

/** The server of the page, which passes requests on to the debug socket. */
export async function openUi({ settings, flags }: Line, { env }: World): Promise<Listening> {
  const port = portIn(flags["port"]);
  const places = socketPlaces(settings(env).settings);
  await callOperator(places, get("/version"));
  return serve(
    { host: LOOPBACK, port },
    {
      methods: ["GET"],
      failed: () => {},
      answer: (asked) => answer(places, asked),
    },
  ).catch((error: unknown) => {
    throw new UsageError([`port ${port} cannot be used (${(error as Error).message}); set --port`]);
  });
}

function portIn(text: string | true | undefined): number {
  const port = typeof text === "string" ? Number(text) : 0;
  if (Number.isInteger(port) && port >= 0 && port < 65_536) return port;
  throw new UsageError([`--port: "${text}" is not accepted; use a number below 65536`]);
}

interface Asked extends Whence {
  readonly path: string;
  readonly query: URLSearchParams;
}

type Answer = Awaited<ReturnType<Parameters<typeof serve>[1]["answer"]>>;

async function answer(places: readonly string[], asked: Asked): Promise<Answer> {
  const why = refusal(asked);
  if (why !== undefined) return { status: 403, body: `${why}\n` };
  if (asked.path === "/") return { status: 308, body: "see /ui/\n", headers: { location: "/ui/" } };
  if (!isOfPage(asked.path)) return { status: 404, body: "not found\n" };
  const path = `${asked.path}?${asked.query.toString()}`;
  for (const place of places) {
    const found = await passOn(place, path);
    if (found !== undefined) return passedBack(found);
  }
  return { status: 502, body: "the operator does not answer any more\n" };
}

/** Undefined where nobody listens. */
function passOn(socketPath: string, path: string): Promise<IncomingMessage | undefined> {
  return new Promise((resolve) => {
    const sent = request({ socketPath, path, agent: false }, resolve);
    sent.on("error", () => resolve(undefined));
    sent.end();
  });
}

/** As it came; when either side ends, so does the other. */
function passedBack(from: IncomingMessage): Answer {
  const headers = Object.fromEntries(
    Object.entries(from.headers).filter(
      (each): each is [string, string] => typeof each[1] === "string" && !OF_CONNECTIONS.has(each[0]),
    ),
  );
  return {
    status: from.statusCode ?? 502,
    headers,
    stream: (response) => pipeline(from, response, () => from.destroy()),
  };
}

/** What is said of one connection is not said of the other. */
const OF_CONNECTIONS = new Set(["connection", "keep-alive", "transfer-encoding", "date"]);
