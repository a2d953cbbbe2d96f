/** Queries the API server for the operator's rights and reports the ones that it lacks. */

import type { KubeAccess, KubeClient } from "./client/client.ts";
import { mapInParallel, oneLine, type Timer } from "../lib/index.ts";
import type { Overlay } from "../model/index.ts";
import { CUSTOM_RESOURCE_DEFINITIONS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from "./resources.ts";
import type { AccessReview } from "./resources.ts";

/** One verb on one resource in one namespace. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace: string;
  /** One object; all of them by default. */
  readonly name?: string;
}

const PARALLEL = 8;

/**
 * The rights of `wanted` that the server would refuse, in order (SelfSubjectAccessReview). Errors: ApiError,
 * ConnectionError.
 */
export async function missingRights(client: KubeClient, wanted: readonly Right[]): Promise<Right[]> {
  const allowed = await mapInParallel(PARALLEL, wanted, (right) => isAllowed(client, right));
  return wanted.filter((_, index) => !allowed[index]);
}

/** A right as text: `create configmaps in namespace ops`. */
export function describeRight({ verb, group, resource, subresource, namespace, name }: Right): string {
  const what = [[resource, group].filter(Boolean).join("."), subresource].filter(Boolean).join("/");
  const named = name === undefined ? "" : ` ${name}`;
  return `${verb} ${what}${named} ${namespace === "" ? "in all namespaces" : `in namespace ${namespace}`}`;
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

const SOURCE_RIGHTS = [
  ["addon-operator.io", "modulesources", READ],
  ["addon-operator.io", "modulesources/status", ["patch"]],
] as const;

/** The rights that the operator itself needs, without those for charts and hooks of modules. */
export function ownRights(namespace: string, overlay: Overlay["kind"] | undefined, sources = false): Right[] {
  const rights = [
    ["", "configmaps", [...READ, "patch", ...(overlay === "ConfigMap" || sources ? ["create"] : [])]],
    ["", "secrets", [...READ, "create", "update", "patch", "delete"]],
    ["coordination.k8s.io", "leases", ["get", "create", "update", "patch"]],
    ["addon-operator.io", "addonmodules", [...READ, "create", "patch", "delete"]],
    ["addon-operator.io", "addonmodules/status", ["patch"]],
    ["addon-operator.io", "addonoperators", [...READ, "create", "patch"]],
    ["addon-operator.io", "addonoperators/status", ["patch"]],
    ["events.k8s.io", "events", ["create", "patch"]],
    ...(sources ? SOURCE_RIGHTS : []),
  ] as const;
  return rights.flatMap(([group, place, verbs]) => {
    const [resource = "", subresource] = place.split("/");
    const sub = subresource === undefined ? {} : { subresource };
    return verbs.map((verb) => ({ verb, group, resource, namespace, ...sub }));
  });
}

/** What of webhooks is registered. */
interface WebhookNeeds {
  /** The API server calls them through a Service. */
  readonly service: boolean;
  /** CRDs whose objects hooks convert. */
  readonly crds: readonly string[];
}

/** The rights that registering webhooks needs. */
export function webhookRights(namespace: string, { service, crds }: WebhookNeeds): Right[] {
  const verbs = [...READ, "create", "update", "delete"];
  return [
    ...(service ? [{ verb: "get", group: "", resource: "services", namespace }] : []),
    ...[VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS].flatMap(({ group, plural: resource }) =>
      verbs.map((verb) => ({ verb, group, resource, namespace: "" })),
    ),
    ...crds.flatMap((name) =>
      [...READ, "update"].map((verb) => {
        const { group, plural: resource } = CUSTOM_RESOURCE_DEFINITIONS;
        return { verb, group, resource, namespace: "", name };
      }),
    ),
  ];
}

/** The rights to create namespaces of modules. Those within a namespace are checked when a release comes there. */
export const NAMESPACE_RIGHTS: readonly Right[] = ["get", "create"].map((verb) => ({
  verb,
  group: "",
  resource: "namespaces",
  namespace: "",
}));

interface RightsOptions extends KubeAccess {
  readonly overlay: Overlay | undefined;
  readonly settings: { readonly sources: boolean };
  /** What else is needed at the moment. */
  readonly further: () => readonly Right[];
}

/** Interval of the check while rights are missing. */
const AGAIN_MS = 60_000;

/**
 * Returns a function that checks which of its own rights the operator lacks, and does so again each minute while any is
 * missing: call it at the start, and when more is needed. Calls `onFound` with the first result and every change, as
 * sentences. Never throws.
 */
export function watchRights(
  options: RightsOptions,
  onFound: (missing: readonly string[]) => void,
): () => Promise<void> {
  const { clock, logger } = options;
  let known: readonly string[] | undefined;
  let again: Timer | undefined;
  const check = async (): Promise<void> => {
    again?.cancel();
    const found = await findMissingRights(options);
    if (found !== undefined && found.join() !== known?.join()) {
      known = found;
      if (found.length > 0) logger.warn("Rights are missing; what needs them will fail", { rights: found });
      onFound(found);
    }
    if (found === undefined || found.length > 0) again = clock.setTimer(AGAIN_MS, next);
  };
  let last = Promise.resolve();
  const next = (): Promise<void> => (last = last.then(check));
  return next;
}

/** The missing rights as sentences; undefined if the check fails. */
async function findMissingRights(options: RightsOptions): Promise<string[] | undefined> {
  const { client, namespace, overlay, further, logger, settings } = options;
  try {
    const own = ownRights(namespace, overlay?.kind, settings.sources);
    const missing = await missingRights(client, [...own, ...further()]);
    return missing.map(describeRight);
  } catch (error) {
    logger.debug("Own rights could not be checked", { error: oneLine(error) });
    return undefined;
  }
}
