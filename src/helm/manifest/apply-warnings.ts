/** Finds what server-side apply refuses in objects of a manifest, although client-side apply accepts it. */

import { isContainer, objectOf, objectsIn, asString, valueAt } from "../../model/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { CONTAINER_KEYS, nameForLint, POD_SPEC_PATHS } from "./manifest-problems.ts";
import { listManifestObjects } from "./manifest.ts";

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
