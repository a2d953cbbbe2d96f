/** What changes between two manifests, or between two versions of an object, for people. */

import { diffArrays } from "diff";

import { canonicalJson, toYaml } from "../../base/index.ts";
import { isJsonObject, objectOf, readJson, type Json, type JsonObject } from "../../base/model/index.ts";
import { parseDocuments } from "./manifest.ts";

/** An object that differs between two manifests or is in only one of them. */
export interface ChangedObject {
  /** Version, kind, namespace and name. */
  readonly name: string;
  readonly change: "added" | "removed" | "changed";
  /** Its changed lines, and a few around them, beginning with `-`, `+` or a blank. */
  readonly difference: () => string;
}

/**
 * Compares two manifests object by object, and returns the objects that differ, with a function that computes the diff. The order of
 * objects and keys does not count. A manifest may consist of several texts.
 */
export function changedObjects(before: readonly string[], after: readonly string[]): ChangedObject[] {
  const oldYaml = indexDocuments(before);
  const newYaml = indexDocuments(after);
  const names = [...new Set([...oldYaml.keys(), ...newYaml.keys()])].sort();
  return names
    .filter((name) => oldYaml.get(name) !== newYaml.get(name))
    .map((name) => ({
      name,
      change: !oldYaml.has(name) ? "added" : newYaml.has(name) ? "changed" : "removed",
      difference: () => formatLineDiff(splitLines(oldYaml.get(name)), splitLines(newYaml.get(name))),
    }));
}

/** The result of `changedObjects` as text; empty where the manifests mean the same. */
export function diffManifests(before: readonly string[], after: readonly string[]): string {
  return changedObjects(before, after)
    .map(({ name, difference }) => `# ${name}\n${difference()}`)
    .join("");
}

/** The diff of two versions of an object as YAML: changed lines, and a few around them; "" if the versions are equal. */
export function diffObjects(before: Json | undefined, after: Json | undefined): string {
  const toLines = (object: Json | undefined): string[] =>
    object === undefined ? [] : splitLines(toSortedYaml(object));
  return formatLineDiff(toLines(before), toLines(after));
}

function toSortedYaml(object: Json): string {
  return toYaml(readJson(canonicalJson(object)));
}

/** The diff of two texts, given as lines: changed lines, and a few around them. */
function formatLineDiff(old: string[], now: string[]): string {
  return collapseUnchangedLines(computeLineDiff(old, now))
    .map((line) => `${line}\n`)
    .join("");
}

/** Fields of metadata that only the server writes. */
const SERVER_METADATA = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"];

/** Removes the status of an object and the metadata that only the server writes, so that two versions can be compared. */
export function withoutServerFields({ status: _status, ...object }: JsonObject): JsonObject {
  const metadata = Object.entries(objectOf(object["metadata"])).filter(
    ([key]) => !SERVER_METADATA.includes(key),
  );
  return { ...object, metadata: Object.fromEntries(metadata) };
}

const CONTEXT_LINES = 3;

/** Keeps the changed lines of a diff and a few around them, and replaces each run of other lines with `…`. */
function collapseUnchangedLines(lines: readonly string[]): string[] {
  const changes = lines.flatMap((line, index) => (line.startsWith(" ") ? [] : [index]));
  if (changes.length === 0) return [];
  const shown = new Set<number>();
  for (const change of changes)
    for (let index = change - CONTEXT_LINES; index <= change + CONTEXT_LINES; index++) shown.add(index);
  return lines.flatMap((line, index) => {
    if (shown.has(index)) return [line];
    const isFirstOmitted = index === 0 || shown.has(index - 1);
    return isFirstOmitted ? [" …"] : [];
  });
}

/** The documents of manifests as YAML with sorted keys, by `documentIdentity`. Documents of one identity, such as texts, are joined. */
function indexDocuments(manifests: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const document of manifests.flatMap(parseDocuments)) {
    const name = documentIdentity(document);
    found.set(name, `${found.get(name) ?? ""}${toSortedYaml(document)}`);
  }
  return found;
}

/** Version, kind, namespace and name of a document as one text, for people; "text" for a document that is no object. */
function documentIdentity(document: Json): string {
  if (!isJsonObject(document)) return "text";
  const metadata = objectOf(document["metadata"]);
  const parts = [document["apiVersion"], document["kind"], metadata["namespace"], metadata["name"]];
  return parts.filter((part) => typeof part === "string").join(" ");
}

function splitLines(text: string | undefined): string[] {
  return text === undefined ? [] : text.trimEnd().split("\n");
}

/** Above this number of changes, the diff removes all old lines and adds all new ones: the search for the best diff takes quadratic time. */
const MAX_DIFF_CHANGES = 4_000;

/** Computes a line diff. Each line begins with `-`, `+` or a blank. More than `MAX_DIFF_CHANGES` changes are shown as a replacement of all lines. */
function computeLineDiff(old: string[], now: string[]): string[] {
  const parts = diffArrays(old, now, { maxEditLength: MAX_DIFF_CHANGES });
  if (parts === undefined) return [...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
  return parts.flatMap(({ value, added, removed }) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value.map((line) => mark + line);
  });
}
