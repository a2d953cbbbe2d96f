/** Connections to a registry and to the servers that it names: directly or through a proxy, and trusted certificates. */

import { X509Certificate } from "node:crypto";
import { createSecureContext, getCACertificates, type SecureContext } from "node:tls";
import { Agent, ProxyAgent, Socks5ProxyAgent, type Dispatcher } from "undici";

import { attempt, Memo, oneLine } from "../../../base/index.ts";
import { getErrorCode, RegistryError } from "../errors.ts";
import { isWithoutProxy } from "./no-proxy.ts";

export interface ConnectionOptions {
  /** PEM certificates that are trusted besides those of Node and of the system. */
  readonly ca?: string | undefined;
  /** `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, also in lower case. */
  readonly proxies?: Readonly<Record<string, string | undefined>> | undefined;
  /** Longest time to connect, to wait for an answer, and without a byte of it. */
  readonly timeoutMs?: number | undefined;
}

type HttpRequest = Pick<Dispatcher.RequestOptions, "method" | "headers" | "body" | "signal">;

const MAX_CONNECTIONS = 4;
/** Longest time of a request without much content, including its answer. */
export const REGISTRY_TIMEOUT_MS = 30_000;

/** The pools of connections of one client. Each pool is created with its first request. */
export class Connections {
  readonly #options: ConnectionOptions;
  /** By the variable that names the proxy; "" for direct connections. */
  readonly #pools = new Map<string, Dispatcher>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** Sends one HTTP request. An error of a connection through a proxy names the proxy's variable. */
  async request(url: URL, request: HttpRequest): Promise<Dispatcher.ResponseData> {
    const variable = this.#findProxyVariable(url);
    const target = { origin: url.origin, path: url.pathname + url.search };
    try {
      return await this.#openPool(variable).request({ ...target, ...request });
    } catch (error) {
      if (variable === "" || error instanceof RegistryError) throw error;
      const text = `${oneLine(error)} (through the proxy of ${variable})`;
      throw Object.assign(new Error(text, { cause: error }), { code: getErrorCode(error) });
    }
  }

  /** Closes all connections, also those that are in use. */
  async close(): Promise<void> {
    for (const pool of this.#pools.values()) await pool.destroy();
  }

  /** The name of the variable with the proxy for an address; empty if the address is called directly. */
  #findProxyVariable(url: URL): string {
    const variable = url.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
    const isDirect =
      this.#readVariable(variable) === "" || isWithoutProxy(url, this.#readVariable("NO_PROXY"));
    return isDirect ? "" : variable;
  }

  /** The value of a variable, which may have its name in lower case, too. */
  #readVariable(name: string): string {
    const { proxies = {} } = this.#options;
    return proxies[name] || proxies[name.toLowerCase()] || "";
  }

  #openPool(variable: string): Dispatcher {
    const pool = this.#pools.get(variable) ?? this.#createPool(variable);
    this.#pools.set(variable, pool);
    return pool;
  }

  /** Creates a pool of direct connections, or of connections through a proxy. Throws RegistryError for an invalid proxy. */
  #createPool(variable: string): Dispatcher {
    const tls = { secureContext: getTrust(this.#options.ca) };
    const { timeoutMs = REGISTRY_TIMEOUT_MS } = this.#options;
    const connect = { ...tls, timeout: timeoutMs };
    const options = { connections: MAX_CONNECTIONS, headersTimeout: timeoutMs, bodyTimeout: timeoutMs };
    if (variable === "") return new Agent({ ...options, connect });
    const text = this.#readVariable(variable);
    const uri = URL.parse(/^[a-z0-9]+:\/\//i.test(text) ? text : `http://${text}`)?.href;
    // The text may contain a password.
    if (uri === undefined)
      throw new RegistryError(`${variable} is no address of a proxy: write http://HOST:PORT`);
    if (uri.startsWith("socks")) return new Socks5ProxyAgent(uri, { ...options, requestTls: tls });
    return new ProxyAgent({ ...options, uri, connect, requestTls: tls, proxyTls: tls });
  }
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/** Describes why a text is no list of PEM certificates; undefined if it is one. Text between certificates is allowed. */
export function describeCaProblem(text: string): string | undefined {
  const blocks = text.match(PEM_CERTIFICATE) ?? [];
  if (blocks.length === 0) return "contains no PEM certificate";
  const isReadable = (block: string): boolean => attempt(() => new X509Certificate(block)) !== undefined;
  const wrong = blocks.findIndex((block) => !isReadable(block));
  return wrong === -1 ? undefined : `has a certificate that cannot be read (number ${wrong + 1})`;
}

/** Most sets of certificates that are kept: to parse one takes 25 ms. */
const MAX_CONTEXTS = 10;
const contexts = new Memo<SecureContext>(MAX_CONTEXTS);

/**
 * The trusted certificates: those of Node and `NODE_EXTRA_CA_CERTS`, of the system (`SSL_CERT_FILE` and `SSL_CERT_DIR`, as Go
 * programs read them), and `ca`.
 */
function getTrust(ca = ""): SecureContext {
  return contexts.getOrMake(ca, () => {
    const fromSystem = attempt(() => getCACertificates("system")) ?? [];
    const certificates = [...getCACertificates("default"), ...fromSystem];
    return createSecureContext({ ca: [...new Set(certificates), ...(ca === "" ? [] : [ca])] });
  });
}
