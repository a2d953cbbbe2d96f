/** Short-lived tokens of ServiceAccounts for hooks (TokenRequest), which end with the run. */

import { createHash } from "node:crypto";

import { oneLine, retryAfterErrors } from "../../base/index.ts";
import { describeAccount, userOf, type Account } from "../../base/model/index.ts";
import { ApiError, isAlreadyExists, isConflict, isForbidden, isNotFound } from "../api-errors.ts";
import type { KubeAccess, KubeClient } from "../client/client.ts";
import { create, listMetadata, remove, type Target } from "../client/verbs.ts";
import {
  MANAGED_BY_OPERATOR,
  RUN_SECRET_PREFIX,
  SECRETS,
  SERVICE_ACCOUNTS,
  type Secret,
} from "../resources.ts";
import { formatLabelSelector } from "../watch/watch-spec.ts";
import { MissingAccountError } from "./accounts.ts";
import { findMissingRule } from "../permissions.ts";

/** The shortest lifetime that the API server accepts. */
const LIFETIME_S = 600;
/** A hook begins with a token that is valid for at least this part of its lifetime. */
const FRESH_FRACTION = 0.5;
/** Time limit of a revocation: the operator does not stop before its tokens are revoked or this time has passed. */
const REVOCATION_TIMEOUT_MS = 10_000;
const REVOCATION_DELAYS = { firstMs: 500, maxMs: 4000 };
/** A run that ends while more tokens are being revoked waits until one of them is. */
const MAX_PARALLEL_REVOCATIONS = 8;

interface TokenRequest {
  readonly spec?: { readonly expirationSeconds?: number };
  readonly status?: { readonly token?: string };
}

interface AccountToken {
  readonly token: string;
  /** From this time on (monotonic ms), another token is requested. */
  readonly freshUntil: number;
}

/** The module whose hooks run, and the account that they act as. */
interface TokenOwner {
  readonly module: string;
  readonly account: Account;
}

/** Returns a fresh token of the run; requests it when it is needed. Throws MissingAccountError, ApiError, ConnectionError. */
export type GetRunToken = () => Promise<AccountToken>;

interface RunTokensOptions extends Omit<KubeAccess, "namespace"> {
  /** Identifies the operator: two of them may have modules of one name, whose accounts are in one namespace. */
  readonly operator: string;
}

/**
 * Requests and revokes the tokens of runs: one token for all hooks of a run, and none for a run without hooks. A token is bound to an
 * empty Secret in the account's namespace. The operator deletes the Secret at the end of the run, after which the API server refuses the
 * token, so that a hook cannot use it later.
 */
export class RunTokens {
  readonly #options: RunTokensOptions;
  /** The tokens of the runs that are under way, by module and account. */
  readonly #runTokens = new Map<string, RunToken>();
  /** Revocations under way, by module and account. They never reject. */
  readonly #revocations = new Map<string, Promise<unknown>>();
  /** Why tokens outlive runs, by module. */
  readonly #problems = new Map<string, string>();

  constructor(options: RunTokensOptions) {
    this.#options = options;
  }

  /**
   * Calls `work` with a function that requests the token of the module's run when a hook needs it. Runs of one module that overlap or contain each
   * other share the token. Starts to revoke the token at the end of the last of these runs, usually without waiting for the answer.
   */
  async withToken<T>(owner: TokenOwner, work: (getToken: GetRunToken) => Promise<T>): Promise<T> {
    const key = keyOf(owner);
    // The next run reuses the name of the Secret that this revocation deletes.
    const previousRevocation = this.#revocations.get(key);
    const options = { ...this.#options, problems: this.#problems, previousRevocation };
    const run = this.#runTokens.get(key) ?? new RunToken(options, owner);
    this.#runTokens.set(key, run);
    run.users += 1;
    try {
      return await work(() => run.getFreshToken());
    } finally {
      run.users -= 1;
      if (run.users === 0) {
        this.#runTokens.delete(key);
        await this.#startRevocation(key, run);
      }
    }
  }

  /**
   * Starts to revoke the tokens that an operator which was killed has left for these modules, since a module that is disabled now does not
   * run again. Call it before the first run, which waits until its Secret is deleted. One list for each namespace shows which Secrets are left; if the
   * list fails, all are deleted that may be left.
   */
  revokeFormer(owners: readonly TokenOwner[]): void {
    const { client } = this.#options;
    const byNamespace = Map.groupBy(owners, ({ account }) => account.namespace);
    for (const [namespace, ownersHere] of byNamespace) {
      const listing = listSecretNames(client, namespace).catch(() => undefined);
      for (const owner of ownersHere) this.#revokeIfLeft(owner, listing);
    }
  }

  /** Starts to revoke the former token of a module, unless the list of Secrets shows that there is none. `listing`: undefined if it failed. */
  #revokeIfLeft(owner: TokenOwner, listing: Promise<ReadonlySet<string> | undefined>): void {
    const { client, clock, operator, logger } = this.#options;
    const key = keyOf(owner);
    const { module, account } = owner;
    const target = { resource: SECRETS, namespace: account.namespace, name: secretNameOf(owner, operator) };
    const revoking: Promise<unknown> = listing
      .then(async (names) => {
        if (names?.has(target.name) !== false) await revokeSecret({ client, clock }, target);
      })
      .catch((error: unknown) => {
        logger.debug("A former token cannot be revoked", { module, error: oneLine(error) });
      })
      .finally(() => {
        if (this.#revocations.get(key) === revoking) this.#revocations.delete(key);
      });
    this.#revocations.set(key, revoking);
  }

  /** Resolves when all tokens of runs that have ended are revoked, or cannot be. */
  async waitForRevocations(): Promise<void> {
    await Promise.all(this.#revocations.values());
  }

  /** Begins to revoke the token of a run, if one was requested; waits only while too many tokens are being revoked. */
  async #startRevocation(key: string, run: RunToken): Promise<void> {
    if (!run.hasSecret) return;
    const revoking: Promise<unknown> = run.revoke().finally(() => {
      if (this.#revocations.get(key) === revoking) this.#revocations.delete(key);
    });
    this.#revocations.set(key, revoking);
    if (this.#revocations.size > MAX_PARALLEL_REVOCATIONS) await Promise.race(this.#revocations.values());
  }

  /** Returns why the last token of the module outlived its run; undefined = it did not. */
  getProblem(module: string): string | undefined {
    return this.#problems.get(module);
  }
}

interface RunTokenOptions extends RunTokensOptions {
  readonly problems: Map<string, string>;
  readonly previousRevocation: Promise<unknown> | undefined;
}

/** The token of one run, and the Secret to which it is bound. */
class RunToken {
  /** Number of runs that use the token. */
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

  /** Returns a fresh token. Concurrent calls wait for one another and share one request. */
  getFreshToken(): Promise<AccountToken> {
    this.#token = this.#reuseOrRequest(this.#token);
    return this.#token;
  }

  /** Deletes the Secret, which revokes the token. Never throws. */
  async revoke(): Promise<void> {
    const secret = await this.#secret?.catch(() => undefined);
    if (secret === undefined) return;
    const { name, uid } = secret.metadata;
    const target = { resource: SECRETS, namespace: this.#owner.account.namespace, name };
    await revokeSecret(this.#options, target, { uid }).catch((error: unknown) => {
      // With another uid, the name belongs to a newer Secret.
      if (!isConflict(error)) this.#reportProblem(error);
    });
  }

  /** Returns the token of the last request if that succeeded and the token is still fresh; requests another token otherwise. */
  async #reuseOrRequest(lastRequest: Promise<AccountToken> | undefined): Promise<AccountToken> {
    const lastToken = await lastRequest?.catch(() => undefined);
    const isFresh = lastToken !== undefined && lastToken.freshUntil > this.#options.clock.monotonic();
    return isFresh ? lastToken : this.#requestToken();
  }

  /** Requests a token (TokenRequest) that is bound to the Secret of the run; unbound if the operator may not create the Secret. */
  async #requestToken(): Promise<AccountToken> {
    const { client, clock } = this.#options;
    const { account } = this.#owner;
    const requestedAt = clock.monotonic();
    const boundObjectRef = await this.#requestBinding();
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
    return { token: status.token, freshUntil: requestedAt + lifetimeMs * FRESH_FRACTION };
  }

  /**
   * Creates the run's Secret at first use, and returns the reference that binds a token to it. Undefined if the operator may not create
   * Secrets: the run works with a token that cannot be revoked, and the problem is reported.
   */
  async #requestBinding(): Promise<object | undefined> {
    this.#secret ??= this.#createSecret();
    try {
      const { name, uid } = (await this.#secret).metadata;
      this.#options.problems.delete(this.#owner.module);
      return { apiVersion: "v1", kind: "Secret", name, uid };
    } catch (error) {
      // The next request of a token tries again.
      this.#secret = undefined;
      if (!isRefusal(error)) throw error;
      this.#reportProblem(error);
      return undefined;
    }
  }

  /** Creates the Secret of the run; replaces a Secret that a killed operator has left. */
  async #createSecret(): Promise<Secret> {
    const { client, operator, previousRevocation } = this.#options;
    const { account } = this.#owner;
    const { namespace } = account;
    const name = secretNameOf(this.#owner, operator);
    const target = { resource: SECRETS, namespace };
    const metadata = { name, namespace, labels: MANAGED_BY_OPERATOR };
    const body = { apiVersion: "v1", kind: "Secret", metadata, immutable: true };
    const createSecret = (): Promise<Secret> => create<Secret>(client, target, { body });
    // The revocation deletes the Secret of the previous run, which has the same name.
    await previousRevocation;
    try {
      return await createSecret();
    } catch (error) {
      if (isNotFound(error)) throw new MissingAccountError(account);
      if (!isAlreadyExists(error)) throw error;
      await remove(client, { ...target, name });
      return createSecret();
    }
  }

  /** Records why the token stays valid after the run, for the status of the module. Logs a reason only when it is new. */
  #reportProblem(error: unknown): void {
    const { module } = this.#owner;
    const { problems, logger } = this.#options;
    const text = oneLine(error);
    const rule = findMissingRule(text);
    const reason = rule === undefined ? text : `${text} (missing rule: ${rule})`;
    if (problems.get(module) === reason) return;
    problems.set(module, reason);
    logger.warn("Tokens of hooks stay valid after the run, for up to ten minutes", {
      module,
      error: reason,
    });
  }
}

/**
 * Deletes the Secret of a run, which revokes its token. A request that fails, which leaves a token that works, is repeated while there is time.
 * Throws the last error.
 */
async function revokeSecret(
  { client, clock }: Pick<RunTokensOptions, "client" | "clock">,
  target: Target,
  preconditions: { readonly uid?: string } = {},
): Promise<void> {
  const endsAt = clock.monotonic() + REVOCATION_TIMEOUT_MS;
  const isFinal = (error: unknown, { delayMs }: { readonly delayMs: number }): boolean =>
    isConflict(error) || isForbidden(error) || clock.monotonic() + delayMs >= endsAt;
  await retryAfterErrors(
    () => remove(client, target, { preconditions, timeoutMs: endsAt - clock.monotonic() }),
    { clock, delays: REVOCATION_DELAYS, isFinal },
  );
}

/** Lists the names of the Secrets that operators have created in a namespace. */
async function listSecretNames(client: KubeClient, namespace: string): Promise<ReadonlySet<string>> {
  const labelSelector = formatLabelSelector({ matchLabels: MANAGED_BY_OPERATOR });
  const { items } = await listMetadata(client, { resource: SECRETS, namespace }, { labelSelector });
  return new Set(items.map(({ metadata }) => metadata.name));
}

const keyOf = ({ module, account }: TokenOwner): string => `${module} ${userOf(account)}`;

/** The name of the Secret for a module's runs. Two operators may use accounts of one namespace for modules of one name. */
function secretNameOf({ module }: TokenOwner, operator: string): string {
  const operatorHash = createHash("sha256").update(operator).digest("hex").slice(0, 10);
  return `${RUN_SECRET_PREFIX}${module}-${operatorHash}`;
}

const TOO_MANY_REQUESTS = 429;

/** Whether the API server understood the request and refuses it; overload is no refusal. */
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.status !== TOO_MANY_REQUESTS;
}
