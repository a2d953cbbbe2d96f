/**
 * Under which identity hooks of modules run. The `actor` of a module whose `addon.yaml` names a ServiceAccount, in short "with an
 * account", has a kubeconfig of the account for each run and, where the container allows it, a user id of its own.
 */

import { statSync } from "node:fs";
import { delimiter } from "node:path";

import { assertCanList, assertPermitted, openAccountKubeconfig, RunTokens } from "../kube/index.ts";
import type { Accounts, KubeAccess, KubeClient, Permission, Resource } from "../kube/index.ts";
import { attempt, findPathProblemBesideUsers, matchesGlob, oneLine, splitList } from "../base/index.ts";
import { userOf, type Account, type Hook, type KubernetesBinding, type Module } from "../base/model/index.ts";
import { resolveDirectories } from "../modules/index.ts";
import { findAccessObstacle, findUserIdProblem, UserIds } from "../base/process/index.ts";
import type { Children, ScratchDir } from "../base/process/index.ts";

/** The ServiceAccount under which helm and the hooks of a module act, in place of the operator's. */
export interface ModuleActor {
  /** User name of the ServiceAccount. */
  readonly user: string;
  /** User id of its processes; undefined = the operator's. */
  readonly uid: number | undefined;
  /** Variables for processes that need no access to the API server: `enabled` scripts, and hooks queried for their configuration. */
  readonly variablesWithoutAccess: Readonly<Record<string, string>>;
  /**
   * Calls `work` with the variables that name a kubeconfig of its account; `scratch` is the directory of the hook's run. Throws
   * if the account gets no token, and as `work`.
   */
  readonly withAccess: <T>(
    scratch: ScratchDir,
    work: (variables: Readonly<Record<string, string>>) => Promise<T>,
  ) => Promise<T>;
  /** Calls `work`, during which hooks of the module share one token, which is then revoked. Throws as `work`. */
  readonly duringRun: <T>(work: () => Promise<T>) => Promise<T>;
}

/** What a module with an account may have from what the operator does with its own permissions: webhooks, and watches of objects. */
export interface AccountLimits {
  /** User name of the ServiceAccount. */
  readonly user: string;
  /** Whether `--webhook-modules` lets hooks of the module register any webhook. */
  readonly isUnlimited: boolean;
  /** Throws MissingPermissionsError if the account lacks one of these permissions. Throws ApiError, ConnectionError. */
  readonly assertPermitted: (permissions: readonly Permission[]) => Promise<void>;
}

/** The permissions of a module's account; undefined = the module has none. Throws ProblemError while that is unknown. */
export type AccountPermissions = (module: string) => Pick<AccountLimits, "assertPermitted"> | undefined;

/**
 * Calls `work` with the environment variables by which a hook reaches the API server under its module's account. Without an
 * account there are none, and the hook runs under the operator's service account. Throws as `withAccess` of the actor.
 */
export async function withAccess<T>(
  actor: ModuleActor | undefined,
  scratch: ScratchDir,
  work: (variables: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  if (actor === undefined) return work({});
  return actor.withAccess(scratch, (variables) => work({ ...variables, ...homeVariables(actor, scratch) }));
}

/** Variables that give a process under another user id its own home and temp directory; none for the operator's user id. */
export function homeVariables(
  { uid }: Pick<ModuleActor, "uid">,
  { userHome: home }: Pick<ScratchDir, "userHome">,
): Record<string, string> {
  return uid === undefined || home === undefined ? {} : { HOME: home, TMPDIR: home };
}

/** The limit of `status.identity.message` in `crds/addonmodules.yaml`. */
const MAX_MESSAGE_LENGTH = 1024;
const POD_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";

interface ActorsOptions extends KubeAccess {
  readonly accounts: Pick<Accounts, "getKnownAccount" | "namespaceOf">;
  /** The environment of hooks. */
  readonly env: Readonly<Record<string, string>>;
  readonly children: Children;
  readonly settings: Parameters<typeof resolveDirectories>[0] & {
    readonly tmpDir: string;
    readonly configMap: string;
    readonly sources: boolean;
    readonly sourcesDir?: string | undefined;
    readonly webhookModules?: string | undefined;
  };
  /** Path of the kubeconfig for hooks under the operator's service account; variables in `env` contain it. */
  readonly hooksKubeconfig: string;
}

/**
 * Creates the identities of modules whose `addon.yaml` names a ServiceAccount. Their hooks reach the API server with a
 * token of the account and, where the container allows it, run under a user id that cannot read the operator's credentials.
 */
export class Actors {
  readonly #options: ActorsOptions;
  readonly #tokens: RunTokens;
  readonly #userIds = new UserIds();
  /** Why hooks share the operator's user id; undefined = they do not. */
  #sharedIdReason: string | undefined = "not checked yet";
  #hasReportedSharedId = false;

  constructor(options: ActorsOptions) {
    this.#options = options;
    const { namespace, settings } = options;
    this.#tokens = new RunTokens({ ...options, operator: `${namespace}/${settings.configMap}` });
  }

  /**
   * Finds out whether hooks can have user ids of their own; else `#sharedIdReason` says why they share the operator's. Call it
   * before the first hook is started. Never throws.
   */
  async checkUserIds(): Promise<void> {
    const { settings, client } = this.#options;
    const problem = await findUserIdProblem(settings.tmpDir, listCredentialFiles(client), this.#options);
    const { sources, sourcesDir } = settings;
    const hasSourcesDir = sources && sourcesDir !== undefined;
    // In a volume that every user may write to, such as an emptyDir, hooks could replace the modules from registries.
    const sourcesProblem = hasSourcesDir ? findPathProblemBesideUsers(sourcesDir) : undefined;
    this.#sharedIdReason = problem ?? sourcesProblem ?? this.#findModulesDirProblem();
  }

  /** Starts to revoke the tokens that an operator which was killed has left for modules with hooks. Call it before the first run. */
  revokeFormerTokens(modules: readonly Pick<Module, "name" | "hookFiles">[]): void {
    const owners = modules
      .filter(({ hookFiles }) => hookFiles.length > 0)
      .flatMap(({ name: module }) => {
        const account = attempt(() => this.#options.accounts.getKnownAccount(module));
        return account === undefined ? [] : [{ module, account }];
      });
    this.#tokens.revokeFormer(owners);
  }

  /** Resolves when the tokens of all ended runs are revoked. */
  waitForRevocations(): Promise<void> {
    return this.#tokens.waitForRevocations();
  }

  /** Describes why processes under other user ids cannot start hooks of modules; undefined if they can. */
  #findModulesDirProblem(): string | undefined {
    const { modulesDirs } = resolveDirectories(this.#options.settings);
    const obstacle = modulesDirs.map(findAccessObstacle).find((each) => each !== undefined);
    return (
      obstacle && `other users cannot reach the modules directory: ${obstacle}, and restart the operator`
    );
  }

  /** Logs once, if hooks share the operator's user id, why: an administrator may rely on the isolation. */
  #reportSharedId(): void {
    if (this.#hasReportedSharedId || this.#sharedIdReason === undefined) return;
    this.#hasReportedSharedId = true;
    const reason = this.#sharedIdReason;
    this.#options.logger.warn("Hooks of modules with an account share the operator's user id", { reason });
  }

  /**
   * The identity of a module (the fields: `ModuleActor`); undefined = the module acts under the operator's service account.
   * All hooks of a run share one token, which is revoked after the run; each hook gets a kubeconfig file of its own.
   */
  readonly actorOf = (module: string): ModuleActor | undefined => {
    const account = this.#options.accounts.getKnownAccount(module);
    if (account === undefined) return undefined;
    this.#reportSharedId();
    return {
      user: userOf(account),
      uid: this.#sharedIdReason === undefined ? this.#userIds.getOrAssignId(module) : undefined,
      variablesWithoutAccess: this.#kubeconfigVariables("/dev/null"),
      duringRun: (work) => this.#tokens.withToken({ module, account }, work),
      withAccess: (scratch, work) =>
        this.#tokens.withToken({ module, account }, async (token) => {
          const request = this.#accountRequest(module, account);
          const { path, close } = await openAccountKubeconfig({ ...this.#options, token }, request, scratch);
          try {
            return await work(this.#kubeconfigVariables(path));
          } finally {
            close();
          }
        }),
    };
  };

  /** Describes the identity of a module for its status; undefined = it acts under the operator's service account. */
  describeIdentity(
    module: string,
  ): { serviceAccount: string; hooksIsolated: boolean; message?: string } | undefined {
    // The account of a broken module may be unknown; the module's state reports why.
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
      ...(problems.length > 0 && { message: oneLine(problems.join("; "), MAX_MESSAGE_LENGTH) }),
    };
  }

  /**
   * Returns a check that the account of the hook's module may list the objects that the binding selects: the operator watches
   * them with its own permissions, and the hook must not see more than its account may. Undefined = the module acts under the
   * operator's service account.
   */
  readonly createListCheck = (
    { module }: Hook,
    { namespaces = [] }: KubernetesBinding,
    resource: Resource,
  ): (() => Promise<void>) | undefined => {
    const account = module === undefined ? undefined : this.#options.accounts.getKnownAccount(module);
    return account && (() => assertCanList(this.#options.client, account, { resource, namespaces }));
  };

  /** What limits a module by its account; undefined = nothing does, because the module acts under the operator's service account. */
  readonly accountLimitsOf = (module: string): AccountLimits | undefined => {
    const { accounts, client, settings } = this.#options;
    const account = accounts.getKnownAccount(module);
    if (account === undefined) return undefined;
    return {
      user: userOf(account),
      isUnlimited: splitList(settings.webhookModules).some((pattern) => matchesGlob(pattern, module)),
      assertPermitted: (permissions) => assertPermitted(client, account, permissions),
    };
  };

  /** Parameters of the kubeconfig for a run: the account, the namespace of its context, and where errors are logged. */
  #accountRequest(module: string, account: Account) {
    const { logger, accounts } = this.#options;
    const onError = (error: unknown): void =>
      logger.warn("The token of a running hook was not renewed", { module, error: oneLine(error) });
    return { account, namespace: accounts.namespaceOf(module), onError };
  }

  /** The variables by which hooks find their kubeconfig (several names are in use), with another path. */
  #kubeconfigVariables(path: string): Record<string, string> {
    const { env, hooksKubeconfig } = this.#options;
    const names = Object.keys(env).filter((name) => env[name] === hooksKubeconfig);
    return Object.fromEntries(names.map((name) => [name, path]));
  }
}

/** Lists the existing files with credentials of the operator, which hooks must not read: kubeconfigs, the files that they name, and the token of its Pod. */
function listCredentialFiles(client: KubeClient): string[] {
  // The exported kubeconfig is JSON.
  const fileMembers = client.exportKubeconfig().matchAll(/"(?:tokenFile|client-key)":"([^"]+)"/g);
  const namedFiles = [...fileMembers].map(([, file = ""]) => file);
  const kubeconfigs = client.credentialsInfo.file.split(delimiter);
  const files = [...kubeconfigs, ...namedFiles, POD_TOKEN];
  return [...new Set(files)].filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile() === true);
}
