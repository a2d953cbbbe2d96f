/** The tools of each module: requests and helm act as the module's ServiceAccount, records stay the operator's. */

import { isForbidden, type Accounts, type AccountTerms } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { describeAccount, ProblemError, userOf, type Account } from "../model/index.ts";
import type { CrdRequest } from "./crds/crd.ts";
import type { Actor, Reconciler, ReconcileRequest } from "./types.ts";

/** The ServiceAccounts of modules. */
export type ModuleAccounts = Pick<Accounts, "of" | "known" | "mustExist">;

/** The tools of a reconciler, by module. */
export class ActingTools {
  readonly #reconciler: Reconciler;
  readonly #accounts: ModuleAccounts | undefined;

  /** Without `accounts`, all modules act as the operator. */
  constructor(reconciler: Reconciler, accounts?: ModuleAccounts) {
    this.#reconciler = reconciler;
    this.#accounts = accounts;
  }

  /** The tools for a run, whose account must exist. Throws MissingAccountError, ProblemError. */
  async forRun({ module, signal }: ReconcileRequest): Promise<Reconciler> {
    const account = this.#accounts?.of(module);
    if (account !== undefined) await this.#accounts?.mustExist(account, signal);
    return this.#as(account);
  }

  /** The tools of a module. Throws ProblemError if its account is not allowed. */
  readonly of = (module: AccountTerms): Reconciler => this.#as(this.#accounts?.of(module));

  /** The tools of a module that was read before. */
  known(module: string): Reconciler {
    return this.#as(this.#accounts?.known(module));
  }

  /** Who a module that was read before acts as. */
  readonly actorOf = (module: string): Actor => {
    const { client } = this.known(module);
    return { client, isAccount: this.#accounts?.known(module) !== undefined };
  };

  /** Makes missing rights on CRDs a problem of the module, so that other modules do not wait for them. */
  crdFailure({ release = "", files: [file = ""] }: CrdRequest, error: unknown): unknown {
    const account = this.#accounts?.known(release);
    if (account === undefined || !isForbidden(error)) return error;
    const message = `${describeAccount(account)} may not apply CRDs: ${oneLine(error)}`;
    const remedy = "grant it the right, or let a module of the platform install the CRDs";
    return new ProblemError([{ file, message, remedy }]);
  }

  /** The tools that act as an account; those of the operator without an account. */
  #as(account: Account | undefined): Reconciler {
    const tools = this.#reconciler;
    if (account === undefined) return tools;
    const user = userOf(account);
    return { ...tools, client: tools.client.as(user), helm: tools.helm.as(user) };
  }
}
