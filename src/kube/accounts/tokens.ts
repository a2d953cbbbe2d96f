/** Short-lived tokens of ServiceAccounts for hooks (TokenRequest), which end with the run. */

import { createHash } from "node:crypto";

import { oneLine, type Clock, type Logger } from "../../lib/index.ts";
import { describeAccount, userOf, type Account } from "../../model/index.ts";
import { ApiError, ignoreNotFound, isAlreadyExists, isConflict, isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { create, remove } from "../client/verbs.ts";
import { MANAGED_BY_OPERATOR, SECRETS, SERVICE_ACCOUNTS, type Secret } from "../resources.ts";
import { MissingAccountError } from "./accounts.ts";
import { missingRule } from "./missing-rule.ts";

/** The shortest lifetime that the API server accepts. */
const LIFETIME_S = 600;
/** A hook begins with a token that is valid for at least this part of its lifetime. */
const FRESH_PART = 0.5;
/** A stop of the operator does not end before the tokens are revoked, or this time has passed. */
const REVOCATION_MS = 10_000;
/** A run that ends while so many tokens are being revoked waits for one of them. */
const MOST_REVOKED_AT_ONCE = 8;

interface TokenRequest {
  readonly spec?: { readonly expirationSeconds?: number };
  readonly status?: { readonly token?: string };
}

/** A token, and for how long it is fresh. */
interface AccountToken {
  readonly token: string;
  /** On the monotonic clock, in ms: from then on, another one is requested. */
  readonly freshUntil: number;
}

/** Whose hooks run, as which account. */
interface TokenOwner {
  readonly module: string;
  readonly account: Account;
}

/** The fresh token of a run. Throws MissingAccountError, ApiError, ConnectionError. */
export type RunTokenSource = () => Promise<AccountToken>;

interface RunTokensOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Identifies the operator: two of them may have modules of one name, whose accounts are in one namespace. */
  readonly operator: string;
}

/**
 * The tokens of runs: one for all hooks of a run, and none for a run without hooks. A token is bound to an empty Secret in the
 * account's namespace, which is deleted at the end of the run; then the API server refuses the token.
 */
export class RunTokens {
  readonly #options: RunTokensOptions;
  /** By module and account. */
  readonly #runs = new Map<string, RunToken>();
  /** Revocations under way, by module and account. They never reject. */
  readonly #revoking = new Map<string, Promise<unknown>>();
  /** Why tokens outlive runs, by module. */
  readonly #problems = new Map<string, string>();

  constructor(options: RunTokensOptions) {
    this.#options = options;
  }

  /**
   * Calls `work` with the token of the module's run, which is requested when it is needed. Runs of one module that overlap or
   * contain each other share it. At the end of the last one its revocation begins, for which nothing waits: the next task may
   * begin meanwhile.
   */
  async during<T>(owner: TokenOwner, work: (token: RunTokenSource) => Promise<T>): Promise<T> {
    const key = `${owner.module} ${userOf(owner.account)}`;
    const run = this.#runs.get(key) ?? this.#newRun(key, owner);
    this.#runs.set(key, run);
    run.users += 1;
    try {
      return await work(() => run.fresh());
    } finally {
      run.users -= 1;
      if (run.users === 0) {
        this.#runs.delete(key);
        await this.#revoke(key, run);
      }
    }
  }

  /** Resolves when all tokens of runs that have ended are revoked, or cannot be. */
  async settled(): Promise<void> {
    await Promise.all(this.#revoking.values());
  }

  #newRun(key: string, owner: TokenOwner): RunToken {
    return new RunToken(
      { ...this.#options, problems: this.#problems, before: this.#revoking.get(key) },
      owner,
    );
  }

  /** Begins to revoke the token of a run; waits only while too many are being revoked. */
  async #revoke(key: string, run: RunToken): Promise<void> {
    if (!run.hasSecret) return;
    const revoking: Promise<unknown> = run.revoke().finally(() => {
      if (this.#revoking.get(key) === revoking) this.#revoking.delete(key);
    });
    this.#revoking.set(key, revoking);
    if (this.#revoking.size > MOST_REVOKED_AT_ONCE) await Promise.race(this.#revoking.values());
  }

  /** Why the last token of the module outlived its run; undefined = it did not. */
  problemOf(module: string): string | undefined {
    return this.#problems.get(module);
  }
}

interface RunTokenOptions extends RunTokensOptions {
  /** Why tokens outlive runs, by module. */
  readonly problems: Map<string, string>;
  /** The revocation of the module's last token, whose Secret has the same name. */
  readonly before: Promise<unknown> | undefined;
}

/** The token of one run, and the Secret to which it is bound. */
class RunToken {
  /** Runs that use it. */
  users = 0;
  readonly #options: RunTokenOptions;
  readonly #owner: TokenOwner;
  #secret: Promise<Secret> | undefined;
  #token: Promise<AccountToken> | undefined;

  constructor(options: RunTokenOptions, owner: TokenOwner) {
    this.#options = options;
    this.#owner = owner;
  }

  /** Whether there may be a Secret to delete. */
  get hasSecret(): boolean {
    return this.#secret !== undefined;
  }

  /** One call at a time: hooks that run at once share the answer. */
  fresh(): Promise<AccountToken> {
    this.#token = this.#next(this.#token);
    return this.#token;
  }

  /** Deletes the Secret, which revokes the token. Never throws. */
  async revoke(): Promise<void> {
    const secret = await this.#secret?.catch(() => undefined);
    if (secret === undefined) return;
    const { name, uid } = secret.metadata;
    const target = { resource: SECRETS, namespace: this.#owner.account.namespace, name };
    const options = { preconditions: { uid }, timeoutMs: REVOCATION_MS };
    await remove(this.#options.client, target, options).catch((error: unknown) => {
      // It is deleted already, or another one has its name.
      if (!isNotFound(error) && !isConflict(error)) this.#report(error);
    });
  }

  async #next(last: Promise<AccountToken> | undefined): Promise<AccountToken> {
    const known = await last?.catch(() => undefined);
    const isFresh = known !== undefined && known.freshUntil > this.#options.clock.monotonic();
    return isFresh ? known : this.#request();
  }

  async #request(): Promise<AccountToken> {
    const { client, clock } = this.#options;
    const { account } = this.#owner;
    const at = clock.monotonic();
    const boundObjectRef = await this.#binding();
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: LIFETIME_S, boundObjectRef },
    };
    const target = { resource: SERVICE_ACCOUNTS, ...account, subresource: "token" };
    const { spec, status } = await create<TokenRequest>(client, target, { body }).catch((error: unknown) => {
      throw isNotFound(error) ? new MissingAccountError(account) : error;
    });
    if (status?.token === undefined)
      throw new Error(`the API server returned no token of ${describeAccount(account)}`);
    const lifetimeMs = (spec?.expirationSeconds ?? LIFETIME_S) * 1000;
    return { token: status.token, freshUntil: at + lifetimeMs * FRESH_PART };
  }

  /** What the token is bound to: the run's Secret; undefined if the operator may not create it. */
  async #binding(): Promise<object | undefined> {
    this.#secret ??= this.#createSecret();
    try {
      const { name, uid } = (await this.#secret).metadata;
      this.#options.problems.delete(this.#owner.module);
      return { apiVersion: "v1", kind: "Secret", name, uid };
    } catch (error) {
      this.#secret = undefined;
      if (!isRefusal(error)) throw error;
      this.#report(error);
      return undefined;
    }
  }

  /** Creates the Secret of the run, instead of one that a killed operator has left. */
  async #createSecret(): Promise<Secret> {
    const { client, operator, before } = this.#options;
    const { module, account } = this.#owner;
    const { namespace } = account;
    const digest = createHash("sha256").update(operator).digest("hex").slice(0, 10);
    const name = `addon-operator-run-${module}-${digest}`;
    const target = { resource: SECRETS, namespace };
    const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
    const body = { apiVersion: "v1", kind: "Secret", metadata, immutable: true };
    const make = (): Promise<Secret> => create<Secret>(client, target, { body });
    await before;
    try {
      return await make();
    } catch (error) {
      if (isNotFound(error)) throw new MissingAccountError(account);
      if (!isAlreadyExists(error)) throw error;
      await remove(client, { ...target, name }).catch(ignoreNotFound);
      return make();
    }
  }

  /** Records that the token outlives the run, and logs a new reason. */
  #report(error: unknown): void {
    const { module } = this.#owner;
    const { problems, logger } = this.#options;
    const text = oneLine(error);
    const rule = missingRule(text);
    const reason = rule === undefined ? text : `${text} (missing rule: ${rule})`;
    if (problems.get(module) === reason) return;
    problems.set(module, reason);
    logger.warn("Tokens of hooks stay valid after the run, for up to ten minutes", {
      module,
      error: reason,
    });
  }
}

/** The API server understood the request and does not allow it. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.status !== TOO_MANY_REQUESTS;
}

const TOO_MANY_REQUESTS = 429;
