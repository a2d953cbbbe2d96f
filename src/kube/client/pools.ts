/** The pools of connections: requests, watches, the lease. */

import type { Dispatcher } from "undici";
import { Agent, ProxyAgent, Socks5ProxyAgent } from "undici";

import type { Access } from "./credentials.ts";
import { ConnectionError } from "../api-errors.ts";
import { isWrite } from "./request.ts";

/**
 * The connections of one access: few and shared for single requests, one for each watch, and separate ones for the
 * lease.
 */
export interface Pools {
  readonly unary: Dispatcher;
  readonly streams: Dispatcher;
  /** Other requests neither delay nor block these. */
  readonly lease: Dispatcher;
  /** Lets running requests end, then closes. */
  close(): Promise<void>;
  /** Closes at once. */
  destroy(): Promise<void>;
}

const UNARY_CONNECTIONS = 16;
/** Two, so that a renewal does not wait for one that got stuck. */
const LEASE_CONNECTIONS = 2;
const KEEP_ALIVE_MS = 30_000;

/**
 * Opens the pools (no connection yet). Writes are sent only while `mayWrite` returns true, those of the lease
 * always.
 */
export function openPools(access: Access, mayWrite: () => boolean): Pools {
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

/** Asks at the last moment, when a connection is free and the request is about to be sent. */
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
