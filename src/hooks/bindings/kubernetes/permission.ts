/** Whether a binding may list what it selects: waits for the permissions of its module, and decides which errors need a user. */

import { ApiError, MissingPermissionsError, OversizeError } from "../../../kube/index.ts";
import { sleep, toError, type Clock } from "../../../base/index.ts";

/** Intervals of checks: while the module lacks permissions, which a user may grant soon, and while it has them. */
const CHECK_REFUSED_MS = 10_000;
const CHECK_PERMITTED_MS = 5 * 60_000;

interface Permission {
  /** Rejects with MissingPermissionsError; undefined for hooks that run under the operator's service account. */
  readonly check: (() => Promise<void>) | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Repeats the check of permissions until it succeeds or the binding is closed (`signal`), and calls `onRefused` with each failure. */
export async function waitUntilPermitted(
  { check, clock, signal }: Permission,
  onRefused: (error: Error) => void,
): Promise<void> {
  if (check === undefined) return; // The module has no account of its own.
  while (!signal.aborted) {
    const refusal = await check().then(() => undefined, toError);
    if (refusal === undefined || signal.aborted) return;
    onRefused(refusal);
    await sleep(clock, CHECK_REFUSED_MS, signal);
  }
}

/**
 * Repeats the check of a working binding until permissions are missing, and resolves with that error; undefined = the binding
 * was closed, or runs under the operator's own account, for which nothing is checked. Other errors, such as a failed connection,
 * change nothing.
 */
export async function waitUntilRefused({ check, clock, signal }: Permission): Promise<Error | undefined> {
  if (check === undefined) return undefined;
  for (;;) {
    await sleep(clock, CHECK_PERMITTED_MS, signal);
    if (signal.aborted) return undefined;
    const refusal = await check().then(() => undefined, toError);
    if (signal.aborted) return undefined;
    if (refusal instanceof MissingPermissionsError) return refusal;
  }
}

/** What a module may have only with permissions, such as a watch of foreign objects. */
interface PermittedWork {
  readonly open: () => void;
  readonly close: () => void;
  /** Called with each failed check while it is closed. */
  readonly onRefused: (error: Error) => void;
}

/** Opens `work` while the permissions are there, and closes it when they are missing. Ends with the signal, whose sender closes what is open. */
export async function openWhilePermitted(permission: Permission, work: PermittedWork): Promise<void> {
  const { signal } = permission;
  while (!signal.aborted) {
    await waitUntilPermitted(permission, work.onRefused);
    if (signal.aborted) return;
    work.open();
    const refusal = await waitUntilRefused(permission);
    if (refusal === undefined) return;
    work.close();
    work.onRefused(refusal);
  }
}

/** True for errors that stay until a user acts: `enable` does not wait for them. */
export function needsUserAction(error: Error): boolean {
  if (error instanceof OversizeError) return true;
  return error instanceof ApiError && [400, 403, 404, 405, 422].includes(error.status);
}
