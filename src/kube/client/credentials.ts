/**
 * Credentials of one kubeconfig context, read with the library @kubernetes/client-node: chosen at the start, read again as they rotate,
 * exported as a kubeconfig for child processes. A process works with one cluster: a kubeconfig that changes to another one is refused.
 */

import { createHash } from "node:crypto";
import type { RequestOptions } from "node:https";
import { homedir } from "node:os";
import type { ConnectionOptions } from "node:tls";

import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";

import { oneLine, toYamlSafeJson, type Clock, type Logger } from "../../base/index.ts";
import { ProblemError, isJsonObject, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import { loadConfig, type CredentialsOptions, type LoadedConfig } from "./kubeconfig.ts";

/** Address, headers and TLS settings for requests to the server, valid for a few seconds. */
export interface ServerAccess {
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
type TlsSettings = Readonly<Partial<Record<"ca" | "cert" | "key", string | Buffer>>> &
  Readonly<Pick<ConnectionOptions, "servername" | "rejectUnauthorized">>;

/** Requests use newly read credentials after this time (token files rotate every few minutes). */
const REREAD_AFTER_MS = 10_000;

/** Reads the credentials of one context, and reads them again as they rotate. */
export class Credentials {
  readonly #logger: Logger;
  readonly #clock: Clock;
  #loaded: LoadedConfig;
  /** The last change of the kubeconfig that was refused, so that it is logged once. */
  #lastRefusal = "";
  #accessPromise: Promise<ServerAccess> | undefined;
  #requestedAt = 0;

  constructor({ logger, ...options }: CredentialsOptions & { readonly logger: Logger }, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
    this.#loaded = loadConfig(options);
  }

  /** The file that contains the credentials. */
  get file(): string {
    return this.#loaded.file;
  }

  get namespace(): string | undefined {
    return this.#loaded.namespace;
  }

  /** The proxy of the kubeconfig for the API server, without user and password. */
  get proxy(): string | undefined {
    const proxy = URL.parse(this.#loaded.config.getCurrentCluster()?.proxyUrl ?? "");
    return proxy === null ? undefined : `${proxy.protocol}//${proxy.host}`;
  }

  get server(): string {
    return this.#loaded.config.getCurrentCluster()?.server ?? "";
  }

  /** Returns address and credentials for the next request, cached for some seconds. Throws a ProblemError when a plug-in or file fails. */
  getAccess(): Promise<ServerAccess> {
    const now = this.#clock.monotonic();
    if (this.#accessPromise === undefined || now - this.#requestedAt > REREAD_AFTER_MS) {
      this.#requestedAt = now;
      const access = this.#requestAccess();
      this.#accessPromise = access;
      access.catch(() => {
        if (this.#accessPromise === access) this.#accessPromise = undefined;
      });
    }
    return this.#accessPromise;
  }

  /**
   * Reads the files and runs the exec plug-ins again, after a 401. Throws a ProblemError and keeps the previous
   * credentials if the context now names another cluster or user.
   */
  renew(): void {
    const reloaded = this.#readAgain();
    // The exec plug-ins run again in any case: only they may have fresh credentials.
    this.#accessPromise = undefined;
    if (reloaded === undefined) return;
    const refusal = findRefusal(this.#loaded, reloaded);
    if (refusal !== undefined) throw refusal;
    this.#loaded = reloaded;
  }

  /**
   * Exports a kubeconfig of this server and its current credentials, for a child process that starts now. Reads changed files first, so
   * that the child gets rotated credentials. Refuses a change to another cluster or user, and logs it once.
   */
  exportKubeconfig(namespace?: string): string {
    const reloaded = this.#loaded.isUnchanged() ? this.#loaded : this.#readAgain();
    const refusal = reloaded && findRefusal(this.#loaded, reloaded);
    const refusalMessage = refusal?.message ?? "";
    if (refusalMessage !== "" && refusalMessage !== this.#lastRefusal)
      this.#logger.error("The change of the kubeconfig is not applied", { error: refusalMessage });
    this.#lastRefusal = refusalMessage;
    if (reloaded !== undefined && refusal === undefined) this.#applyChange(reloaded);
    return exportContext(this.#loaded.config, namespace);
  }

  /** Uses changed credentials from the next request on. Keeps the access data that plug-ins gave if the context has not changed. */
  #applyChange(reloaded: LoadedConfig): void {
    if (reloaded === this.#loaded || exportContext(reloaded.config) === exportContext(this.#loaded.config))
      return;
    this.#loaded = reloaded;
    this.#accessPromise = undefined;
  }

  /** Reads the files again. Undefined while the kubeconfig is being replaced: the previous credentials stay in use. */
  #readAgain(): LoadedConfig | undefined {
    try {
      return this.#loaded.readAgain();
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      return undefined;
    }
  }

  /** Reads tokens and certificates, and runs exec plug-ins. */
  async #requestAccess(): Promise<ServerAccess> {
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
    return toServerAccess(cluster.server, cluster.proxyUrl, options);
  }
}

/** Returns an error if the files now name another cluster or user, or verify TLS less: such a change is refused. */
function findRefusal(before: LoadedConfig, next: LoadedConfig): ProblemError | undefined {
  const message = describeRefusedDifference(before.config, next.config);
  if (message === undefined) return undefined;
  const key = `context ${before.config.getCurrentContext()}`;
  const remedy = "restore the context, or restart the operator to have it work with the other one";
  return new ProblemError({ file: next.file, key, message, remedy });
}

/** Converts the library's request options. The fingerprint covers what new connections need; headers go with each request. */
function toServerAccess(server: string, proxy: string | undefined, options: RequestOptions): ServerAccess {
  const url = new URL(server);
  const tls: TlsSettings = pickTls(options);
  const hash = createHash("sha256").update(JSON.stringify([url.origin, proxy]));
  for (const part of [tls.ca, tls.cert, tls.key, tls.servername]) hash.update("\0").update(part ?? "");
  return {
    origin: url.origin,
    prefix: trimTrailingSlashes(url.pathname),
    headers: pickHeaders(options),
    tls,
    proxy,
    fingerprint: hash.update(String(tls.rejectUnauthorized)).digest("hex"),
  };
}

/** Picks the TLS settings that are set. */
function pickTls(options: RequestOptions & { servername?: string | undefined }): TlsSettings {
  const { ca, cert, key, servername, rejectUnauthorized } = options;
  const settings = Object.entries({ ca, cert, key, servername, rejectUnauthorized });
  return Object.fromEntries(settings.filter(([, value]) => value !== undefined)) as TlsSettings;
}

/** Picks the authentication headers, in lower case. */
function pickHeaders(options: RequestOptions): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    // Token files end in a line break, which is invalid in a header.
    if (value !== undefined) headers[name.toLowerCase()] = String(value).trim();
  }
  if (options.auth) headers["authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
  return headers;
}

function trimTrailingSlashes(path: string): string {
  let end = path.length;
  while (path[end - 1] === "/") end--;
  return path.slice(0, end);
}

type Cluster = KubeConfig["clusters"][number];
type User = KubeConfig["users"][number];

type ContextTarget = Readonly<{ cluster: Partial<Cluster>; user: Partial<User> }>;

/** Describes a difference that is refused; false if there is none. */
type DifferenceCheck = (before: ContextTarget, now: ContextTarget) => string | false;

const REFUSED_DIFFERENCES: readonly DifferenceCheck[] = [
  (before, now) =>
    before.cluster.server !== now.cluster.server &&
    `names the server ${now.cluster.server} now, not ${before.cluster.server}`,
  (before, now) =>
    before.user.name !== now.user.name && `names the user ${now.user.name} now, not ${before.user.name}`,
  (before, now) =>
    before.user.impersonateUser !== now.user.impersonateUser && "impersonates another user now",
  (before, now) => before.cluster.proxyUrl !== now.cluster.proxyUrl && "names another proxy-url now",
  (before, now) =>
    before.cluster.tlsServerName !== now.cluster.tlsServerName && "names another tls-server-name now",
  (before, now) =>
    !skipsTlsVerification(before) &&
    skipsTlsVerification(now) &&
    "no longer has the server's certificate verified",
  (before, now) => hasCa(before) && !hasCa(now) && "names no certificate authority any more",
];

/**
 * Describes a change of the current context from `before` to `after` that is refused: another server or user, or weaker TLS verification.
 * The state of the operator would not fit another cluster. Undefined if only tokens, certificates or the CA differ.
 */
function describeRefusedDifference(before: KubeConfig, after: KubeConfig): string | undefined {
  const messages = REFUSED_DIFFERENCES.map((check) => check(contextTargetOf(before), contextTargetOf(after)));
  return messages.find((message) => message !== false);
}

function contextTargetOf(config: KubeConfig): ContextTarget {
  return { cluster: config.getCurrentCluster() ?? {}, user: config.getCurrentUser() ?? {} };
}

/** Whether TLS verification is off. Ignores the flag for plain http, where the library requires it. */
function skipsTlsVerification({ cluster: { server, skipTLSVerify } }: ContextTarget): boolean {
  return skipTLSVerify === true && server?.startsWith("https:") === true;
}

function hasCa({ cluster: { caData, caFile } }: ContextTarget): boolean {
  return [caData, caFile].some((each) => each !== undefined && each !== "");
}

/** Exports a kubeconfig of only the current context, as JSON, for child processes. Keeps references to files. */
function exportContext(config: KubeConfig, contextNamespace?: string): string {
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()];
  const name = config.getCurrentContext();
  const namespace = contextNamespace ?? config.getContextObject(name)?.namespace?.trim();
  return toYamlSafeJson({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name: cluster?.name, cluster: cluster && toClusterEntry(cluster) }],
    users: [{ name: user?.name, user: user && toUserEntry(user) }],
    contexts: [{ name, context: { cluster: cluster?.name, user: user?.name, namespace } }],
  });
}

/** Converts a cluster of the library into the form of kubeconfig files. */
function toClusterEntry(cluster: Cluster): object {
  const { server, caData, caFile, tlsServerName, proxyUrl } = cluster;
  return {
    server,
    "certificate-authority-data": caData,
    "certificate-authority": caFile,
    "tls-server-name": tlsServerName,
    "proxy-url": proxyUrl,
    "insecure-skip-tls-verify": skipsTlsVerification({ cluster, user: {} }) ? true : undefined,
  };
}

/** Converts a user of the library into the form of kubeconfig files. The library has a `tokenFile` as its auth provider of that name. */
function toUserEntry(user: User): object {
  const { certData, certFile, keyData, keyFile, token, username, password, impersonateUser } = user;
  const provider = user.authProvider as { name?: string; config?: { tokenFile?: string } } | undefined;
  const isTokenFile = provider?.name === "tokenFile";
  return {
    "client-certificate-data": certData,
    "client-certificate": certFile,
    "client-key-data": keyData,
    "client-key": keyFile,
    token,
    tokenFile: isTokenFile ? provider.config?.tokenFile : undefined,
    "auth-provider": isTokenFile ? undefined : (provider ?? undefined),
    exec: isJsonObject(user.exec) ? addHomeVariable(user.exec) : undefined,
    username,
    password,
    as: impersonateUser,
  };
}

/**
 * Sets HOME for exec plug-ins: helm runs with another home directory, but plug-ins keep their files in the operator's one. Removes
 * KUBERNETES_EXEC_INFO, which helm and kubectl set themselves.
 */
function addHomeVariable(exec: JsonObject): JsonObject {
  const env = objectsIn(exec["env"]).filter(({ name }) => name !== "KUBERNETES_EXEC_INFO");
  const home = env.some(({ name }) => asString(name) === "HOME") ? [] : [{ name: "HOME", value: homedir() }];
  return { ...exec, env: [...home, ...env] };
}
