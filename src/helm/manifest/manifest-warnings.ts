/**
 * Finds what the author of a manifest hardly means: webhooks that can lock the operator out, what server-side apply refuses although
 * client-side apply accepts it, and integers that a template printed as floating-point numbers.
 */

import {
  asString,
  isContainer,
  objectOf,
  objectsIn,
  valueAt,
  type Json,
  type JsonObject,
} from "../../model/index.ts";
import { CONTAINER_KEYS, nameForLint, POD_SPEC_PATHS, textOrNone } from "./manifest-problems.ts";
import { listManifestObjects } from "./manifest.ts";

const WEBHOOK_KINDS = new Set(["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]);

/** What must not depend on the server of a webhook, and why. */
const VITAL_RESOURCES = [
  {
    group: "coordination.k8s.io",
    resource: "leases",
    operations: ["CREATE", "UPDATE"],
    effect: "fails closed for Leases of all namespaces, also of the operator and of Kubernetes",
  },
  {
    group: "",
    resource: "pods",
    operations: ["CREATE"],
    effect: "fails closed for Pods of all namespaces, also of its own server",
  },
];

type VitalResource = (typeof VITAL_RESOURCES)[number];

/**
 * Finds webhooks that fail closed and cover the Leases or Pods of all namespaces: if their server is down, the operator cannot renew its own
 * Lease, and ends, or the Pods of the server cannot start. Returns a sentence for each.
 */
export function findWebhookWarnings(documents: readonly Json[]): string[] {
  return listManifestObjects(documents)
    .filter(({ kind }) => WEBHOOK_KINDS.has(textOrNone(kind)))
    .flatMap((configuration) =>
      objectsIn(configuration["webhooks"]).flatMap((webhook) =>
        VITAL_RESOURCES.filter((vital) => coversAll(webhook, vital)).map(
          ({ effect }) => `${nameForLint(configuration)}: webhook ${textOrNone(webhook["name"])} ${effect}`,
        ),
      ),
    );
}

const SELECTORS = ["namespaceSelector", "objectSelector"];

/** Whether a webhook refuses to write objects of a resource while its server is down, wherever they are. */
function coversAll(webhook: JsonObject, { group, resource, operations }: VitalResource): boolean {
  const isSelective =
    SELECTORS.some((key) => Object.keys(objectOf(webhook[key])).length > 0) ||
    objectsIn(webhook["matchConditions"]).length > 0;
  if (webhook["failurePolicy"] === "Ignore" || isSelective) return false;
  return objectsIn(webhook["rules"]).some(
    (rule) =>
      names(rule["apiGroups"], group, "*") &&
      names(rule["resources"], resource, "*", "*/*") &&
      names(rule["operations"], ...operations, "*") &&
      rule["scope"] !== "Cluster",
  );
}

/** Whether a list contains one of these texts. */
function names(list: Json | undefined, ...texts: readonly string[]): boolean {
  return Array.isArray(list) && list.some((each) => texts.includes(asString(each) ?? ""));
}

/** The lists of a Pod spec and of a container, with the keys that identify their items. */
const POD_LISTS = { volumes: ["name"], imagePullSecrets: ["name"], hostAliases: ["ip"] };
const CONTAINER_LISTS = {
  env: ["name"],
  volumeMounts: ["mountPath"],
  volumeDevices: ["devicePath"],
  ports: ["containerPort", "protocol"],
};
const SERVICE_LISTS = { ports: ["port", "protocol"] };

/** Keys of a strategic merge patch, which only client-side apply knows. */
const PATCH_KEY = /^\$(?:patch|retainKeys|setElementOrder\/|deleteFromPrimitiveList\/)/;
/** The groups of Kubernetes, whose kinds client-side apply merges by these keys. */
const BUILT_IN_GROUP = /^(?:[^./]+|[^/]+\.k8s\.io)$/;

/** Finds items of lists that have the same key, and directives of patches. Returns a sentence for each. */
export function findApplyWarnings(documents: readonly Json[]): string[] {
  return listManifestObjects(documents).flatMap((object) => {
    const [group = ""] = (asString(object["apiVersion"]) ?? "").split("/");
    if (!BUILT_IN_GROUP.test(group)) return [];
    const { data: _, ...fields } = object;
    return [...findDuplicates(object), ...findDirectives(fields)].map(
      (text) => `${nameForLint(object)}: ${text}`,
    );
  });
}

/** Finds lists of an object in which two items have the same key. */
function findDuplicates(object: JsonObject): string[] {
  const service = object["kind"] === "Service" ? duplicatesIn(objectOf(object["spec"]), SERVICE_LISTS) : [];
  const podSpecs = POD_SPEC_PATHS.map((path) => objectOf(valueAt(object, path)));
  const pods = object["kind"] === "Service" ? [] : podSpecs.flatMap(findPodDuplicates);
  return [...service, ...pods];
}

function findPodDuplicates(podSpec: JsonObject): string[] {
  const ofContainers = CONTAINER_KEYS.flatMap((key) =>
    objectsIn(podSpec[key]).flatMap((container) =>
      duplicatesIn(container, CONTAINER_LISTS).map(
        (text) => `container ${asString(container["name"]) ?? ""}: ${text}`,
      ),
    ),
  );
  const containers = CONTAINER_KEYS.map((key) => [key, ["name"]] as const);
  return [...duplicatesIn(podSpec, { ...POD_LISTS, ...Object.fromEntries(containers) }), ...ofContainers];
}

/** Finds lists in `parent` with two items of the same key. */
function duplicatesIn(parent: JsonObject, lists: Readonly<Record<string, readonly string[]>>): string[] {
  return Object.entries(lists).flatMap(([list, keys]) => {
    const ids = objectsIn(parent[list]).map((item) => keys.map((key) => toText(item[key])).join("/"));
    const repeated = new Set(ids.filter((id, index) => ids.indexOf(id) !== index));
    return [...repeated].map((id) => `${list} has two items ${id}, which server-side apply rejects`);
  });
}

/** The text of a key. A port without a protocol is one of TCP. */
function toText(value: Json | undefined): string {
  return value === undefined ? "TCP" : (asString(value) ?? JSON.stringify(value));
}

/** Finds directives of strategic merge patches in a value. */
function findDirectives(value: Json): string[] {
  if (!isContainer(value)) return [];
  return Object.entries(value).flatMap(([key, child]) => [
    ...(PATCH_KEY.test(key) ? [`contains ${key}, which server-side apply rejects`] : []),
    ...findDirectives((child ?? null) as Json),
  ]);
}

/** As Go prints an integer of at least seven digits, such as `1.2345678e+07`: as a whole text, or as the value of a flag. */
const PRINTED_FLOAT = /^(?:[^=\s]*[=:]\s*)?(-?[1-9](?:\.\d+)?e\+(?:0[6-9]|1\d))$/;

/** Finds texts of a manifest that are, or end with, an integer in the notation of floating-point numbers. Returns a sentence for each. */
export function findFloatWarnings(documents: readonly Json[]): string[] {
  return listManifestObjects(documents).flatMap((object) =>
    listFloats(object, "").map(
      ({ path, float }) => `${nameForLint(object)}: ${path} with the number ${float}`,
    ),
  );
}

/** The printed floats below a value, with their paths. */
function listFloats(value: Json, path: string): { path: string; float: string }[] {
  if (typeof value === "string") {
    const [, float] = PRINTED_FLOAT.exec(value) ?? [];
    return float === undefined ? [] : [{ path, float }];
  }
  if (!isContainer(value)) return [];
  const toPath = (key: string): string =>
    Array.isArray(value) ? `${path}[${key}]` : [path, key].filter(Boolean).join(".");
  return Object.entries(value).flatMap(([key, member]) => listFloats(member ?? null, toPath(key)));
}
