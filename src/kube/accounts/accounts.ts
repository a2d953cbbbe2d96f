/** Decides as which ServiceAccount a module acts, and checks that the account exists. */

import { matchesGlob } from "../../lib/index.ts";
import { accountIn, describeAccount, ProblemError, userOf } from "../../model/index.ts";
import type { Account, Module, Problem } from "../../model/index.ts";
import type { KubeClient } from "../client/client.ts";
import { getMetadata } from "../client/verbs.ts";
import { isForbidden, isNotFound } from "../api-errors.ts";
import { SERVICE_ACCOUNTS } from "../resources.ts";

/** What determines the account of a module. */
export type AccountTerms = Pick<Module, "name"> &
  Partial<Pick<Module, "serviceAccountName" | "namespace" | "accountIsUnknown">>;

interface AccountsOptions {
  readonly client: KubeClient;
  /** Namespace of a module's release. */
  readonly namespaceOf: (module: AccountTerms) => string;
  /** The namespace that the operator's configuration gives a module; that of `addon.yaml` gives it no other accounts. */
  readonly configuredNamespaceOf: (module: string) => string;
  /** Further namespaces of accounts; `*` stands for any characters. */
  readonly allowed: readonly string[];
}

/** The file that names the account could not be read since the start. */
const UNKNOWN = "unknown";

interface KnownAccount {
  /** Undefined = the module acts as the operator. */
  readonly account: Account | typeof UNKNOWN | undefined;
  readonly namespace: string;
}

/** The accounts of modules. */
export class Accounts {
  readonly #options: AccountsOptions;
  /** By module. A module whose directory is deleted keeps its account for its removal. */
  readonly #known = new Map<string, KnownAccount>();

  constructor(options: AccountsOptions) {
    this.#options = options;
  }

  /**
   * The account of a module that was read before, also if its directory is deleted now; undefined = it acts as the operator.
   * Throws ProblemError if the file that names it could not be read since the start.
   */
  known(module: string): Account | undefined {
    const account = this.#known.get(module)?.account;
    if (account !== UNKNOWN) return account;
    const message = "its addon.yaml cannot be read, so it is not known as whom the module acts";
    throw new ProblemError({ file: module, message, remedy: "correct the file" });
  }

  /** Whether a module acts as a user of the API server. */
  includes(user: string): boolean {
    return [...this.#known.values()].some(
      ({ account }) => typeof account === "object" && userOf(account) === user,
    );
  }

  /** The namespace of the release of a module that was read before. */
  namespaceOf(module: string): string {
    return this.#known.get(module)?.namespace ?? "";
  }

  /**
   * The account of a module; undefined = it acts as the operator. Throws ProblemError if the account is not allowed, or not
   * known because its file is broken.
   */
  of(module: AccountTerms): Account | undefined {
    const { name, serviceAccountName } = module;
    if (module.accountIsUnknown === true) {
      this.#recordUnknown(module);
      return this.known(name);
    }
    const account = serviceAccountName === undefined ? undefined : this.#allowed(module, serviceAccountName);
    this.#known.set(name, { account, namespace: this.#options.namespaceOf(module) });
    return account;
  }

  /** Why the account of a module is not allowed. `file` is its `addon.yaml`, whose own problem is reported elsewhere. */
  problemOf(module: AccountTerms, file: string): Problem | undefined {
    if (module.accountIsUnknown === true) return this.#recordUnknown(module);
    try {
      this.of(module);
      return undefined;
    } catch (error) {
      const [problem] = error instanceof ProblemError ? error.problems : [];
      if (problem === undefined) throw error;
      return { ...problem, file };
    }
  }

  /** A file that becomes invalid later does not change the account of the module. */
  #recordUnknown(module: AccountTerms): undefined {
    const namespace = this.#options.namespaceOf(module);
    if (!this.#known.has(module.name)) this.#known.set(module.name, { account: UNKNOWN, namespace });
  }

  /**
   * Throws MissingAccountError if the account is deleted: impersonation alone would still work. Throws ImpersonationError if the
   * operator may not impersonate it, which helm reports as an unreachable cluster. Throws ApiError, ConnectionError.
   */
  async mustExist(account: Account, signal?: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const target = { resource: SERVICE_ACCOUNTS, ...account };
    // Each run waits for both, so they are sent together.
    const answers = await Promise.allSettled([
      getMetadata(client, target, { signal }).catch((error: unknown) => {
        throw isNotFound(error) ? new MissingAccountError(account) : error;
      }),
      client
        .as(userOf(account))
        .json({ path: "/version", signal })
        .catch((error: unknown) => {
          throw isForbidden(error) ? new ImpersonationError(account) : error;
        }),
    ]);
    for (const answer of answers) if (answer.status === "rejected") throw answer.reason;
  }

  #allowed(module: AccountTerms, serviceAccountName: string): Account {
    const { namespaceOf, configuredNamespaceOf, allowed } = this.#options;
    const own = configuredNamespaceOf(module.name);
    const account = accountIn(serviceAccountName, namespaceOf(module));
    if (account.namespace === own || allowed.some((each) => matchesGlob(each, account.namespace)))
      return account;
    const message = `names ${describeAccount(account)}, but the operator's configuration gives it namespace ${own}`;
    const remedy = `name an account of ${own}, or allow the namespace with --service-account-namespaces`;
    throw new ProblemError({ file: module.name, key: "serviceAccountName", message, remedy });
  }
}

/** The account of a module does not exist. */
export class MissingAccountError extends Error {
  constructor(account: Account) {
    super(
      `${describeAccount(account)} does not exist; create it, or correct serviceAccountName in addon.yaml`,
    );
    this.name = "MissingAccountError";
  }
}

/** The operator may not act as an account. The answer of the API server does not name the rule: it depends on the version. */
class ImpersonationError extends Error {
  constructor(account: Account) {
    const rule = `impersonate serviceaccounts in namespace ${account.namespace}`;
    super(
      `the operator may not act as ${describeAccount(account)} (missing rule: grant the operator: ${rule})`,
    );
    this.name = "ImpersonationError";
  }
}
