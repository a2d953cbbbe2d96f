/** As whom the hooks of modules run: user ids where the container may, and kubeconfigs of their ServiceAccounts. */

import { statSync } from "node:fs";
import { delimiter } from "node:path";

import { assertCanList, openAccountKubeconfig, RunTokens } from "../kube/index.ts";
import type { Accounts, KubeClient, Resource } from "../kube/index.ts";
import { attempt, oneLine, type Clock, type Logger } from "../lib/index.ts";
import { userOf, type Account, type Hook, type KubernetesBinding } from "../model/index.ts";
import { placesOf } from "../modules/index.ts";
import { type Children, findAccessObstacle, findUserIdProblem, UserIds } from "../process/index.ts";
import type { Settings } from "../settings.ts";
import type { ModuleActor } from "../tasks/index.ts";

/** Of `status.identity.message` (`crds/addonmodules.yaml`). */
const LONGEST_MESSAGE = 1024;
const POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";

interface ActorsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly accounts: Pick<Accounts, "getKnownAccount" | "namespaceOf">;
  /** The environment of hooks. */
  readonly env: Readonly<Record<string, string>>;
  readonly children: Children;
  readonly settings: Pick<Settings, "tmpDir" | "configMap" | "workingDir" | "modulesDir">;
  /** The operator's. */
  readonly namespace: string;
  /** Path of the operator's kubeconfig for hooks, which `env` names. */
  readonly hooksKubeconfig: string;
}

/** The identities of hooks. */
export class Actors {
  readonly #options: ActorsOptions;
  readonly #tokens: RunTokens;
  readonly #ids = new UserIds();
  /** Why hooks share the operator's user id; undefined = they do not. */
  #sharedIdReason: string | undefined = "not checked yet";
  #isReported = false;

  constructor(options: ActorsOptions) {
    this.#options = options;
    const { namespace, settings } = options;
    this.#tokens = new RunTokens({ ...options, operator: `${namespace}/${settings.configMap}` });
  }

  /** Finds out whether hooks can have user ids of their own. Call it before the first hook is started. Never throws. */
  async check(): Promise<void> {
    const { settings, client } = this.#options;
    const problem = await findUserIdProblem(settings.tmpDir, secretFiles(client), this.#options);
    this.#sharedIdReason = problem ?? this.#unreachable();
  }

  /** Resolves when no token of a run that has ended is being revoked. */
  settled(): Promise<void> {
    return this.#tokens.waitForRevocations();
  }

  /** Why processes under other user ids cannot start hooks of modules. */
  #unreachable(): string | undefined {
    const [obstacle] = placesOf(this.#options.settings).modulesDirs.flatMap(
      (dir) => findAccessObstacle(dir) ?? [],
    );
    return (
      obstacle && `other users cannot reach the modules directory: ${obstacle}, and restart the operator`
    );
  }

  /** Logs once why modules with an account are not isolated. */
  #reportSharedId(): void {
    if (this.#isReported || this.#sharedIdReason === undefined) return;
    this.#isReported = true;
    const reason = this.#sharedIdReason;
    this.#options.logger.warn("Hooks of modules with an account share the operator's user id", { reason });
  }

  /** As whom a module acts; undefined = as the operator. */
  readonly of = (module: string): ModuleActor | undefined => {
    const account = this.#options.accounts.getKnownAccount(module);
    if (account === undefined) return undefined;
    this.#reportSharedId();
    return {
      user: userOf(account),
      uid: this.#sharedIdReason === undefined ? this.#ids.idFor(module) : undefined,
      offline: this.#variablesNaming("/dev/null"),
      duringRun: (work) => this.#tokens.withToken({ module, account }, work),
      withAccess: (scratch, work) =>
        this.#tokens.withToken({ module, account }, async (token) => {
          const request = this.#requestOf(module, account);
          const { path, close } = await openAccountKubeconfig({ ...this.#options, token }, request, scratch);
          try {
            return await work(this.#variablesNaming(path));
          } finally {
            close();
          }
        }),
    };
  };

  /** As whom a module acts, for its status; undefined = as the operator. */
  describe(module: string): { serviceAccount: string; hooksIsolated: boolean; message?: string } | undefined {
    // Of a broken module, no account may be known; its state says why.
    const account = attempt(() => this.#options.accounts.getKnownAccount(module));
    if (account === undefined) return undefined;
    const tokenProblem = this.#tokens.getProblem(module);
    const problems = [
      this.#sharedIdReason && `hooks share the operator's user id: ${this.#sharedIdReason}`,
      tokenProblem && `tokens of its hooks stay valid after the run, for up to ten minutes: ${tokenProblem}`,
    ].filter((problem) => problem !== undefined);
    return {
      serviceAccount: `${account.namespace}/${account.name}`,
      hooksIsolated: this.#sharedIdReason === undefined,
      ...(problems.length === 0 ? {} : { message: oneLine(problems.join("; "), LONGEST_MESSAGE) }),
    };
  }

  /** Checks that the account of the hook's module may list what the binding selects; undefined = it acts as the operator. */
  listCheck(
    { module }: Hook,
    { namespaces = [] }: KubernetesBinding,
    resource: Resource,
  ): (() => Promise<void>) | undefined {
    const account = module === undefined ? undefined : this.#options.accounts.getKnownAccount(module);
    return account && (() => assertCanList(this.#options.client, account, { resource, namespaces }));
  }

  /** What a hook run needs to act as its account: the account, its namespace, and where errors are logged. */
  #requestOf(module: string, account: Account) {
    const { logger, accounts } = this.#options;
    const onError = (error: unknown): void =>
      logger.warn("The token of a running hook was not renewed", { module, error: oneLine(error) });
    return { account, namespace: accounts.namespaceOf(module), onError };
  }

  /** The variables that name the kubeconfig of hooks, with this path instead. */
  #variablesNaming(path: string): Record<string, string> {
    const { env, hooksKubeconfig } = this.#options;
    const names = Object.keys(env).filter((name) => env[name] === hooksKubeconfig);
    return Object.fromEntries(names.map((name) => [name, path]));
  }
}

/** The files of the operator's credentials: kubeconfigs, what they name, and the token of its Pod. */
function secretFiles(client: KubeClient): string[] {
  const namedFiles = client.exportKubeconfig().matchAll(/"(?:tokenFile|client-key)":"([^"]+)"/g);
  const kubeconfigs = client.credentialsInfo.file.split(delimiter);
  const files = [...kubeconfigs, ...[...namedFiles].map(([, file = ""]) => file), POD_TOKEN];
  return [...new Set(files)].filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true);
}
