/**
 * Finds what is wrong with the rendered manifest of a module, for `lint`: what every API server refuses, records that are too large, and what
 * the author hardly means, such as webhooks that can lock the operator out.
 */

import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { readRegularFile } from "../../base/index.ts";
import { asString, isContainer, isJsonObject, objectOf, objectsIn, valueAt } from "../../base/model/index.ts";
import type { Json, JsonObject, Module, Problem } from "../../base/model/index.ts";
import { findChartFiles } from "../chart/chart.ts";
import type { FileFindings } from "../chart/file-problems.ts";
import { findOwnCrd } from "../crds/read-crds.ts";
import { expandLists, listManifestObjects, parseDocuments } from "./manifest.ts";

/** Finds what the API server refuses or helm cannot store, and warns of what the author of the chart hardly means. */
export function findRenderedProblems(module: Module, manifest: string): FileFindings {
  const documents = parseDocuments(manifest);
  const toProblems = (messages: readonly string[], remedy?: string): Problem[] =>
    messages.map((message) => ({ file: module.dir, message, ...(remedy !== undefined && { remedy }) }));
  const rendered = (texts: readonly string[]): string[] => texts.map((text) => `renders ${text}`);
  // Helm 4 cannot install these objects with server-side apply, its default.
  const unappliable = module.helm?.apply === "client" ? [] : findApplyWarnings(documents);
  return {
    problems: [
      ...toProblems(rendered(findManifestProblems(documents))),
      ...findRecordProblems(module, manifest),
    ],
    warnings: [
      ...toProblems(
        findWebhookWarnings(documents),
        "name the resources that it needs, add a namespaceSelector, or set failurePolicy: Ignore",
      ),
      ...toProblems(rendered(unappliable), "correct the chart, or set helm: {apply: client} in addon.yaml"),
      ...toProblems(
        rendered(findFloatWarnings(documents)),
        "print integers of values with the function int64",
      ),
    ],
  };
}

/** The API server's size limit of a Secret, and so of a record, in bytes. */
const MAX_SECRET_BYTES = 1024 * 1024;

/** Finds a release that helm could not store: its record must fit into a Secret. */
function findRecordProblems(module: Module, manifest: string): Problem[] {
  const size = computeRecordSize(module, manifest);
  if (size <= MAX_SECRET_BYTES) return [];
  const hasCrds = module.crdFiles.length > 0 || manifest.includes("kind: CustomResourceDefinition");
  const mebibytes = (size / MAX_SECRET_BYTES).toFixed(1);
  const message = `helm's release record would have ${mebibytes} MiB, but a Secret has a limit of 1 MiB`;
  const remedy = hasCrds
    ? `move large CRDs from the chart to ${join(module.dir, "crds")}`
    : "list files that no template reads in .helmignore, or split the chart";
  return [{ file: module.dir, message, remedy }];
}

/**
 * Computes how many bytes helm's record of a release would have, because the API server limits the size of a Secret. helm stores the
 * manifest and the files of the chart, without those of its sub-charts, compressed and in base64 (4 characters for 3 bytes). Throws the
 * file system's error.
 */
function computeRecordSize(module: Pick<Module, "chartDir" | "chart">, manifest: string): number {
  const files = findChartFiles(module)
    .filter(({ rel }) => !rel.startsWith("charts/"))
    .map(({ rel, path }) => ({ name: rel, data: readRegularFile(path).toString("base64") }));
  const packed = gzipSync(JSON.stringify({ chart: { files }, manifest }), { level: 9 });
  return Math.ceil(packed.length / 3) * 4;
}

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const SUBDOMAIN_LENGTH = 253;
/** Kinds whose names only have to be valid in a path. */
const PATH_NAMED_GROUP = "rbac.authorization.k8s.io/";
/** Kinds whose names become part of host names. */
const LABEL_NAMED_KINDS = new Set(["Namespace", "Service"]);
/** The lists of containers in a Pod spec. */
const CONTAINER_KEYS = ["containers", "initContainers", "ephemeralContainers"];
/** Paths to the Pod specs of Pods, of workloads and of CronJobs. */
const POD_SPEC_PATHS = [
  ["spec"],
  ["spec", "template", "spec"],
  ["spec", "jobTemplate", "spec", "template", "spec"],
];

/**
 * Finds what every API server would refuse: documents that are no objects, invalid names of objects and containers, invalid
 * values of labels, and objects that occur twice. Returns for each problem what the manifest contains.
 */
export function findManifestProblems(documents: readonly Json[]): string[] {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const object of documents.flatMap(expandLists)) {
    if (!isJsonObject(object)) {
      problems.push("a document that is no object");
      continue;
    }
    const what = nameForLint(object);
    if (typeof object["apiVersion"] !== "string" || typeof object["kind"] !== "string") {
      problems.push(`${what}: apiVersion or kind is missing`);
      continue;
    }
    problems.push(...findObjectProblems(object).map((problem) => `${what}: ${problem}`));
    const id = `${textOrNone(object["apiVersion"])} ${what}`;
    if (seen.has(id)) problems.push(`${what} twice`);
    seen.add(id);
  }
  return problems;
}

/** `Kind namespace/name` for messages, with `(none)` for missing parts. */
function nameForLint(object: JsonObject): string {
  const { name, namespace } = objectOf(object["metadata"]);
  const where = typeof namespace === "string" ? `${namespace}/` : "";
  return `${textOrNone(object["kind"])} ${where}${textOrNone(name)}`;
}

function textOrNone(value: Json | undefined): string {
  return asString(value) ?? "(none)";
}

/** Finds the problems of one object: of its name, namespace, labels and containers, and a replaced CRD of the operator. */
function findObjectProblems(object: JsonObject): string[] {
  const { name, namespace, labels } = objectOf(object["metadata"]);
  const ownCrd = findOwnCrd([{ kind: textOrNone(object["kind"]), name: textOrNone(name) }], "");
  return [
    ...(ownCrd === undefined ? [] : [`${ownCrd.message}: ${ownCrd.remedy ?? ""}`]),
    ...findNameProblems(object, name),
    ...(namespace === undefined || namespace === null || isDnsLabel(namespace)
      ? []
      : [`"${formatValue(namespace)}" is no valid namespace`]),
    ...findLabelProblems(labels),
    ...POD_SPEC_PATHS.flatMap((path) => findContainerProblems(objectOf(valueAt(object, path)))),
  ];
}

/** Checks that an object has a name, and that the name is valid. A `generateName` suffices, too. */
function findNameProblems(object: JsonObject, name: Json | undefined): string[] {
  if (name === undefined && objectOf(object["metadata"])["generateName"] !== undefined) return [];
  if (name === undefined || name === null || name === "") return ["it has no name"];
  if (typeof name !== "string") return [`its name is ${formatValue(name)}, which is no text: quote it`];
  return findSpellingProblems(object, name);
}

/** Checks the characters of a name. The API server allows other characters in names of RBAC objects, Namespaces and Services. */
function findSpellingProblems({ apiVersion, kind }: JsonObject, name: string): string[] {
  if (textOrNone(apiVersion).startsWith(PATH_NAMED_GROUP))
    return /[/%]/.test(name) ? [`its name may contain neither "/" nor "%"`] : [];
  const valid = LABEL_NAMED_KINDS.has(textOrNone(kind)) ? isDnsLabel(name) : isDnsSubdomain(name);
  return valid ? [] : ["its name is not valid: lower-case letters, digits, - and . only"];
}

function findLabelProblems(labels: Json | undefined): string[] {
  if (labels === undefined || labels === null) return [];
  if (!isJsonObject(labels)) return ["its labels are no map"];
  // The API server takes null as the empty value.
  return Object.entries(labels)
    .filter(([, value]) => value !== null && (typeof value !== "string" || !LABEL_VALUE.test(value)))
    .map(([key, value]) => `the value "${formatValue(value)}" of label ${key} is not valid`);
}

/** Finds containers of a Pod spec with names that the server refuses. Objects of other kinds have no containers there. */
function findContainerProblems(podSpec: JsonObject): string[] {
  return CONTAINER_KEYS.flatMap((key) => objectsIn(podSpec[key]))
    .filter(({ name }) => !isDnsLabel(name))
    .map(
      ({ name }) =>
        `the container name "${formatValue(name)}" is not valid: lower-case letters, digits and - only`,
    );
}

function isDnsLabel(name: Json | undefined): boolean {
  return typeof name === "string" && DNS_LABEL.test(name);
}

function isDnsSubdomain(name: string): boolean {
  return (
    name.length <= SUBDOMAIN_LENGTH &&
    name.split(".").every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))
  );
}

function formatValue(value: Json | undefined): string {
  const displayed = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return displayed.length > 80 ? `${displayed.slice(0, 80)}…` : displayed;
}

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
