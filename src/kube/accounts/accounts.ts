/** Decides which ServiceAccount a module acts as, and checks that the account exists. */

import { matchesGlob } from "../../base/index.ts";
import { parseAccount, describeAccount, ProblemError, userOf } from "../../base/model/index.ts";
import type { Account, Module, Problem } from "../../base/model/index.ts";
import type { KubeClient } from "../client/client.ts";
import { getMetadata } from "../client/verbs.ts";
import { isForbidden, isNotFound } from "../api-errors.ts";
import { SERVICE_ACCOUNTS } from "../resources.ts";

/** The settings of a module that determine its account. */
export type AccountSettings = Pick<Module, "name"> &
  Partial<Pick<Module, "serviceAccountName" | "namespace" | "accountIsUnknown" | "chart">>;

interface AccountsOptions {
  readonly client: KubeClient;
  /** The operator's namespace. */
  readonly operatorNamespace: string;
  /** Namespace of a module's release. */
  readonly namespaceOf: (module: AccountSettings) => string;
  /** The namespace that the operator's configuration gives a module. A module may not gain accounts of other namespaces by its `addon.yaml`. */
  readonly configuredNamespaceOf: (module: string) => string;
  /** Further namespaces of accounts; `*` stands for any characters. */
  readonly allowed: readonly string[];
}

/** Marks a module whose `addon.yaml`, which names the account, could not be read since the start. */
const UNKNOWN = "unknown";

interface KnownAccount {
  /** Undefined = the module acts under the operator's own service account. */
  readonly account: Account | typeof UNKNOWN | undefined;
  readonly namespace: string;
}

/** Decides and remembers the ServiceAccounts that modules act as (impersonation), so that a module cannot do more in the cluster than its account may. */
export class Accounts {
  readonly #options: AccountsOptions;
  /** By module. A module whose directory is deleted keeps its account for its removal. */
  readonly #knownAccounts = new Map<string, KnownAccount>();

  constructor(options: AccountsOptions) {
    this.#options = options;
  }

  /**
   * Returns the account that `resolveAccount` decided last for a module, also if its directory is deleted now; undefined = the operator's
   * own account. Throws ProblemError if the file that names the account could not be read since the start.
   */
  getKnownAccount(module: string): Account | undefined {
    const account = this.#knownAccounts.get(module)?.account;
    if (account !== UNKNOWN) return account;
    const message = "its addon.yaml cannot be read, so it is not known as whom the module acts";
    throw new ProblemError({ file: module, message, remedy: "correct the file" });
  }

  /** Whether `user` (`system:serviceaccount:<namespace>:<name>`) is the account of a module. */
  isAccountUser(user: string): boolean {
    return [...this.#knownAccounts.values()].some(
      ({ account }) => typeof account === "object" && userOf(account) === user,
    );
  }

  /** The namespace of the release of a module that was resolved before. */
  namespaceOf(module: string): string {
    return this.#knownAccounts.get(module)?.namespace ?? "";
  }

  /**
   * Decides the account of a module by its current settings, and remembers it; undefined = the operator's own account. While the file that
   * names the account is invalid, keeps the one that was known before. Throws ProblemError if there is none, or if the account is not allowed.
   */
  resolveAccount(module: AccountSettings): Account | undefined {
    const { name, serviceAccountName } = module;
    if (module.accountIsUnknown === true) {
      this.#recordUnknown(module);
      return this.getKnownAccount(name);
    }
    const account =
      serviceAccountName === undefined ? undefined : this.#requireAllowed(module, serviceAccountName);
    this.#knownAccounts.set(name, { account, namespace: this.#options.namespaceOf(module) });
    return account;
  }

  /**
   * Decides the account of a module as `resolveAccount`, and returns why it is not allowed, as a problem of `file`, its `addon.yaml`.
   * Undefined if it is allowed, or if the file cannot be read: the reader of the file reports that.
   */
  findProblem(module: AccountSettings, file: string): Problem | undefined {
    if (module.accountIsUnknown === true) {
      this.#recordUnknown(module);
      return undefined;
    }
    try {
      const account = this.resolveAccount(module);
      return account && this.#findNamespaceProblem(module, file);
    } catch (error) {
      const [problem] = error instanceof ProblemError ? error.problems : [];
      if (problem === undefined) throw error;
      return { ...problem, file };
    }
  }

  /**
   * A problem of a module with an account whose release would be in the operator's namespace: the account would need permissions on the Secrets there,
   * which give the permissions of the operator.
   */
  #findNamespaceProblem(module: AccountSettings, file: string): Problem | undefined {
    const { namespaceOf, operatorNamespace } = this.#options;
    if (module.chart === "none" || namespaceOf(module) !== operatorNamespace) return undefined;
    const message = `its release would be in the operator's namespace, whose Secrets no ServiceAccount of a module may read`;
    const remedy = "set namespace in addon.yaml, or --module-namespace-template";
    return { file, key: "namespace", message, remedy };
  }

  /** Records that the account is unknown, unless it was known before: a file that becomes invalid later does not change the account. */
  #recordUnknown(module: AccountSettings): void {
    const namespace = this.#options.namespaceOf(module);
    if (!this.#knownAccounts.has(module.name))
      this.#knownAccounts.set(module.name, { account: UNKNOWN, namespace });
  }

  /**
   * Checks before a run that the operator can act as the account. Throws MissingAccountError if the account does not exist, because the
   * API server impersonates deleted accounts, too. Throws ImpersonationError if the operator may not impersonate it, because helm reports
   * that as an unreachable cluster. Throws ApiError, ConnectionError.
   */
  async assertUsable(account: Account, signal?: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const target = { resource: SERVICE_ACCOUNTS, ...account };
    // Each run waits for both requests, so they are sent together.
    const answers = await Promise.allSettled([
      getMetadata(client, target, { signal }).catch((error: unknown) => {
        throw isNotFound(error) ? new MissingAccountError(account) : error;
      }),
      client
        .impersonate(userOf(account))
        .json({ path: "/version", signal })
        .catch((error: unknown) => {
          throw isForbidden(error) ? new ImpersonationError(account) : error;
        }),
    ]);
    const failed = answers.find((answer) => answer.status === "rejected");
    if (failed !== undefined) throw failed.reason;
  }

  /**
   * Returns the account that the module names. Throws ProblemError unless the account is in the namespace that the operator's configuration
   * gives the module, or in an allowed one: the author of `addon.yaml` must not gain the rights of other accounts.
   */
  #requireAllowed(module: AccountSettings, serviceAccountName: string): Account {
    const { namespaceOf, configuredNamespaceOf, allowed } = this.#options;
    const configuredNamespace = configuredNamespaceOf(module.name);
    const account = parseAccount(serviceAccountName, namespaceOf(module));
    const isAllowed = allowed.some((pattern) => matchesGlob(pattern, account.namespace));
    if (isAllowed || account.namespace === configuredNamespace) return account;
    const message = `names ${describeAccount(account)}, but the operator's configuration gives it namespace ${configuredNamespace}`;
    const remedy = `name an account of ${configuredNamespace}, or allow the namespace with --service-account-namespaces`;
    throw new ProblemError({ file: module.name, key: "serviceAccountName", message, remedy });
  }
}

/** The account of a module does not exist. */
export class MissingAccountError extends Error {
  constructor(account: Account) {
    const remedy = "create it, or correct serviceAccountName in addon.yaml";
    super(`${describeAccount(account)} does not exist; ${remedy}`);
    this.name = "MissingAccountError";
  }
}

/** The operator may not act as an account. The answer of the API server does not name the rule: it depends on the version. */
class ImpersonationError extends Error {
  constructor(account: Account) {
    const rule = `grant the operator: impersonate serviceaccounts in namespace ${account.namespace}`;
    super(`the operator may not act as ${describeAccount(account)} (missing rule: ${rule})`);
    this.name = "ImpersonationError";
  }
}
