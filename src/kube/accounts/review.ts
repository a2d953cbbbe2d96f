/** Whether a ServiceAccount may list and watch what a binding selects. */

import { describeAccount, userOf, type Account } from "../../model/index.ts";
import type { KubeClient } from "../client/client.ts";
import type { Resource } from "../resources.ts";
import { describeRight, missingRights } from "../rights.ts";

/** An account lacks rights; names each of them. */
export class MissingRightsError extends Error {
  constructor(account: Account, rights: readonly string[]) {
    super(`${describeAccount(account)} may not ${rights.join(", ")}; grant it these rights`);
    this.name = "MissingRightsError";
  }
}

const MOST_NAMED = 5;

/**
 * Throws MissingRightsError if the account may not list and watch the resource in each of the namespaces; none = in all of
 * them. Throws ApiError, ConnectionError.
 */
export async function mustList(
  client: KubeClient,
  account: Account,
  { resource, namespaces }: { readonly resource: Resource; readonly namespaces: readonly string[] },
): Promise<void> {
  const { group, plural } = resource;
  const places = namespaces.length === 0 || !resource.namespaced ? [""] : namespaces;
  const wanted = places.flatMap((namespace) =>
    ["list", "watch"].map((verb) => ({ verb, group, resource: plural, namespace })),
  );
  const missing = await missingRights(client.as(userOf(account)), wanted);
  if (missing.length > 0)
    throw new MissingRightsError(account, missing.slice(0, MOST_NAMED).map(describeRight));
}
