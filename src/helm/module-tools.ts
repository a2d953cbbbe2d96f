/**
 * The tools of each module: its requests and helm run under its ServiceAccount, by impersonation; release Secrets are read and labelled
 * under the operator's own account. The *location* of a release is its namespace and account, which are stored in the cluster.
 */

import { isForbidden, type Accounts, type AccountSettings } from "../kube/index.ts";
import { oneLine } from "../base/index.ts";
import { parseAccount, describeAccount, ProblemError, userOf, type Account } from "../base/model/index.ts";
import type { CrdRequest } from "./crds/crd.ts";
import { ensureLocation } from "./release/relocate.ts";
import type { ModuleIdentity, Reconciler, ReconcileRequest } from "./types.ts";

export type ModuleAccounts = Pick<Accounts, "resolveAccount" | "getKnownAccount" | "assertUsable">;

/** Creates the tools of a reconciler for each module: for its namespace, and with the permissions of its ServiceAccount. */
export class ModuleTools {
  readonly #reconciler: Reconciler;
  readonly #accounts: ModuleAccounts | undefined;
  /** The namespaces of modules that were read before. */
  readonly #namespaces = new Map<string, string>();

  /** Without `accounts`, the requests of all modules run under the operator's own account. */
  constructor(reconciler: Reconciler, accounts?: ModuleAccounts) {
    this.#reconciler = reconciler;
    this.#accounts = accounts;
  }

  /**
   * Creates the tools for a run, after making sure that the module's ServiceAccount exists and that its release is in the module's
   * namespace; a release in another namespace is moved. Throws MissingAccountError, ProblemError, and as `ensureLocation`.
   */
  async forRun({ module, signal }: ReconcileRequest): Promise<Reconciler> {
    const account = this.#accounts?.resolveAccount(module);
    if (account !== undefined) await this.#accounts?.assertUsable(account, signal);
    const tools = this.forModule(module);
    const storedAccount = account && `${account.namespace}/${account.name}`;
    await ensureLocation(tools, { release: module.name, account: storedAccount, signal });
    return tools;
  }

  /** Creates the tools for the namespace of a module. Throws ProblemError if the module may not use its ServiceAccount. */
  readonly forModule = (module: AccountSettings): Reconciler => {
    const namespace = module.namespace ?? this.#reconciler.operator.namespace;
    this.#namespaces.set(module.name, namespace);
    return this.#createTools(this.#accounts?.resolveAccount(module), namespace);
  };

  /**
   * Creates tools for the current namespace of a release, with the ServiceAccount of its module. Works also if the module's directory
   * is missing, as in a removal, because the account is stored with the location of the release.
   */
  forRelease(release: string): Reconciler {
    const { store } = this.#reconciler;
    return this.#createTools(this.#findAccount(release), store.namespaceOf(release));
  }

  /** On behalf of whom the requests of a module are sent. The module must have been read before. */
  readonly getIdentity = (module: string): ModuleIdentity => {
    const { client, namespace } = this.forRelease(module);
    const hasServiceAccount = this.#findAccount(module) !== undefined;
    return { client, namespace: this.#namespaces.get(module) ?? namespace, hasServiceAccount };
  };

  /**
   * Converts an error of work on CRDs: a missing permission of the module's ServiceAccount becomes a ProblemError of the module, so
   * that other modules do not wait for a retry. Returns any other error unchanged.
   */
  toCrdError({ release = "", files: [file = ""] }: CrdRequest, error: unknown): unknown {
    const account = this.#findAccount(release);
    if (account === undefined || !isForbidden(error)) return error;
    const message = `${describeAccount(account)} may not apply CRDs: ${oneLine(error)}`;
    const remedy = "grant it the right, or let a module of the platform install the CRDs";
    return new ProblemError({ file, message, remedy });
  }

  /** The ServiceAccount of a module; if the module's directory is missing, the one that is stored with the release's location. */
  #findAccount(release: string): Account | undefined {
    const knownAccount = this.#accounts?.getKnownAccount(release);
    if (knownAccount !== undefined) return knownAccount;
    const storedAccount = this.#reconciler.store.getLocation(release)?.account;
    // It has its namespace, as in `team-a/deployer`, so no default is needed.
    return storedAccount === undefined ? undefined : parseAccount(storedAccount, "");
  }

  /** Creates tools for releases in a namespace that impersonate an account; without an account, they use the operator's own. */
  #createTools(account: Account | undefined, namespace: string): Reconciler {
    const tools = this.#reconciler;
    const user = account && userOf(account);
    // The operator's own tools fit.
    if (user === undefined && namespace === tools.namespace) return tools;
    const client = user === undefined ? tools.client : tools.client.impersonate(user);
    return { ...tools, client, helm: tools.helm.forNamespace(namespace, user), namespace };
  }
}
