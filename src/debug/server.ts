import { chmod, mkdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { dirname } from "node:path";

import { oneLine, toYaml } from "../lib/index.ts";
import type { Json } from "../model/index.ts";
import { queueText } from "./queue-dump.ts";
import { answer } from "./routes.ts";
import type { Answer, Answers, Sources } from "./routes.ts";
import { TemporaryLevel } from "./temporary-level.ts";

/** A listening server. */
export interface Listening {
  readonly port: number;
  close(): Promise<void>;
}

const FORMAT = /\.(text|yaml|json)$/;
const FORM_LIMIT = 65_536;

/** Serves the debug routes on a unix socket of mode 0600. Throws when the path cannot be used. */
export async function serveSocket(path: string, sources: Sources): Promise<Listening> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await rm(path, { force: true });
  const answers = { ...sources, level: new TemporaryLevel(sources) };
  const server = createServer((request, response) => void respond(answers, request, response));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  await chmod(path, 0o600);
  return { port: 0, close: () => closeServer(server) };
}

/** Ends a server and the connections that idle on it. */
export function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function respond(answers: Answers, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", "http://socket");
  const format = FORMAT.exec(url.pathname)?.[1];
  const path = url.pathname.replace(FORMAT, "").split("/").filter(Boolean).map(decodeURIComponent);
  try {
    const form = new URLSearchParams(await bodyOf(request));
    const given = await answer(answers, {
      method: request.method ?? "GET",
      path,
      query: url.searchParams,
      form,
    });
    send(response, given.status, render(given, format));
  } catch (error) {
    send(response, 500, `${oneLine(error)}\n`);
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of request) {
    body += String(chunk);
    if (body.length > FORM_LIMIT) throw new Error("the request is too large");
  }
  return body;
}

function send(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(body);
}

/** Text for people, or the data as YAML or JSON. */
export function render(given: Answer, format: string | undefined): string {
  if ("text" in given) return given.text;
  if ("queues" in given && (format ?? "text") === "text") return queueText(given.queues);
  const value = "queues" in given ? (given.queues as unknown as Json) : given.data;
  return format === "json" ? `${JSON.stringify(value)}\n` : toYaml(value);
}
