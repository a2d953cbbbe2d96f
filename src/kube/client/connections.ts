/** How the server is reached: the credentials of one context, kept fresh, and the connections in use. */

import { createHash } from "node:crypto";
import type { RequestOptions } from "node:https";

import { Agent, ProxyAgent, Socks5ProxyAgent, type Dispatcher } from "undici";

import { oneLine, type Clock } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { ConnectionError } from "../api-errors.ts";
import { loadConfig, type CredentialsOptions, type LoadedConfig } from "./kubeconfig.ts";
import { isWrite } from "./request.ts";

/** How to reach the server right now. */
interface Access {
  /** `https://host:port`, no path. */
  readonly origin: string;
  /** Path in front of every API path (`""` for most servers). */
  readonly prefix: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: TlsSettings;
  readonly proxy: string | undefined;
  /** Changes whenever origin, TLS settings or proxy do. */
  readonly fingerprint: string;
}

/** TLS settings as `tls.connect` takes them. */
interface TlsSettings {
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
}

/** Credentials are read again this often (token files rotate every few minutes). */
const FRESH_MS = 10_000;

/** Credentials of one context, kept fresh. */
class Credentials {
  readonly #options: CredentialsOptions;
  readonly #clock: Clock;
  #loaded: LoadedConfig;
  #access: Promise<Access> | undefined;
  #askedAt = 0;

  constructor(options: CredentialsOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
    this.#loaded = loadConfig(options);
  }

  /** The file the credentials came from. */
  get file(): string {
    return this.#loaded.file;
  }

  get namespace(): string | undefined {
    return this.#loaded.namespace;
  }

  get server(): string {
    return this.#loaded.config.getCurrentCluster()?.server ?? "";
  }

  /** The access to use for the next request. Throws a ProblemError when a plug-in or file fails. */
  access(): Promise<Access> {
    const now = this.#clock.monotonic();
    if (this.#access === undefined || now - this.#askedAt > FRESH_MS) {
      this.#askedAt = now;
      const asked = this.#ask();
      this.#access = asked;
      asked.catch(() => {
        if (this.#access === asked) this.#access = undefined;
      });
    }
    return this.#access;
  }

  /** Reads the files again and asks plug-ins again: for when the server answers 401. */
  renew(): void {
    try {
      this.#loaded = loadConfig(this.#options);
    } catch (error) {
      // A kubeconfig that is being replaced: what was read before stays in force.
      if (!(error instanceof ProblemError)) throw error;
    }
    this.#access = undefined;
  }

  async #ask(): Promise<Access> {
    const { config, file } = this.#loaded;
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new ProblemError([{ file, message: "names no cluster" }]);
    const options: RequestOptions = {};
    try {
      // The library refuses plain http without this flag, which means nothing there.
      if (cluster.server.startsWith("http:")) Object.assign(cluster, { skipTLSVerify: true });
      await config.applyToHTTPSOptions(options);
    } catch (error) {
      const key = `user ${config.getCurrentUser()?.name ?? ""}`;
      throw new ProblemError([{ file, key, message: `the credentials cannot be used: ${oneLine(error)}` }]);
    }
    return describe(cluster.server, cluster.proxyUrl, options);
  }
}

function describe(server: string, proxy: string | undefined, options: RequestOptions): Access {
  const url = new URL(server);
  const tls: TlsSettings = pickTls(options);
  const hash = createHash("sha256").update(JSON.stringify([url.origin, proxy]));
  for (const part of [tls.ca, tls.cert, tls.key, tls.servername]) hash.update("\0").update(part ?? "");
  return {
    origin: url.origin,
    prefix: withoutSlashes(url.pathname),
    headers: pickHeaders(options),
    tls,
    proxy,
    fingerprint: hash.update(String(tls.rejectUnauthorized)).digest("hex"),
  };
}

function pickTls(options: RequestOptions & { servername?: string | undefined }): TlsSettings {
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  return Object.fromEntries(
    Object.entries({ ca, cert, key, servername, rejectUnauthorized }).filter(
      ([, value]) => value !== undefined,
    ),
  ) as TlsSettings;
}

function pickHeaders(options: RequestOptions): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    // Token files end in a line break, which no header may hold.
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim();
  }
  if (options.auth) headers["authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  return headers;
}

function withoutSlashes(path: string): string {
  let end = path.length;
  while (path[end - 1] === "/") end--;
  return path.slice(0, end);
}

/** Credentials and the pools that go with them, replaced when credentials change. */
export class Connections {
  readonly credentials: Credentials;
  /** Asked before each write except those of the lease. */
  mayWrite: () => boolean = () => true;
  #pools: Pools | undefined;
  #fingerprint = "";
  #closed = false;

  constructor(options: CredentialsOptions, clock: Clock) {
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
/** Two, so that a renewal does not wait for one that got stuck. */
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
