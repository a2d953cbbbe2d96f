/** The open connections of the server, and responses over HTTP/1.1 and HTTP/2. */

import type { Http2ServerRequest, Http2ServerResponse, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";

import { Timers, type Clock } from "../base/index.ts";
import { AddressRateLimiter, type ShareLimit } from "./limits.ts";

interface ConnectionOptions {
  readonly clock: Clock;
  readonly limit: ShareLimit;
  /** How many connections one address may open per second: each costs a TLS handshake. */
  readonly rate: number;
  /** Time in ms until the first request must have arrived as a whole. */
  readonly arriveMs: number;
}

/** The client's end of a connection. */
type Peer = Pick<Socket, "remoteAddress" | "remotePort">;

/**
 * Closes connections above the limit of their address, and connections on which no request arrives in time. At the total
 * limit, a new client takes the oldest connection of the address that has the most, if that address has more than the client.
 */
export class WebhookConnections {
  readonly #options: ConnectionOptions;
  /** Open connections by address, the oldest first. */
  readonly #sockets = new Map<string, Set<Socket>>();
  /** Timers that close a connection without a complete request, by peer key. */
  readonly #timers: Timers<string>;
  readonly #rates: AddressRateLimiter;
  #count = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#rates = new AddressRateLimiter(options.clock, options.rate);
  }

  /** Accepts a new connection, or closes it at once if a limit is reached. */
  add(socket: Socket): void {
    const { limit, arriveMs } = this.#options;
    const address = addressOf(socket);
    const key = peerKey(socket);
    const sockets = this.#sockets.get(address) ?? new Set();
    const isTooFast = !this.#rates.countEvent(address);
    if (isTooFast || sockets.size >= limit.perAddress) return void socket.destroy();
    const isFull = this.#count >= limit.total;
    if (isFull && !this.#closeOldestOfBusiestAddress(sockets.size)) return void socket.destroy();
    this.#sockets.set(address, sockets.add(socket));
    this.#count += 1;
    this.#timers.set(key, arriveMs, () => void socket.destroy());
    // A closed socket has no address: `address` and the key are read before.
    socket.once("close", () => {
      this.#remove(address, socket);
      this.#timers.cancel(key);
    });
  }

  /** Keeps the connection of this peer open, because a whole request has arrived on it. */
  cancelRequestTimeout(peer: Peer): void {
    this.#timers.cancel(peerKey(peer));
  }

  destroyAll(): void {
    for (const sockets of this.#sockets.values()) for (const socket of sockets) socket.destroy();
  }

  /**
   * Closes the oldest connection of the address that has the most, so that a client with `ownCount` connections may open one.
   * Returns false if no address has at least two more than the client: else the client would then have the most itself.
   */
  #closeOldestOfBusiestAddress(ownCount: number): boolean {
    let mostSockets = ownCount + 1;
    let busiestAddress = "";
    for (const [address, { size }] of this.#sockets) {
      if (size <= mostSockets) continue;
      mostSockets = size;
      busiestAddress = address;
    }
    const [oldest] = this.#sockets.get(busiestAddress) ?? [];
    if (mostSockets === ownCount + 1 || oldest === undefined) return false;
    this.#remove(busiestAddress, oldest);
    oldest.destroy();
    return true;
  }

  /** Stops counting a connection. Does nothing the second time: a displaced connection is removed before its `close` event. */
  #remove(address: string, socket: Socket): void {
    const sockets = this.#sockets.get(address);
    const wasOpen = sockets?.delete(socket) === true;
    if (!wasOpen) return;
    this.#count -= 1;
    if (sockets.size === 0) this.#sockets.delete(address);
  }
}

/** The IP address of a client; empty if the client has disconnected. */
export function addressOf({ remoteAddress = "" }: Peer): string {
  return remoteAddress;
}

/** Identifies a connection: the client's address and port. */
function peerKey(peer: Peer): string {
  return `${addressOf(peer)} ${peer.remotePort}`;
}

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

export const TEXT_TYPE = "text/plain; charset=utf-8";
export const TOO_MANY: ResponseContent = {
  status: 429,
  type: TEXT_TYPE,
  body: "too many requests at one time\n",
};

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
