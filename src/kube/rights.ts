/** Asks the API server what the operator may do, and checks the rights that it needs itself. */

import type { KubeAccess, KubeClient } from "./client/client.ts";
import { inParallel, oneLine } from "../lib/index.ts";
import type { Overlay } from "../model/index.ts";
import type { AccessReview } from "./resources.ts";

/** One thing to be allowed in a namespace. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace: string;
}

const PARALLEL = 8;

/**
 * Those of `wanted` that the server would refuse, in order (SelfSubjectAccessReview). Errors: ApiError,
 * ConnectionError.
 */
export async function missingRights(client: KubeClient, wanted: readonly Right[]): Promise<Right[]> {
  const allowed = await inParallel(PARALLEL, wanted, (right) => isAllowed(client, right));
  return wanted.filter((_, index) => !allowed[index]);
}

/** A right in words: `create configmaps in namespace ops`. */
export function describeRight({ verb, group, resource, subresource, namespace }: Right): string {
  const what = [[resource, group].filter(Boolean).join("."), subresource].filter(Boolean).join("/");
  return `${verb} ${what} in namespace ${namespace}`;
}

async function isAllowed(client: KubeClient, right: Right): Promise<boolean> {
  const review = await client.json<AccessReview>({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: right },
    },
  });
  return review.status?.allowed === true;
}

const READ = ["get", "list", "watch"];

/** What the operator itself needs, apart from what its modules' charts and hooks do. */
export function ownRights(namespace: string, overlay: Overlay["kind"] | undefined): Right[] {
  const rights = [
    ["", "configmaps", [...READ, "patch", ...(overlay === "ConfigMap" ? ["create"] : [])]],
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

interface RightsOptions extends KubeAccess {
  readonly overlay: Overlay | undefined;
}

/** While rights are missing they are checked this often: somebody may be granting them. */
const AGAIN_MS = 60_000;

/**
 * Finds out which of its own rights the operator lacks, as sentences, and again each minute while there are some;
 * calls `onFound` with the first result and every change. The operator goes on with what it may do. Never throws.
 */
export async function watchRights(
  options: RightsOptions,
  onFound: (missing: readonly string[]) => void,
): Promise<void> {
  const { clock, logger } = options;
  let known: readonly string[] | undefined;
  const look = async (): Promise<void> => {
    const found = await findMissingRights(options);
    if (found !== undefined && found.join() !== known?.join()) {
      known = found;
      if (found.length > 0) logger.warn("Rights are missing; what needs them will fail", { rights: found });
      onFound(found);
    }
    if (found === undefined || found.length > 0) clock.setTimer(AGAIN_MS, look);
  };
  await look();
}

/** Undefined when that cannot be found out now. */
async function findMissingRights(options: RightsOptions): Promise<string[] | undefined> {
  const { client, namespace, overlay, logger } = options;
  try {
    const missing = await missingRights(client, ownRights(namespace, overlay?.kind));
    return missing.map(describeRight);
  } catch (error) {
    logger.debug("Own rights could not be checked", { error: oneLine(error) });
    return undefined;
  }
}
