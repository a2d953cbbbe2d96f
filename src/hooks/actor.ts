/** The identity under which the hooks of a module run: user id, and access to the API server. */

import type { ScratchDir } from "../process/index.ts";

/** The identity of the hooks of a module that acts as a ServiceAccount. */
export interface HookActor {
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
}

/**
 * Calls `work` with the environment variables by which a hook reaches the API server under its module's account. Without an
 * account there are none, and the hook runs under the operator's service account. Throws as `withAccess` of the actor.
 */
export async function withAccess<T>(
  actor: HookActor | undefined,
  scratch: ScratchDir,
  work: (variables: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  if (actor === undefined) return work({});
  return actor.withAccess(scratch, (variables) => work({ ...variables, ...homeVariables(actor, scratch) }));
}

/** Variables that give a process under another user id its own home and temp directory; none for the operator's user id. */
export function homeVariables(
  { uid }: Pick<HookActor, "uid">,
  { userHome: home }: Pick<ScratchDir, "userHome">,
): Record<string, string> {
  return uid === undefined || home === undefined ? {} : { HOME: home, TMPDIR: home };
}
