/** As whom the hooks of a module run: user id, and access to the API server. */

import type { Scratch } from "../process/index.ts";

/** The identity of the hooks of a module that acts as a ServiceAccount. */
export interface HookActor {
  /** User id of its processes; undefined = the operator's. */
  readonly uid: number | undefined;
  /** Variables of files that get no access: `enabled` scripts, and hooks that are queried for their configuration. */
  readonly offline: Readonly<Record<string, string>>;
  /** Gives a run access; `scratch` is the run's directory. Throws if the account gets no token. */
  readonly open: (scratch: Scratch) => Promise<HookAccess>;
}

/** Access of one run. */
interface HookAccess {
  /** Variables that name its kubeconfig. */
  readonly variables: Readonly<Record<string, string>>;
  /** Call it when the run has ended; `failed`: its token may be unusable. */
  readonly close: (failed: boolean) => void;
}

/** Calls `work` with the variables of a run's access; none without an actor. Throws as `open`, and as `work`. */
export async function withAccess<T>(
  actor: HookActor | undefined,
  scratch: Scratch,
  work: (
    variables: Readonly<Record<string, string>>,
  ) => Promise<{ readonly result: T; readonly failed: boolean }>,
): Promise<T> {
  if (actor === undefined) return (await work({})).result;
  const access = await actor.open(scratch);
  let failed = true;
  try {
    const end = await work({ ...access.variables, ...homeOf(actor, scratch) });
    failed = end.failed;
    return end.result;
  } finally {
    access.close(failed);
  }
}

/** A home and temp directory of its own for a process under another user id. */
export function homeOf(
  { uid }: Pick<HookActor, "uid">,
  { home }: Pick<Scratch, "home">,
): Record<string, string> {
  return uid === undefined || home === undefined ? {} : { HOME: home, TMPDIR: home };
}
