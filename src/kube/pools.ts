import type { Dispatcher } from "undici";
import { Agent, ProxyAgent, Socks5ProxyAgent } from "undici";

import type { Access } from "./credentials.ts";

/** The connections of one access: few and shared for single requests, one each for watches. */
export interface Pools {
  readonly unary: Dispatcher;
  readonly streams: Dispatcher;
  /** Lets running requests end, then closes. */
  close(): Promise<void>;
  /** Closes at once. */
  destroy(): Promise<void>;
}

const UNARY_CONNECTIONS = 16;
const KEEP_ALIVE_MS = 30_000;

/** Opens the pools (no connection yet). */
export function openPools(access: Access): Pools {
  const unary = open(access, { connections: UNARY_CONNECTIONS });
  // A watch is silent for minutes: its reader decides when it is dead, not the pool.
  const streams = open(access, { bodyTimeout: 0 });
  return {
    unary,
    streams,
    close: async () => void (await Promise.all([unary.close(), streams.close()])),
    destroy: async () => void (await Promise.all([unary.destroy(), streams.destroy()])),
  };
}

function open(access: Access, options: { connections?: number; bodyTimeout?: number }): Dispatcher {
  const connect = { ...access.tls, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_MS, timeout: 10_000 };
  const shared = { ...options, allowH2: false, keepAliveTimeout: KEEP_ALIVE_MS, pipelining: 1 };
  if (access.proxy === undefined) return new Agent({ ...shared, connect });
  if (access.proxy.startsWith("socks"))
    return new Socks5ProxyAgent(access.proxy, { ...shared, requestTls: connect });
  return new ProxyAgent({ ...shared, uri: access.proxy, requestTls: connect });
}
