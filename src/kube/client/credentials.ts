/** Keeps the credentials of one context fresh. */

import { createHash } from "node:crypto";
import type { RequestOptions } from "node:https";

import type { Clock } from "../../lib/index.ts";
import { oneLine } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import type { CredentialsOptions, LoadedConfig } from "./kubeconfig.ts";
import { loadConfig } from "./kubeconfig.ts";

/** How to reach the server right now. */
export interface Access {
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
export class Credentials {
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
    return describe({ server: cluster.server, proxy: cluster.proxyUrl, options });
  }
}

interface Raw {
  readonly server: string;
  readonly proxy: string | undefined;
  readonly options: RequestOptions;
}

function describe({ server, proxy, options }: Raw): Access {
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
