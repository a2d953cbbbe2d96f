/** The tools of each module: requests and helm act as the module's ServiceAccount, records stay the operator's. */

import { isForbidden, type Accounts, type AccountSettings } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { accountIn, describeAccount, ProblemError, userOf, type Account } from "../model/index.ts";
import type { CrdRequest } from "./crds/crd.ts";
import { ensureLocation } from "./release/relocate.ts";
import type { Actor, Reconciler, ReconcileRequest } from "./types.ts";

/** The ServiceAccounts of modules. */
export type ModuleAccounts = Pick<Accounts, "resolveAccount" | "getKnownAccount" | "assertUsable">;

/** The tools of a reconciler, by module. */
export class ActingTools {
  readonly #reconciler: Reconciler;
  readonly #accounts: ModuleAccounts | undefined;
  /** The namespaces of modules that were read before. */
  readonly #namespaces = new Map<string, string>();

  /** Without `accounts`, all modules act as the operator. */
  constructor(reconciler: Reconciler, accounts?: ModuleAccounts) {
    this.#reconciler = reconciler;
    this.#accounts = accounts;
  }

  /**
   * The tools for a run: the account of the module exists, and its release is in the module's namespace. Throws
   * MissingAccountError, ProblemError, and as `ensureLocation`.
   */
  async forRun({ module, signal }: ReconcileRequest): Promise<Reconciler> {
    const account = this.#accounts?.resolveAccount(module);
    if (account !== undefined) await this.#accounts?.assertUsable(account, signal);
    const tools = this.of(module);
    await ensureLocation(tools, { release: module.name, account: account && idOf(account), signal });
    return tools;
  }

  /** The tools of a module, in its namespace. Throws ProblemError if its account is not allowed. */
  readonly of = (module: AccountSettings): Reconciler => {
    const namespace = module.namespace ?? this.#reconciler.operator.namespace;
    this.#namespaces.set(module.name, namespace);
    return this.#as(this.#accounts?.resolveAccount(module), namespace);
  };

  /** Tools for the current namespace of a release, with the account of its module, also if the module's directory is missing. */
  known(release: string): Reconciler {
    const { store } = this.#reconciler;
    return this.#as(this.#accountOf(release), store.namespaceOf(release));
  }

  /** Who a module that was read before acts as. */
  readonly actorOf = (module: string): Actor => {
    const { client, namespace } = this.known(module);
    const isAccount = this.#accountOf(module) !== undefined;
    return { client, namespace: this.#namespaces.get(module) ?? namespace, isAccount };
  };

  /** Makes missing rights on CRDs a problem of the module, so that other modules do not wait for them. */
  crdFailure({ release = "", files: [file = ""] }: CrdRequest, error: unknown): unknown {
    const account = this.#accountOf(release);
    if (account === undefined || !isForbidden(error)) return error;
    const message = `${describeAccount(account)} may not apply CRDs: ${oneLine(error)}`;
    const remedy = "grant it the right, or let a module of the platform install the CRDs";
    return new ProblemError({ file, message, remedy });
  }

  #accountOf(release: string): Account | undefined {
    const last = this.#reconciler.store.location(release)?.account;
    return this.#accounts?.getKnownAccount(release) ?? (last === undefined ? undefined : accountIn(last, ""));
  }

  /** The tools that act as an account, or as the operator, on a release of that namespace. */
  #as(account: Account | undefined, namespace: string): Reconciler {
    const tools = this.#reconciler;
    const user = account && userOf(account);
    if (user === undefined && namespace === tools.namespace) return tools;
    const client = user === undefined ? tools.client : tools.client.impersonate(user);
    return { ...tools, client, helm: tools.helm.in(namespace, user), namespace };
  }
}

function idOf({ namespace, name }: Account): string {
  return `${namespace}/${name}`;
}
