/** Finds what every API server refuses in the documents of a manifest. */

import { isJsonObject, objectOf, objectsIn, asString, valueAt } from "../../model/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { findOwnCrd } from "../crds/read-crds.ts";
import { expandLists } from "./manifest.ts";

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const SUBDOMAIN_LENGTH = 253;
/** Kinds whose names only have to be valid in a path. */
const PATH_NAMED_GROUP = "rbac.authorization.k8s.io/";
/** Kinds whose names become part of host names. */
const LABEL_NAMED_KINDS = new Set(["Namespace", "Service"]);
/** The lists of containers in a Pod spec. */
export const CONTAINER_KEYS = ["containers", "initContainers", "ephemeralContainers"];
/** Paths to the Pod specs of Pods, of workloads and of CronJobs. */
export const POD_SPEC_PATHS = [
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
export function nameForLint(object: JsonObject): string {
  const { name, namespace } = objectOf(object["metadata"]);
  const where = typeof namespace === "string" ? `${namespace}/` : "";
  return `${textOrNone(object["kind"])} ${where}${textOrNone(name)}`;
}

export function textOrNone(value: Json | undefined): string {
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
