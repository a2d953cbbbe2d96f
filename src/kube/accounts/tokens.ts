/** Short-lived tokens of ServiceAccounts for hooks (TokenRequest). */

import type { Clock } from "../../lib/index.ts";
import { describeAccount, userOf, type Account } from "../../model/index.ts";
import { isNotFound } from "../api-errors.ts";
import type { KubeClient } from "../client/client.ts";
import { create } from "../client/verbs.ts";
import { SERVICE_ACCOUNTS } from "../resources.ts";
import { MissingAccountError } from "./accounts.ts";

/** The shortest lifetime that the API server accepts. */
const LIFETIME_S = 600;
/** A run begins with a token that is valid for at least this part of its lifetime. */
const FRESH_PART = 0.5;

interface TokenRequest {
  readonly spec?: { readonly expirationSeconds?: number };
  readonly status?: { readonly token?: string };
}

/** A token, and for how long it is fresh. */
export interface AccountToken {
  readonly token: string;
  /** On the monotonic clock, in ms: from then on, another one is requested. */
  readonly freshUntil: number;
}

/**
 * Tokens of accounts, one request for all runs within half of a token's lifetime. Nothing revokes a token at the end of a run:
 * it expires within ten minutes, and at once if its account is deleted.
 */
export class AccountTokens {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  /** By user name. */
  readonly #tokens = new Map<string, Promise<AccountToken>>();

  constructor({ client, clock }: { readonly client: KubeClient; readonly clock: Clock }) {
    this.#client = client;
    this.#clock = clock;
  }

  /** A fresh token. Throws MissingAccountError, ApiError, ConnectionError. */
  async of(account: Account): Promise<AccountToken> {
    const key = userOf(account);
    const known = await this.#tokens.get(key)?.catch(() => undefined);
    if (known !== undefined && known.freshUntil > this.#clock.monotonic()) return known;
    const requested = this.#request(account);
    this.#tokens.set(key, requested);
    requested.catch(() => this.forget(account));
    return requested;
  }

  /** Requests another token for the next run: the account may have been deleted and created again. */
  forget(account: Account): void {
    this.#tokens.delete(userOf(account));
  }

  async #request(account: Account): Promise<AccountToken> {
    const at = this.#clock.monotonic();
    const body = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: LIFETIME_S },
    };
    const target = { resource: SERVICE_ACCOUNTS, ...account, subresource: "token" };
    const { spec, status } = await create<TokenRequest>(this.#client, target, { body }).catch(
      (error: unknown) => {
        throw isNotFound(error) ? new MissingAccountError(account) : error;
      },
    );
    if (status?.token === undefined)
      throw new Error(`the API server returned no token of ${describeAccount(account)}`);
    const lifetimeMs = (spec?.expirationSeconds ?? LIFETIME_S) * 1000;
    return { token: status.token, freshUntil: at + lifetimeMs * FRESH_PART };
  }
}
