/** Finds problems of a manifest that every API server refuses, and records that are too large. */

import { gzipSync } from "node:zlib";

import { readRegularFile } from "../../lib/index.ts";
import { isJsonObject, objectOf, objectsIn, asString } from "../../model/index.ts";
import type { Json, JsonObject, Module } from "../../model/index.ts";
import { chartFilesOf } from "../chart/chart.ts";
import { ownCrdIn } from "../crds/read-crds.ts";
import { documentsOf, expand } from "./manifest.ts";

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const SUBDOMAIN_LENGTH = 253;
/** Kinds whose names only have to be valid in a path. */
const PATH_NAMED = "rbac.authorization.k8s.io/";
/** Kinds whose names become part of host names. */
const LABEL_NAMED = new Set(["Namespace", "Service"]);
const CONTAINERS = ["containers", "initContainers", "ephemeralContainers"];
/** The deepest place of containers in a manifest: `spec.jobTemplate.spec.template.spec`. */
const POD_SPECS = [
  ["spec"],
  ["spec", "template", "spec"],
  ["spec", "jobTemplate", "spec", "template", "spec"],
];

/**
 * What an API server would refuse in every cluster: documents that are no objects, names of objects and containers
 * and values of labels that are not allowed, the same object twice. One sentence each.
 */
export function manifestProblems(manifest: string): string[] {
  const problems: string[] = [];
  const seen = new Set<string>();
  for (const object of documentsOf(manifest).flatMap(expand)) {
    if (!isJsonObject(object)) {
      problems.push("a document is no object");
      continue;
    }
    const what = describe(object);
    if (typeof object["apiVersion"] !== "string" || typeof object["kind"] !== "string") {
      problems.push(`${what}: apiVersion or kind is missing`);
      continue;
    }
    problems.push(...objectProblems(object).map((problem) => `${what}: ${problem}`));
    const id = `${text(object["apiVersion"])} ${what}`;
    if (seen.has(id)) problems.push(`${what} is in the manifest twice`);
    seen.add(id);
  }
  return problems;
}

function describe(object: JsonObject): string {
  const { name, namespace } = objectOf(object["metadata"]);
  const where = typeof namespace === "string" ? `${namespace}/` : "";
  return `${text(object["kind"])} ${where}${text(name)}`;
}

function text(value: Json | undefined): string {
  return asString(value) ?? "(none)";
}

/** All problems of one object: its name, namespace, labels and containers. */
function objectProblems(object: JsonObject): string[] {
  const { name, namespace, labels } = objectOf(object["metadata"]);
  const own = ownCrdIn([{ kind: text(object["kind"]), name: text(name) }], "");
  return [
    ...(own === undefined ? [] : [`${own.message}: ${own.remedy ?? ""}`]),
    ...nameProblems(object, name),
    ...(namespace === undefined || namespace === null || isLabel(namespace)
      ? []
      : [`"${printed(namespace)}" is no valid namespace`]),
    ...labelProblems(labels),
    ...POD_SPECS.flatMap((path) =>
      containerProblems(path.reduce((here, key) => objectOf(here[key]), object)),
    ),
  ];
}

/** What is wrong with the name of an object; empty if nothing. */
function nameProblems(object: JsonObject, name: Json | undefined): string[] {
  if (name === undefined && objectOf(object["metadata"])["generateName"] !== undefined) return [];
  if (name === undefined || name === null || name === "") return ["it has no name"];
  if (typeof name !== "string") return [`its name is ${printed(name)}, which is no text: quote it`];
  return spellingProblems(object, name);
}

/** Whether the spelling of a name is allowed, by the rule for its kind. */
function spellingProblems({ apiVersion, kind }: JsonObject, name: string): string[] {
  if (text(apiVersion).startsWith(PATH_NAMED))
    return /[/%]/.test(name) ? [`its name may contain neither "/" nor "%"`] : [];
  const valid = LABEL_NAMED.has(text(kind)) ? isLabel(name) : isSubdomain(name);
  return valid ? [] : ["its name is not valid: lower-case letters, digits, - and . only"];
}

/** The labels with values that the server refuses. */
function labelProblems(labels: Json | undefined): string[] {
  if (labels === undefined || labels === null) return [];
  if (!isJsonObject(labels)) return ["its labels are no map"];
  return Object.entries(labels)
    .filter(([, value]) => value !== null && (typeof value !== "string" || !LABEL_VALUE.test(value)))
    .map(([key, value]) => `the value "${printed(value)}" of label ${key} is not valid`);
}

/** The containers with names that the server refuses. */
function containerProblems(podSpec: JsonObject): string[] {
  return CONTAINERS.flatMap((key) => objectsIn(podSpec[key]))
    .filter(({ name }) => !isLabel(name))
    .map(
      ({ name }) =>
        `the container name "${printed(name)}" is not valid: lower-case letters, digits and - only`,
    );
}

function isLabel(name: Json | undefined): boolean {
  return typeof name === "string" && LABEL.test(name);
}

function isSubdomain(name: string): boolean {
  return (
    name.length <= SUBDOMAIN_LENGTH &&
    name.split(".").every((part) => /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(part))
  );
}

function printed(value: Json | undefined): string {
  const displayed = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return displayed.length > 80 ? `${displayed.slice(0, 80)}…` : displayed;
}

/** The API server's size limit of a Secret, and so of a record, in bytes. */
export const LARGEST_RECORD = 1024 * 1024;

/**
 * Bytes of the record that helm would keep: manifest and files of the chart, without those of its sub-charts, packed
 * and in base64. Throws the file system's error.
 */
export function recordSize(module: Pick<Module, "chartDir" | "chart">, manifest: string): number {
  const files = chartFilesOf(module)
    .filter(({ rel }) => !rel.startsWith("charts/"))
    .map(({ rel, path }) => ({ name: rel, data: readRegularFile(path).toString("base64") }));
  const packed = gzipSync(JSON.stringify({ chart: { files }, manifest }), { level: 9 });
  return Math.ceil(packed.length / 3) * 4;
}
