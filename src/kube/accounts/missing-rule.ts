/** Reads the missing right from a refusal of the API server, also where helm or a hook quotes it. */

const REFUSAL =
  /User "([^"]+)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?/;

/**
 * The rule that a refusal lacks, as a remedy: `grant ServiceAccount team-a/deployer: create configmaps in namespace team-b`.
 * Undefined if the text contains no refusal by RBAC.
 */
export function missingRule(text: string): string | undefined {
  const [, user, verb, resource, group, namespace] = REFUSAL.exec(text) ?? [];
  if (user === undefined || resource === undefined) return undefined;
  const what = [resource, group].filter(Boolean).join(".");
  const where = namespace === undefined ? "in the whole cluster" : `in namespace ${namespace}`;
  return `grant ${subject(user)}: ${verb} ${what} ${where}`;
}

function subject(user: string): string {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  return name === undefined ? `user ${user}` : `ServiceAccount ${namespace}/${name}`;
}
