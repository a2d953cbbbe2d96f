/** The `Authorization` header of calls to a registry: basic credentials, or tokens of its token server. */

import type { Dispatcher } from "undici";

import { oneLine, readAtMost, systemClock, type Clock } from "../../lib/index.ts";
import { jsonObject } from "../manifest.ts";
import type { Challenge } from "./challenge.ts";
import type { Login } from "./docker-config.ts";
import { RegistryError } from "./errors.ts";
import { refusedAddress } from "./trust.ts";

interface Token {
  readonly text: string;
  readonly endsAt: number;
}

const LARGEST_ANSWER = 64 * 1024;
const DEFAULT_SECONDS = 60;
/** A token is not used in its last seconds: the call takes time, too. */
const MARGIN_MS = 5000;
const MOST_TOKENS = 100;
const CLIENT_ID = "addon-operator";

export interface TokenOptions {
  readonly registry: URL;
  readonly dispatcher: Dispatcher;
  /** Read at each use, so that rotated credentials take effect at once. */
  readonly login: () => Login | undefined;
  /** User and password are sent before the registry requires them. */
  readonly isBasic?: boolean;
  readonly clock?: Clock;
  /** Longest time of a request. */
  readonly timeoutMs: number;
}

/** Answers the challenges of one registry. */
export class Tokens {
  readonly #options: TokenOptions;
  readonly #clock: Clock;
  readonly #tokens = new Map<string, Token>();
  #isBasic: boolean;

  constructor(options: TokenOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#isBasic = options.isBasic ?? false;
  }

  /** The header for calls of this scope (`repository:NAME:pull`), as far as it is known without a challenge. */
  header(scope: string): string | undefined {
    const login = this.#options.login();
    if (login?.registryToken !== undefined) return `Bearer ${login.registryToken}`;
    if (this.#isBasic) return basic(login);
    const token = this.#tokens.get(scope);
    return token === undefined || token.endsAt <= this.#clock.monotonic()
      ? undefined
      : `Bearer ${token.text}`;
  }

  /** Gets the credentials that a challenge requires; the next `header` contains them. Throws RegistryError. */
  async answer(challenge: Challenge, scope: string): Promise<void> {
    this.#isBasic = challenge.scheme === "basic";
    if (this.#isBasic) return;
    this.#tokens.delete(scope);
    if (this.#tokens.size >= MOST_TOKENS) this.#tokens.clear();
    this.#tokens.set(scope, await this.#fetch(challenge, scope));
  }

  /** Gets a token for a scope, with the refresh token if there is one. Throws RegistryError. */
  async #fetch({ parameters }: Challenge, scope: string): Promise<Token> {
    const { registry, login } = this.#options;
    const realm = this.#realm(parameters.get("realm") ?? "");
    const form = new URLSearchParams({ service: parameters.get("service") ?? registry.host, scope });
    const known = login();
    const refreshed = await this.#refresh(realm, form, known?.identityToken);
    const answer = refreshed ?? (await this.#get(realm, form, known));
    if (answer.status === 200) return this.#tokenOf(answer.body, realm);
    const remedy =
      known === undefined ? "log in with `helm registry login`" : "check user, password and rights";
    const text = `the token server ${realm.host} answers ${answer.status} for ${scope}: ${remedy}`;
    throw new RegistryError(text, answer.status);
  }

  /** The address of the token server, which the registry chose. */
  #realm(text: string): URL {
    const realm = URL.parse(text);
    if (realm === null) throw this.#error("names no token server");
    const refused = refusedAddress(realm, this.#options.registry);
    if (refused !== undefined) throw this.#error(`names the token server ${realm.host}: ${refused}`);
    return realm;
  }

  /** Requests a token with a refresh token. Undefined without a refresh token, or if the server does not support that. */
  async #refresh(realm: URL, form: URLSearchParams, token: string | undefined): Promise<Answer | undefined> {
    if (token === undefined) return undefined;
    const body = new URLSearchParams(form);
    body.set("grant_type", "refresh_token");
    body.set("client_id", CLIENT_ID);
    body.set("refresh_token", token);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const answer = await this.#call(realm, { method: "POST", headers, body: body.toString() });
    return answer.status === 404 ? undefined : answer;
  }

  /** Requests a token with user and password, or anonymously. */
  #get(realm: URL, form: URLSearchParams, login: Login | undefined): Promise<Answer> {
    const url = new URL(realm);
    for (const [key, value] of form) url.searchParams.append(key, value);
    const authorization = basic(login);
    return this.#call(url, { method: "GET", headers: authorization === undefined ? {} : { authorization } });
  }

  /** Calls the token server. Throws RegistryError if the server cannot be reached. */
  async #call(
    url: URL,
    options: Pick<Dispatcher.RequestOptions, "headers" | "body"> & { method: "GET" | "POST" },
  ): Promise<Answer> {
    try {
      const where = { origin: url.origin, path: url.pathname + url.search };
      const { dispatcher, timeoutMs } = this.#options;
      const signal = AbortSignal.timeout(timeoutMs);
      const { statusCode, body } = await dispatcher.request({ ...where, ...options, signal });
      const bytes = await readAtMost(body, LARGEST_ANSWER);
      if (bytes === undefined) throw new Error(`the answer is longer than ${LARGEST_ANSWER} bytes`);
      return { status: statusCode, body: bytes };
    } catch (error) {
      const text = `the token server ${url.host} cannot be reached: ${oneLine(error)}`;
      throw new RegistryError(text, undefined, { cause: error });
    }
  }

  /** Reads the token in an answer. Throws RegistryError if there is none. */
  #tokenOf(body: Buffer, realm: URL): Token {
    try {
      const { token, access_token: access, expires_in: seconds } = jsonObject(body);
      const text = typeof token === "string" && token !== "" ? token : access;
      if (typeof text !== "string" || !/^[\x21-\x7e]+$/.test(text)) throw new Error("no token");
      const lifetime = typeof seconds === "number" && seconds > 0 ? seconds : DEFAULT_SECONDS;
      return { text, endsAt: this.#clock.monotonic() + lifetime * 1000 - MARGIN_MS };
    } catch (error) {
      throw new RegistryError(`the token server ${realm.host} answers without a token`, undefined, {
        cause: error,
      });
    }
  }

  #error(what: string): RegistryError {
    return new RegistryError(`the registry ${this.#options.registry.host} ${what}`);
  }
}

interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

/** The header for basic credentials; undefined without a user. */
function basic(login: Login | undefined): string | undefined {
  if (login?.username === undefined) return undefined;
  return `Basic ${Buffer.from(`${login.username}:${login.password ?? ""}`).toString("base64")}`;
}
