/** Queries the API server for RBAC permissions of the operator and of accounts, and names the missing ones. */

import type { KubeAccess, KubeClient } from "./client/client.ts";
import { mapInParallel, oneLine } from "../base/index.ts";
import { describeAccount, userOf, type Account, type Overlay } from "../base/model/index.ts";
import { Loop } from "../runtime/index.ts";
import {
  CLUSTER_ROLE_BINDINGS,
  CUSTOM_RESOURCE_DEFINITIONS,
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
} from "./resources.ts";
import type { AccessReview, Resource } from "./resources.ts";

/** An RBAC permission: one verb on one resource in one namespace; in all namespaces if `namespace` is empty. */
export interface Permission {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace: string;
  /** One object; all of them by default. */
  readonly name?: string;
}

const MAX_PARALLEL_REVIEWS = 8;

/** Returns those of the `wanted` permissions that the client's user lacks, in order (SelfSubjectAccessReview). Throws ApiError, ConnectionError. */
export async function findMissingPermissions(
  client: KubeClient,
  wanted: readonly Permission[],
): Promise<Permission[]> {
  const allowed = await mapInParallel(MAX_PARALLEL_REVIEWS, wanted, (permission) =>
    isAllowed(client, permission),
  );
  return wanted.filter((_, index) => !allowed[index]);
}

/** A permission as text: `create configmaps in namespace ops`. */
export function describePermission(permission: Permission): string {
  const { verb, group, resource, subresource, namespace, name } = permission;
  const qualifiedResource = group === "" ? resource : `${resource}.${group}`;
  const resourcePath = subresource === undefined ? qualifiedResource : `${qualifiedResource}/${subresource}`;
  const objectName = name === undefined ? "" : ` ${name}`;
  const scope = namespace === "" ? "in all namespaces" : `in namespace ${namespace}`;
  return `${verb} ${resourcePath}${objectName} ${scope}`;
}

/** Whether the API server would allow the client's user to do this. */
async function isAllowed(client: KubeClient, permission: Permission): Promise<boolean> {
  const review = await client.json<AccessReview>({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    body: {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SelfSubjectAccessReview",
      spec: { resourceAttributes: permission },
    },
  });
  return review.status?.allowed === true;
}

const READ_VERBS = ["get", "list", "watch"];

const SOURCE_PERMISSIONS = [
  ["addon-operator.io", "modulesources", READ_VERBS],
  ["addon-operator.io", "modulesources/status", ["patch"]],
] as const;

/**
 * Lists the permissions that the operator itself needs, without those for charts and hooks of modules. `overlay` is the kind of the object that
 * stores the configuration that hooks write, if not the users' ConfigMap does; `sources`: the operator serves ModuleSource objects.
 */
export function listOwnPermissions(
  namespace: string,
  overlay: Overlay["kind"] | undefined,
  sources = false,
): Permission[] {
  const rules = [
    ["", "configmaps", [...READ_VERBS, "patch", ...(overlay === "ConfigMap" || sources ? ["create"] : [])]],
    ["", "secrets", [...READ_VERBS, "create", "update", "patch", "delete"]],
    ["coordination.k8s.io", "leases", ["get", "create", "update"]],
    ["addon-operator.io", "addonmodules", [...READ_VERBS, "create", "patch", "delete"]],
    ["addon-operator.io", "addonmodules/status", ["patch"]],
    ["addon-operator.io", "addonoperators", [...READ_VERBS, "create", "patch"]],
    ["addon-operator.io", "addonoperators/status", ["patch"]],
    ["events.k8s.io", "events", ["create", "patch"]],
    ...(sources ? SOURCE_PERMISSIONS : []),
  ] as const;
  return rules.flatMap(([group, resourcePath, verbs]) => {
    const [resource = "", subresource] = resourcePath.split("/");
    const sub = subresource === undefined ? {} : { subresource };
    return verbs.map((verb) => ({ verb, group, resource, namespace, ...sub }));
  });
}

interface WebhookNeeds {
  /** The API server calls the webhooks through a Service. */
  readonly service: boolean;
  /** The ClusterRoleBinding that owns the webhook configurations. */
  readonly owner?: string | undefined;
  /** CRDs whose objects hooks convert. */
  readonly crds: readonly string[];
}

/** Lists the permissions to register admission webhooks, and conversion webhooks in CRDs. */
export function listWebhookPermissions(
  namespace: string,
  { service, owner, crds }: WebhookNeeds,
): Permission[] {
  const verbs = [...READ_VERBS, "create", "update", "delete"];
  const { group: crdGroup, plural: crdResource } = CUSTOM_RESOURCE_DEFINITIONS;
  const crd = { group: crdGroup, resource: crdResource, namespace: "" };
  const { group: rbacGroup, plural: bindingResource } = CLUSTER_ROLE_BINDINGS;
  const bindings = { group: rbacGroup, resource: bindingResource, namespace: "" };
  return [
    ...(service ? [{ verb: "get", group: "", resource: "services", namespace }] : []),
    ...(owner === undefined ? [] : [{ ...bindings, verb: "get", name: owner }]),
    ...[VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS].flatMap(({ group, plural: resource }) =>
      verbs.map((verb) => ({ verb, group, resource, namespace: "" })),
    ),
    ...crds.flatMap((name) => [...READ_VERBS, "update"].map((verb) => ({ ...crd, verb, name }))),
  ];
}

/** The permissions to create namespaces of modules. Permissions within a namespace are checked when a release comes there. */
export const NAMESPACE_PERMISSIONS: readonly Permission[] = ["get", "create"].map((verb) => ({
  verb,
  group: "",
  resource: "namespaces",
  namespace: "",
}));

interface PermissionCheckOptions extends KubeAccess {
  readonly overlay: Overlay | undefined;
  readonly settings: { readonly sources: boolean };
  /** Returns the permissions that are needed at the moment besides the operator's own. */
  readonly getFurtherPermissions: () => readonly Permission[];
  /** The operator lacks these permissions, as sentences. Called with the first result and each change. */
  readonly report: { permissionsChecked(missing: readonly string[]): void };
}

const RECHECK_MS = 60_000;

/**
 * Creates a function that checks which permissions the operator lacks; call it at the start, and when more is needed. While any is missing or the
 * check fails, it repeats the check each minute. Never throws.
 */
export function createPermissionCheck(options: PermissionCheckOptions): () => Promise<void> {
  const { clock, logger, report } = options;
  let reported: readonly string[] | undefined;
  const check = async (): Promise<number | void> => {
    const missing = await describeMissingPermissions(options);
    if (missing !== undefined && missing.join() !== reported?.join()) {
      reported = missing;
      if (missing.length > 0)
        logger.warn("Rights are missing; what needs them will fail", { rights: missing });
      report.permissionsChecked(missing);
    }
    const hasAll = missing !== undefined && missing.length === 0;
    if (!hasAll) return RECHECK_MS;
  };
  const loop = new Loop({ clock, run: check, retry: RECHECK_MS });
  return () => loop.flush();
}

/** Describes the missing permissions as sentences; undefined if the check fails. */
async function describeMissingPermissions(options: PermissionCheckOptions): Promise<string[] | undefined> {
  const { client, namespace, overlay, getFurtherPermissions, logger, settings } = options;
  try {
    const ownPermissions = listOwnPermissions(namespace, overlay?.kind, settings.sources);
    const missing = await findMissingPermissions(client, [...ownPermissions, ...getFurtherPermissions()]);
    return missing.map(describePermission);
  } catch (error) {
    logger.debug("Own rights could not be checked", { error: oneLine(error) });
    return undefined;
  }
}

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
  await assertPermitted(client, account, wanted);
}

/** Throws MissingPermissionsError if the account lacks one of the permissions. Throws ApiError, ConnectionError. */
export async function assertPermitted(
  client: KubeClient,
  account: Account,
  wanted: readonly Permission[],
): Promise<void> {
  const missing = await findMissingPermissions(client.impersonate(userOf(account)), wanted);
  if (missing.length > 0)
    throw new MissingPermissionsError(
      account,
      missing.slice(0, MAX_NAMED_PERMISSIONS).map(describePermission),
    );
}

/** The sentence of the API server's RBAC authorizer. */
const REFUSAL =
  /User "([^"]+)" cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?/;

/** The API server lets nobody write a role with permissions that they do not have; the sentence ends with these. */
const ESCALATION =
  /user "([^"]+)" \(groups=[^)]*\) is attempting to grant RBAC permissions not currently held:\s*(\{.*\})/s;

/**
 * Finds a refusal of the API server in a text (`User "…" cannot create resource "configmaps" in API group "" …`), and returns the missing RBAC rule
 * as a remedy for the user: `grant ServiceAccount team-a/deployer: create configmaps in namespace team-b`. Undefined without a refusal.
 */
export function findMissingRule(text: string): string | undefined {
  const [, grantor, permissions = ""] = ESCALATION.exec(text) ?? [];
  if (grantor !== undefined)
    return `grant ${describeUser(grantor)} what the role grants: ${oneLine(permissions)}`;
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

interface SelfSubjectReview {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** Requests the name of the user of the client's credentials; undefined if the server does not report it. Throws ApiError, ConnectionError. */
export async function requestOwnUserName(
  client: KubeClient,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  const body = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const { status } = await client.json<SelfSubjectReview>({ method: "POST", path, body, signal });
  return status?.userInfo?.username;
}
