/** Authenticates requests to a registry, as its `WWW-Authenticate` headers demand: by password, or tokens of its token server. */

import type { Dispatcher } from "undici";

import { oneLine, readAtMost, type Clock } from "../../../base/index.ts";
import { parseJsonObject } from "../manifest.ts";
import type { Login } from "./docker-config.ts";
import { RegistryError } from "../errors.ts";
import type { Connections } from "./connections.ts";
import { readRetryAfter } from "./pauses.ts";
import type { AddressGuard } from "./trust.ts";

/** A bearer token, and when it expires on the monotonic clock in milliseconds. */
interface Token {
  readonly text: string;
  readonly expiresAt: number;
}

const MAX_ANSWER_BYTES = 64 * 1024;
/** Lifetime of a token whose answer names none, as Docker's token specification says. */
const DEFAULT_LIFETIME_SECONDS = 60;
/** A token is not used in its last seconds, because the request takes time, too; one that is valid for seconds only, until half of them. */
const EXPIRY_MARGIN_MS = 5000;
/** Answers after which a refresh token is of no use: some token servers accept no POST, and some only user and password. */
const STATUSES_WITHOUT_POST: ReadonlySet<number> = new Set([404, 405]);
const STATUSES_OF_REFUSAL: ReadonlySet<number> = new Set([400, 401]);
const MAX_TOKENS = 100;
/** Name of this program in requests with a refresh token; the OAuth2 protocol requires one. */
const CLIENT_ID = "addon-operator";

interface RegistryAuthOptions {
  readonly registryUrl: URL;
  readonly connections: Connections;
  readonly guard: AddressGuard;
  /** Reads the credentials for each use, so that rotated credentials take effect at once. */
  readonly readLogin: () => Login | undefined;
  /** Whether user and password are sent before the server demands them: to a chart repository. */
  readonly usesBasicAuth: boolean;
  readonly clock: Clock;
  /** Longest time of a request. */
  readonly timeoutMs: number;
}

/** Authenticates requests to one registry: handles its challenges and caches the tokens of its token server by scope. */
export class RegistryAuth {
  readonly #options: RegistryAuthOptions;
  readonly #tokens = new Map<string, Token>();
  #usesBasicAuth: boolean;

  constructor(options: RegistryAuthOptions) {
    this.#options = options;
    this.#usesBasicAuth = options.usesBasicAuth;
  }

  /**
   * Returns the `Authorization` header for requests of this scope (`repository:NAME:pull`); undefined if no
   * credentials or no valid token are known yet. The registry then answers with a challenge, which `answerChallenge`
   * handles.
   */
  getHeader(scope: string): string | undefined {
    const login = this.#options.readLogin();
    if (login?.registryToken !== undefined) return `Bearer ${login.registryToken}`;
    if (this.#usesBasicAuth) return toBasicHeader(login);
    const token = this.#tokens.get(scope);
    return token === undefined || token.expiresAt <= this.#options.clock.monotonic()
      ? undefined
      : `Bearer ${token.text}`;
  }

  /**
   * Handles a challenge of the registry: switches to basic authentication, or fetches a token for the scope. Returns the
   * header for the next request, which `getHeader` also returns until the token expires. Throws RegistryError.
   */
  async answerChallenge(challenge: Challenge, scope: string): Promise<string | undefined> {
    this.#usesBasicAuth = challenge.scheme === "basic";
    if (this.#usesBasicAuth) return this.getHeader(scope);
    this.#tokens.delete(scope);
    if (this.#tokens.size >= MAX_TOKENS) this.#tokens.clear();
    const token = await this.#fetchToken(challenge, scope);
    this.#tokens.set(scope, token);
    return `Bearer ${token.text}`;
  }

  /**
   * Fetches a token for a scope from the token server that the challenge names: by the refresh token if the login has
   * one, else by user and password or anonymously. Throws RegistryError.
   */
  async #fetchToken({ parameters }: Challenge, scope: string): Promise<Token> {
    const { registryUrl, readLogin } = this.#options;
    const realm = await this.#parseRealm(parameters.get("realm") ?? "");
    const form = new URLSearchParams({ service: parameters.get("service") ?? registryUrl.host, scope });
    const login = readLogin();
    const refreshAnswer = await this.#requestByRefreshToken(realm, form, login);
    const answer = refreshAnswer ?? (await this.#requestByPassword(realm, form, login));
    if (answer.status === 200) return this.#parseToken(answer.body, realm);
    const remedy =
      login === undefined ? "log in with `helm registry login`" : "check user, password and rights";
    const text = `the token server ${realm.host} answers ${answer.status} for ${scope}: ${remedy}`;
    throw new RegistryError(text, answer.status, { retryAt: answer.retryAt });
  }

  /**
   * Parses the address of the token server, which the registry chose, and which may be refused. Throws RegistryError.
   */
  async #parseRealm(text: string): Promise<URL> {
    const realm = URL.parse(text);
    const { registryUrl, guard } = this.#options;
    if (realm === null) throw new RegistryError(`the registry ${registryUrl.host} names no token server`);
    const refused = await guard.explainRefusal(realm);
    if (refused === undefined) return realm;
    throw new RegistryError(
      `the registry ${registryUrl.host} names the token server ${realm.host}: ${refused}`,
    );
  }

  /**
   * Requests a token with a refresh token. Returns undefined without a refresh token, or if the caller has to try user and
   * password: the server does not support POST requests, or refuses the refresh token.
   */
  async #requestByRefreshToken(
    realm: URL,
    form: URLSearchParams,
    login: Login | undefined,
  ): Promise<TokenAnswer | undefined> {
    const { identityToken: token, username } = login ?? {};
    if (token === undefined) return undefined;
    const refresh = { grant_type: "refresh_token", client_id: CLIENT_ID, refresh_token: token };
    const body = new URLSearchParams([...form, ...Object.entries(refresh)]);
    const headers = { "content-type": "application/x-www-form-urlencoded" };
    const answer = await this.#callTokenServer(realm, { method: "POST", headers, body: body.toString() });
    const isWithoutUse =
      STATUSES_WITHOUT_POST.has(answer.status) ||
      (username !== undefined && STATUSES_OF_REFUSAL.has(answer.status));
    return isWithoutUse ? undefined : answer;
  }

  /** Requests a token with user and password, or anonymously if the login has none. */
  #requestByPassword(realm: URL, form: URLSearchParams, login: Login | undefined): Promise<TokenAnswer> {
    const url = new URL(realm);
    for (const [key, value] of form) url.searchParams.append(key, value);
    const authorization = toBasicHeader(login);
    const headers = authorization === undefined ? {} : { authorization };
    return this.#callTokenServer(url, { method: "GET", headers });
  }

  /** Sends a request to the token server and reads the answer. Throws RegistryError if the server does not answer. */
  async #callTokenServer(
    url: URL,
    options: Pick<Dispatcher.RequestOptions, "headers" | "body"> & { method: "GET" | "POST" },
  ): Promise<TokenAnswer> {
    try {
      const { connections, timeoutMs, clock } = this.#options;
      const signal = AbortSignal.timeout(timeoutMs);
      const { statusCode, headers, body } = await connections.request(url, { ...options, signal });
      const bytes = await readAtMost(body, MAX_ANSWER_BYTES);
      if (bytes === undefined) throw new Error(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
      const pause = readRetryAfter([headers["retry-after"] ?? []].flat()[0], clock.now());
      return { status: statusCode, body: bytes, retryAt: pause && clock.now() + pause };
    } catch (error) {
      const text = `the token server ${url.host} cannot be reached: ${oneLine(error)}`;
      throw new RegistryError(text, undefined, { cause: error });
    }
  }

  /** Parses the token server's answer and computes when the token expires. Throws RegistryError if the answer contains no token. */
  #parseToken(body: Buffer, realm: URL): Token {
    try {
      const { token, access_token: access, expires_in: seconds } = parseJsonObject(body);
      const text = typeof token === "string" && token !== "" ? token : access;
      if (typeof text !== "string" || !/^[\x21-\x7e]+$/.test(text))
        throw new Error("the answer has no token");
      const lifetime = typeof seconds === "number" && seconds > 0 ? seconds : DEFAULT_LIFETIME_SECONDS;
      const margin = Math.min(EXPIRY_MARGIN_MS, lifetime * 500);
      return { text, expiresAt: this.#options.clock.monotonic() + lifetime * 1000 - margin };
    } catch (error) {
      const message = `the token server ${realm.host} answers without a token`;
      throw new RegistryError(message, undefined, { cause: error });
    }
  }
}

/** An answer of the token server. */
interface TokenAnswer {
  readonly status: number;
  readonly body: Buffer;
  /** When a pause ends that the server asks for, in milliseconds since the epoch. */
  readonly retryAt: number | undefined;
}

/** The header of basic authentication; undefined for a login without a user. */
function toBasicHeader(login: Login | undefined): string | undefined {
  if (login?.username === undefined) return undefined;
  return `Basic ${Buffer.from(`${login.username}:${login.password ?? ""}`).toString("base64")}`;
}

/** What a registry demands before it serves a request; the parameters have lower-case names. */
interface Challenge {
  /** In lower case: `basic`, `bearer`. */
  readonly scheme: string;
  readonly parameters: Map<string, string>;
}

/**
 * A name, and maybe `=` with a quoted string or an unquoted value: a parameter. A name without a value is a scheme such as
 * `Bearer`. Takes linear time, because an unescaped quote always ends a string.
 */
const CHALLENGE_PART =
  /([\w!#$%&'*+.^`|~-]+)(?:[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([\w!#$%&'*+.^`|~/-]*)))?/g;
/** Characters of a header that are read; a registry is not trusted to send a short one. */
const MAX_HEADER_LENGTH = 16_384;

/** Schemes of a registry, which may have a token server. */
export const REGISTRY_SCHEMES = ["basic", "bearer"];
/** Schemes of a chart repository, which has no token server and must not send the credentials to another host. */
export const CHART_REPOSITORY_SCHEMES = ["basic"];

/** The first challenge of all `WWW-Authenticate` headers with one of these schemes; others are skipped. */
export function findChallenge(
  headers: readonly string[],
  schemes: readonly string[] = REGISTRY_SCHEMES,
): Challenge | undefined {
  return headers.flatMap(parseChallenges).find(({ scheme }) => schemes.includes(scheme));
}

/** Parses all challenges of one header. A comma separates challenges and also their parameters. */
function parseChallenges(header: string): Challenge[] {
  const challenges: Challenge[] = [];
  for (const part of header.slice(0, MAX_HEADER_LENGTH).matchAll(CHALLENGE_PART)) {
    const [, name = "", quoted, unquoted] = part;
    const value = quoted?.replace(/\\(.)/g, "$1") ?? unquoted;
    if (value === undefined) challenges.push({ scheme: name.toLowerCase(), parameters: new Map() });
    else challenges.at(-1)?.parameters.set(name.toLowerCase(), value);
  }
  return challenges;
}
