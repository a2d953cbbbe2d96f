/** Sends responses over HTTP/1.1 and HTTP/2. */

import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from "node:http2";

/** Closes the connection that a request came on: the socket (HTTP/1.1) or the session (HTTP/2). */
export function closeConnection(request: Http2ServerRequest): void {
  if (request.httpVersionMajor === 1) request.socket.destroy();
  else request.stream.session?.destroy();
}

/** Calls `act` once the whole response is sent: now, if it is sent already. */
export function onceResponseSent(stream: ServerHttp2Stream, act: () => void): void {
  if (stream.writableFinished) act();
  else stream.once("finish", act);
}

export interface ResponseContent {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

export const TEXT = "text/plain; charset=utf-8";
export const TOO_MANY: ResponseContent = { status: 429, type: TEXT, body: "too many requests at one time\n" };

/** Sends a whole response, unless the client has disconnected or a response was sent. */
export function sendResponse(response: Http2ServerResponse, { status, type, body }: ResponseContent): void {
  if (response.destroyed || response.writableEnded) return;
  const headers = { "content-type": type };
  if (response.req.httpVersionMajor === 1) return void response.writeHead(status, headers).end(body);
  const { stream } = response;
  if (stream.closed || stream.headersSent) return;
  // `respond` of the stream sends no trailers, in contrast to `writeHead`: trailers could follow after the stream is reset.
  stream.respond({ ":status": status, ...headers });
  // Node itself ends the response to a HEAD request.
  if (!stream.writableEnded) stream.end(body);
}
