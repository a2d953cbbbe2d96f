/** Checks whether a ServiceAccount may list and watch the objects that a binding selects. */

import { describeAccount, userOf, type Account } from "../../model/index.ts";
import type { KubeClient } from "../client/client.ts";
import type { Resource } from "../resources.ts";
import { describePermission, findMissingPermissions } from "../rights.ts";

/** An account lacks permissions; the message names each of them. */
export class MissingPermissionsError extends Error {
  constructor(account: Account, permissions: readonly string[]) {
    super(`${describeAccount(account)} may not ${permissions.join(", ")}; grant it these rights`);
    this.name = "MissingRightsError";
  }
}

const MAX_NAMED_PERMISSIONS = 5;

/**
 * Call it before the operator watches objects for a module's hooks: the operator could otherwise show hooks what the module's account may
 * not read. Throws MissingPermissionsError if the account may not list and watch the resource in each of the namespaces; without
 * namespaces, in the whole cluster. Throws ApiError, ConnectionError.
 */
export async function assertCanList(
  client: KubeClient,
  account: Account,
  { resource, namespaces }: { readonly resource: Resource; readonly namespaces: readonly string[] },
): Promise<void> {
  const { group, plural } = resource;
  const checkedNamespaces = namespaces.length === 0 || !resource.namespaced ? [""] : namespaces;
  const wanted = checkedNamespaces.flatMap((namespace) =>
    ["list", "watch"].map((verb) => ({ verb, group, resource: plural, namespace })),
  );
  const missing = await findMissingPermissions(client.impersonate(userOf(account)), wanted);
  if (missing.length > 0)
    throw new MissingPermissionsError(
      account,
      missing.slice(0, MAX_NAMED_PERMISSIONS).map(describePermission),
    );
}
