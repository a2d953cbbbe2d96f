/** The connections in use, replaced when the credentials change. */

import { Agent, ProxyAgent, Socks5ProxyAgent, type Dispatcher } from "undici";

import type { Clock, Logger } from "../../lib/index.ts";
import { ConnectionError } from "../api-errors.ts";
import { Credentials, type Access } from "./credentials.ts";
import type { CredentialsOptions } from "./kubeconfig.ts";
import { isWrite } from "./request.ts";

/** Credentials and the pools that go with them, replaced when credentials change. */
export class Connections {
  readonly credentials: Credentials;
  /** Called before each write except those of the lease. */
  mayWrite: () => boolean = () => true;
  #pools: Pools | undefined;
  #fingerprint = "";
  #closed = false;

  constructor(options: CredentialsOptions & { readonly logger: Logger }, clock: Clock) {
    this.credentials = new Credentials(options, clock);
  }

  async open(): Promise<{ access: Access; pools: Pools }> {
    const access = await this.credentials.access();
    if (this.#closed) throw new ConnectionError("ECLOSED", "the client is closed");
    if (this.#pools === undefined || this.#fingerprint !== access.fingerprint) {
      // Certificates were rotated: new requests use new connections, running ones end on the old ones.
      void this.#pools?.close();
      this.#pools = openPools(access, () => this.mayWrite());
      this.#fingerprint = access.fingerprint;
    }
    return { access, pools: this.#pools };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pools?.destroy();
  }
}

/**
 * The connections of one access: few and shared for single requests, one for each watch, and separate ones for the
 * lease.
 */
type Pools = Readonly<Record<PoolName, Dispatcher>> & {
  /** Lets running requests end, then closes. */
  close(): Promise<void>;
  /** Closes at once. */
  destroy(): Promise<void>;
};
/** Other requests neither delay nor block those of the lease. */
export type PoolName = "unary" | "streams" | "lease";

const UNARY_CONNECTIONS = 16;
/** Two, so that a renewal does not wait for a stuck request. */
const LEASE_CONNECTIONS = 2;
const KEEP_ALIVE_MS = 30_000;

/**
 * Opens the pools (no connection yet). Writes are sent only while `mayWrite` returns true, those of the lease
 * always.
 */
function openPools(access: Access, mayWrite: () => boolean): Pools {
  const pools = {
    unary: open(access, { connections: UNARY_CONNECTIONS }).compose(refuseWrites(mayWrite)),
    // A watch may be silent for minutes: its reader decides when it is dead, not the pool.
    streams: open(access, { bodyTimeout: 0 }).compose(refuseWrites(mayWrite)),
    lease: open(access, { connections: LEASE_CONNECTIONS }),
  };
  const all = Object.values(pools);
  return {
    ...pools,
    close: async () => void (await Promise.all(all.map((pool) => pool.close()))),
    destroy: async () => void (await Promise.all(all.map((pool) => pool.destroy()))),
  };
}

/** Calls `mayWrite` when a connection is free and the request is about to be sent, not earlier. */
function refuseWrites(mayWrite: () => boolean): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    if (!isWrite(options.method, options.path)) return dispatch(options, handler);
    const begin = handler.onRequestStart?.bind(handler);
    const onRequestStart: typeof begin = (...start) => {
      if (!mayWrite()) throw new ConnectionError("ENOLEASE", NOT_OURS);
      begin?.(...start);
    };
    return dispatch(options, Object.assign(handler, { onRequestStart }));
  };
}

const NOT_OURS = "nothing is written: the lease is not ours";

function open(access: Access, options: { connections?: number; bodyTimeout?: number }): Dispatcher {
  const connect = { ...access.tls, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, timeout: 10_000 };
  const shared = { ...options, allowH2: false, keepAliveTimeout: KEEP_ALIVE_MS, pipelining: 1 };
  if (access.proxy === undefined) return new Agent({ ...shared, connect });
  if (access.proxy.startsWith("socks"))
    return new Socks5ProxyAgent(access.proxy, { ...shared, requestTls: connect });
  return new ProxyAgent({ ...shared, uri: access.proxy, requestTls: connect });
}
