/** Credentials of one kubeconfig context: chosen at the start, re-read as they rotate, exported as a kubeconfig for child processes. */

import { createHash } from "node:crypto";
import type { RequestOptions } from "node:https";

import { oneLine, type Clock, type Logger } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { loadConfig, type CredentialsOptions, type LoadedConfig } from "./kubeconfig.ts";
import { differenceBetween, exportContext } from "./one-cluster.ts";

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
  readonly #logger: Logger;
  readonly #clock: Clock;
  #loaded: LoadedConfig;
  /** The last change of the kubeconfig that was refused, so that it is logged once. */
  #refused = "";
  #access: Promise<Access> | undefined;
  #requestedAt = 0;

  constructor({ logger, ...options }: CredentialsOptions & { readonly logger: Logger }, clock: Clock) {
    this.#logger = logger;
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
    if (this.#access === undefined || now - this.#requestedAt > FRESH_MS) {
      this.#requestedAt = now;
      const requested = this.#query();
      this.#access = requested;
      requested.catch(() => {
        if (this.#access === requested) this.#access = undefined;
      });
    }
    return this.#access;
  }

  /**
   * Reads the files and runs the exec plug-ins again, after a 401. Throws a ProblemError and keeps the previous
   * credentials if the context now names another cluster or user.
   */
  renew(): void {
    const next = this.#read();
    this.#access = undefined;
    if (next === undefined) return;
    const refusal = refusalOf(this.#loaded, next);
    if (refusal !== undefined) throw refusal;
    this.#loaded = next;
  }

  /**
   * A kubeconfig of this server and its current credentials. Applies changes of the files; refuses a change to another
   * cluster or user and logs it once.
   */
  export(): string {
    const next = this.#loaded.isCurrent() ? this.#loaded : this.#read();
    const refusal = next && refusalOf(this.#loaded, next);
    const message = refusal?.message ?? "";
    if (message !== "" && message !== this.#refused)
      this.#logger.error("The change of the kubeconfig is not applied", { error: message });
    this.#refused = message;
    if (next !== undefined && refusal === undefined) this.#apply(next);
    return exportContext(this.#loaded.config);
  }

  #apply(next: LoadedConfig): void {
    if (next === this.#loaded || exportContext(next.config) === exportContext(this.#loaded.config)) return;
    this.#loaded = next;
    this.#access = undefined;
  }

  /** Undefined while the kubeconfig is being replaced: the previous credentials stay in use. */
  #read(): LoadedConfig | undefined {
    try {
      return this.#loaded.again();
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      return undefined;
    }
  }

  async #query(): Promise<Access> {
    const { config, file } = this.#loaded;
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new ProblemError({ file, message: "names no cluster" });
    const options: RequestOptions = {};
    try {
      // The library refuses plain http without this flag, which means nothing there.
      if (cluster.server.startsWith("http:")) Object.assign(cluster, { skipTLSVerify: true });
      await config.applyToHTTPSOptions(options);
    } catch (error) {
      const key = `user ${config.getCurrentUser()?.name ?? ""}`;
      throw new ProblemError({ file, key, message: `the credentials cannot be used: ${oneLine(error)}` });
    }
    return describe(cluster.server, cluster.proxyUrl, options);
  }
}

function refusalOf(before: LoadedConfig, next: LoadedConfig): ProblemError | undefined {
  const message = differenceBetween(before.config, next.config);
  if (message === undefined) return undefined;
  const key = `context ${before.config.getCurrentContext()}`;
  const remedy = "restore the context, or restart the operator to have it work with the other one";
  return new ProblemError({ file: next.file, key, message, remedy });
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
    // Token files end in a line break, which is invalid in a header.
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
