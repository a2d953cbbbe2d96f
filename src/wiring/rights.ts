import { describeRight, missingRights } from "../kube/index.ts";
import type { Right } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Base } from "./base.ts";

const READ = ["get", "list", "watch"];

/** What the operator itself needs, apart from what its modules' charts and hooks do. */
export function ownRights(namespace: string, overlay: boolean): Right[] {
  const rights = [
    ["", "configmaps", [...READ, "patch", ...(overlay ? ["create"] : [])]],
    ["", "secrets", [...READ, "create", "update", "patch", "delete"]],
    ["coordination.k8s.io", "leases", ["get", "create", "update", "patch"]],
    ["addon-operator.io", "addonmodules", [...READ, "create", "patch", "delete"]],
    ["addon-operator.io", "addonmodules/status", ["patch"]],
    ["addon-operator.io", "addonoperators", [...READ, "create", "patch"]],
    ["addon-operator.io", "addonoperators/status", ["patch"]],
    ["events.k8s.io", "events", ["create", "patch"]],
  ] as const;
  return rights.flatMap(([group, place, verbs]) => {
    const [resource = "", subresource] = place.split("/");
    const sub = subresource === undefined ? {} : { subresource };
    return verbs.map((verb) => ({ verb, group, resource, namespace, ...sub }));
  });
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
