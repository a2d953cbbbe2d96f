/** ServiceAccounts that the operator impersonates for modules (docs/guides/tenancy.md). */

/** A ServiceAccount. */
export interface Account {
  readonly namespace: string;
  readonly name: string;
}

/** The account that `serviceAccountName` of `addon.yaml` names: `NAME`, in `namespace`, or `NAMESPACE/NAME`. */
export function resolveAccount(serviceAccountName: string, namespace: string): Account {
  const [name = "", other] = serviceAccountName.split("/").reverse();
  return { namespace: other ?? namespace, name };
}

/** The user name under which the API server knows a ServiceAccount, for impersonation. */
export function userOf({ namespace, name }: Account): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

/** The account for messages. */
export function describeAccount({ namespace, name }: Account): string {
  return `ServiceAccount ${namespace}/${name}`;
}
