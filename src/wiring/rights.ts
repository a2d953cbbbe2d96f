import { describeRight, missingRights } from "../kube/index.ts";
import type { Right } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Base } from "./base.ts";

const READ = ["get", "list", "watch"];

/** What the operator itself needs, apart from what its modules' charts and hooks do. */
export function ownRights(namespace: string, overlay: boolean): Right[] {
  const here = (group: string, resource: string, verbs: readonly string[], subresource?: string): Right[] =>
    verbs.map((verb) => ({
      verb,
      group,
      resource,
      namespace,
      ...(subresource === undefined ? {} : { subresource }),
    }));
  return [
    ...here("", "configmaps", [...READ, "patch", ...(overlay ? ["create"] : [])]),
    ...here("", "secrets", [...READ, "create", "update", "patch", "delete"]),
    ...here("coordination.k8s.io", "leases", ["get", "create", "update", "patch"]),
    ...here("addon-operator.io", "addonmodules", [...READ, "create", "patch", "delete"]),
    ...here("addon-operator.io", "addonmodules", ["patch"], "status"),
    ...here("addon-operator.io", "addonoperators", [...READ, "create", "patch"]),
    ...here("addon-operator.io", "addonoperators", ["patch"], "status"),
    ...here("events.k8s.io", "events", ["create", "patch"]),
  ];
}

/** Asks which of its own rights the operator misses, as sentences; it goes on with what it may do. Never throws. */
export async function findMissingRights(base: Base): Promise<string[]> {
  const { client, namespace, settings, logger } = base;
  try {
    const missing = await missingRights(client, ownRights(namespace, settings.configOverlay !== undefined));
    const names = missing.map(describeRight);
    if (names.length > 0) logger.warn("Rights are missing; what needs them will fail", { rights: names });
    return names;
  } catch (error) {
    logger.debug("Own rights could not be checked", { error: oneLine(error) });
    return [];
  }
}
