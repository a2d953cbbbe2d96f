/** The tools of each module: requests and helm act as the module's ServiceAccount, records stay the operator's. */

import { isForbidden, type Accounts, type AccountTerms } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { accountIn, describeAccount, ProblemError, userOf, type Account } from "../model/index.ts";
import type { CrdRequest } from "./crds/crd.ts";
import { ensureLocation } from "./release/relocate.ts";
import type { ModuleIdentity, Reconciler, ReconcileRequest } from "./types.ts";

/** The ServiceAccounts of modules. */
export type ModuleAccounts = Pick<Accounts, "of" | "known" | "mustExist">;

/** The tools of a reconciler, by module. */
export class ModuleTools {
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
    const account = this.#accounts?.of(module);
    if (account !== undefined) await this.#accounts?.mustExist(account, signal);
    const tools = this.forModule(module);
    await ensureLocation(tools, { release: module.name, account: account && formatAccount(account), signal });
    return tools;
  }

  /** The tools of a module, in its namespace. Throws ProblemError if its account is not allowed. */
  readonly forModule = (module: AccountTerms): Reconciler => {
    const namespace = module.namespace ?? this.#reconciler.operator.namespace;
    this.#namespaces.set(module.name, namespace);
    return this.#createTools(this.#accounts?.of(module), namespace);
  };

  /** Tools for the current namespace of a release, with the account of its module, also if the module's directory is missing. */
  forRelease(release: string): Reconciler {
    const { store } = this.#reconciler;
    return this.#createTools(this.#findAccount(release), store.namespaceOf(release));
  }

  /** Who a module that was read before acts as. */
  readonly getIdentity = (module: string): ModuleIdentity => {
    const { client, namespace } = this.forRelease(module);
    const isAccount = this.#findAccount(module) !== undefined;
    return { client, namespace: this.#namespaces.get(module) ?? namespace, hasServiceAccount: isAccount };
  };

  /** Makes missing rights on CRDs a problem of the module, so that other modules do not wait for them. */
  toCrdError({ release = "", files: [file = ""] }: CrdRequest, error: unknown): unknown {
    const account = this.#findAccount(release);
    if (account === undefined || !isForbidden(error)) return error;
    const message = `${describeAccount(account)} may not apply CRDs: ${oneLine(error)}`;
    const remedy = "grant it the right, or let a module of the platform install the CRDs";
    return new ProblemError({ file, message, remedy });
  }

  #findAccount(release: string): Account | undefined {
    const last = this.#reconciler.store.getLocation(release)?.account;
    return this.#accounts?.known(release) ?? (last === undefined ? undefined : accountIn(last, ""));
  }

  /** The tools that act as an account, or as the operator, on a release of that namespace. */
  #createTools(account: Account | undefined, namespace: string): Reconciler {
    const tools = this.#reconciler;
    const user = account && userOf(account);
    if (user === undefined && namespace === tools.namespace) return tools;
    const client = user === undefined ? tools.client : tools.client.as(user);
    return { ...tools, client, helm: tools.helm.in(namespace, user), namespace };
  }
}

function formatAccount({ namespace, name }: Account): string {
  return `${namespace}/${name}`;
}
