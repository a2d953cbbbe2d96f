/** Reads the missing permission from a refusal of the API server, also where helm or a hook quotes it. */

/** The sentence of the API server's RBAC authorizer. */
const REFUSAL =
  /User "([^"]+)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?/;

/**
 * Finds a refusal of the API server in a text, and returns the missing RBAC rule as a remedy for the user: `grant ServiceAccount
 * team-a/deployer: create configmaps in namespace team-b`. Undefined if the text contains no refusal by RBAC.
 */
export function findMissingRule(text: string): string | undefined {
  const [, user, verb, resource, group, namespace] = REFUSAL.exec(text) ?? [];
  if (user === undefined || resource === undefined) return undefined;
  const resourceName = [resource, group].filter(Boolean).join(".");
  const scope = namespace === undefined ? "in the whole cluster" : `in namespace ${namespace}`;
  return `grant ${describeUser(user)}: ${verb} ${resourceName} ${scope}`;
}

/** Names a user of the API server: `ServiceAccount team-a/deployer` or `user jane`. */
function describeUser(user: string): string {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  return name === undefined ? `user ${user}` : `ServiceAccount ${namespace}/${name}`;
}
