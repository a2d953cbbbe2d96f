/** The connections in use, replaced when the credentials change. */

import { Agent, ProxyAgent, Socks5ProxyAgent, type Dispatcher } from "undici";

import type { Clock, Logger } from "../../base/index.ts";
import { ConnectionError } from "../api-errors.ts";
import { Credentials, type ServerAccess } from "./credentials.ts";
import type { CredentialsOptions } from "./kubeconfig.ts";
import { isWrite } from "./request.ts";

/** Owns the connection pools of the current credentials, and replaces the pools when the credentials change. */
export class ApiConnections {
  readonly credentials: Credentials;
  /** Decides before each write, except those of the lease, whether it may be sent. */
  mayWrite: () => boolean = () => true;
  #pools: Pools | undefined;
  #fingerprint = "";
  #isClosed = false;

  constructor(options: CredentialsOptions & { readonly logger: Logger }, clock: Clock) {
    this.credentials = new Credentials(options, clock);
  }

  /** Returns the current credentials and their pools, which are opened at first use and when the credentials have changed. */
  async openPools(): Promise<{ access: ServerAccess; pools: Pools }> {
    const access = await this.credentials.getAccess();
    if (this.#isClosed) throw new ConnectionError("ECLOSED", "the client is closed");
    if (this.#pools === undefined || this.#fingerprint !== access.fingerprint) {
      // Certificates were rotated: new requests use new connections, running requests end on the old connections.
      void this.#pools?.close();
      this.#pools = createPools(access, () => this.mayWrite());
      this.#fingerprint = access.fingerprint;
    }
    return { access, pools: this.#pools };
  }

  /** Ends all connections; running requests fail, and no new ones begin. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#pools?.destroy();
  }
}

/**
 * The connection pools of one version of the credentials: few shared connections for single requests, one for each watch, and
 * separate ones for the lease.
 */
type Pools = Readonly<Record<PoolName, Dispatcher>> & {
  /** Lets running requests end, then closes. */
  close(): Promise<unknown>;
  /** Closes at once. */
  destroy(): Promise<unknown>;
};
/** The lease has its own pool, so that other requests neither delay nor block its requests. */
export type PoolName = "unary" | "streams" | "lease";

const UNARY_CONNECTIONS = 16;
/** Two, so that a renewal does not wait for a stuck request. */
const LEASE_CONNECTIONS = 2;
const KEEP_ALIVE_MS = 30_000;

/** Creates the pools; connections are opened with the first requests. Writes are sent only while `mayWrite` returns true, writes of the lease always. */
function createPools(access: ServerAccess, mayWrite: () => boolean): Pools {
  const pools = {
    unary: createDispatcher(access, { connections: UNARY_CONNECTIONS }).compose(refuseWritesUnless(mayWrite)),
    // A watch may be silent for minutes: its reader decides when it is dead, not the pool.
    streams: createDispatcher(access, { bodyTimeout: 0 }).compose(refuseWritesUnless(mayWrite)),
    lease: createDispatcher(access, { connections: LEASE_CONNECTIONS }),
  };
  const dispatchers = Object.values(pools);
  return {
    ...pools,
    close: () => Promise.all(dispatchers.map((pool) => pool.close())),
    destroy: () => Promise.all(dispatchers.map((pool) => pool.destroy())),
  };
}

/**
 * Creates an interceptor of undici that fails writes while `mayWrite` returns false. Checks when a connection is free and the request is
 * about to be sent, because the lease may be lost while the request waits for a connection.
 */
function refuseWritesUnless(mayWrite: () => boolean): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    if (!isWrite(options.method, options.path)) return dispatch(options, handler);
    const originalOnRequestStart = handler.onRequestStart?.bind(handler);
    const onRequestStart: typeof originalOnRequestStart = (...args) => {
      if (!mayWrite()) throw new ConnectionError("ENOLEASE", "nothing is written: the lease is not ours");
      originalOnRequestStart?.(...args);
    };
    return dispatch(options, Object.assign(handler, { onRequestStart }));
  };
}

/** Creates a pool for the server, through its SOCKS or HTTP proxy if there is one. */
function createDispatcher(
  access: ServerAccess,
  options: { connections?: number; bodyTimeout?: number },
): Dispatcher {
  const connect = { ...access.tls, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, timeout: 10_000 };
  const commonOptions = { ...options, allowH2: false, keepAliveTimeout: KEEP_ALIVE_MS, pipelining: 1 };
  if (access.proxy === undefined) return new Agent({ ...commonOptions, connect });
  if (access.proxy.startsWith("socks"))
    return new Socks5ProxyAgent(access.proxy, { ...commonOptions, requestTls: connect });
  return new ProxyAgent({ ...commonOptions, uri: access.proxy, requestTls: connect });
}
