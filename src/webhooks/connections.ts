/** The open connections of the server. */

import type { Socket } from "node:net";

import type { Clock, Timer } from "../lib/index.ts";
import { Rates } from "./rates.ts";
import type { ShareLimit } from "./shares.ts";

interface ConnectionOptions {
  readonly clock: Clock;
  readonly limit: ShareLimit;
  /** New ones of an address a second: each costs a handshake. */
  readonly rate: number;
  /** Time in ms until the first request must have arrived as a whole. */
  readonly arriveMs: number;
}

type Peer = Pick<Socket, "remoteAddress" | "remotePort">;

/**
 * Ends connections above the limit of their address, and those without a request. If all places are taken, the address that
 * has the most connections loses its oldest one to a new client that has fewer.
 */
export class Connections {
  readonly #options: ConnectionOptions;
  /** By address, the oldest first. */
  readonly #sockets = new Map<string, Set<Socket>>();
  /** Of connections without a request, by address and port. */
  readonly #timers = new Map<string, Timer>();
  readonly #rates: Rates;
  #count = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#rates = new Rates(options.clock, options.rate);
  }

  add(socket: Socket): void {
    const { clock, limit, arriveMs } = this.#options;
    const [address, name] = [addressOf(socket), nameOf(socket)];
    const own = this.#sockets.get(address) ?? new Set();
    if (
      !this.#rates.add(address) ||
      own.size >= limit.each ||
      (this.#count >= limit.all && !this.#displace(own.size))
    )
      return void socket.destroy();
    this.#sockets.set(address, own.add(socket));
    this.#count += 1;
    this.#timers.set(
      name,
      clock.setTimer(arriveMs, () => void socket.destroy()),
    );
    // A closed socket has no address.
    socket.once("close", () => {
      this.#remove(address, socket);
      this.#endTimer(name);
    });
  }

  /** A request has arrived on the connection of this peer. */
  arrived(peer: Peer): void {
    this.#endTimer(nameOf(peer));
  }

  #endTimer(name: string): void {
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
  }

  destroy(): void {
    for (const own of this.#sockets.values()) for (const socket of own) socket.destroy();
  }

  /** Ends a connection for a client that has `few`. Returns whether there is one to end. */
  #displace(few: number): boolean {
    let most: [string, Set<Socket>] | undefined;
    for (const each of this.#sockets) if (each[1].size > (most?.[1].size ?? few + 1)) most = each;
    const [oldest] = most?.[1] ?? [];
    if (most === undefined || oldest === undefined) return false;
    this.#remove(most[0], oldest);
    oldest.destroy();
    return true;
  }

  #remove(address: string, socket: Socket): void {
    const own = this.#sockets.get(address);
    if (own?.delete(socket) !== true) return;
    this.#count -= 1;
    if (own.size === 0) this.#sockets.delete(address);
  }
}

/** The address of a client; empty if it has disconnected. */
export function addressOf({ remoteAddress = "" }: Peer): string {
  return remoteAddress;
}

function nameOf(peer: Peer): string {
  return `${addressOf(peer)} ${peer.remotePort}`;
}
