/** Compares two manifests for people. */

import { diffArrays } from "diff";

import { canonicalJson, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject } from "../../model/index.ts";
import { documentsOf } from "./manifest.ts";

/** An object that two manifests do not have in common, or not with the same content. */
export interface ChangedObject {
  /** Version, kind, namespace and name. */
  readonly name: string;
  readonly change: "added" | "removed" | "changed";
  /** Its changed lines, and a few around them, beginning with `-`, `+` or a blank. */
  readonly difference: () => string;
}

/** What changes between two manifests, object by object. The order of objects and keys does not count. */
export function changedObjects(before: readonly string[], after: readonly string[]): ChangedObject[] {
  const old = byIdentity(before);
  const now = byIdentity(after);
  const names = [...new Set([...old.keys(), ...now.keys()])].sort();
  return names
    .filter((name) => old.get(name) !== now.get(name))
    .map((name) => ({
      name,
      change: !old.has(name) ? "added" : now.has(name) ? "changed" : "removed",
      difference: () => differenceOf(linesOf(old.get(name)), linesOf(now.get(name))),
    }));
}

/** The same as text; empty when they mean the same. */
export function manifestDiff(before: readonly string[], after: readonly string[]): string {
  return changedObjects(before, after)
    .map(({ name, difference }) => `# ${name}\n${difference()}`)
    .join("");
}

/** What changes between two versions of an object: changed lines, and a few around them; "" for nothing. */
export function diffOf(before: Json | undefined, after: Json | undefined): string {
  const [old, now] = [before, after].map((object) =>
    object === undefined ? [] : linesOf(toYaml(JSON.parse(canonicalJson(object)) as Json)),
  );
  return differenceOf(old ?? [], now ?? []);
}

function differenceOf(old: string[], now: string[]): string {
  return withContext(lineDiff(old, now))
    .map((line) => `${line}\n`)
    .join("");
}

/** What the server alone writes, and changes with each write. */
const SERVERS_OWN = ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"];

/** An object without its status and what only the server writes. */
export function plain({ status: _status, ...object }: JsonObject): JsonObject {
  const metadata = Object.entries(objectOf(object["metadata"])).filter(([key]) => !SERVERS_OWN.includes(key));
  return { ...object, metadata: Object.fromEntries(metadata) };
}

const CONTEXT = 3;

/** Leaves out what is far from any change; `…` stands for it. */
function withContext(lines: readonly string[]): string[] {
  const changes = lines.flatMap((line, index) => (line.startsWith(" ") ? [] : [index]));
  const near = new Set(
    changes.flatMap((at) => Array.from({ length: 2 * CONTEXT + 1 }, (_, by) => at + by - CONTEXT)),
  );
  if (changes.length === 0) return [];
  return lines.flatMap((line, index) => {
    if (near.has(index)) return [line];
    return index === 0 || near.has(index - 1) ? [" …"] : [];
  });
}

function byIdentity(manifests: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  for (const document of manifests.flatMap(documentsOf)) {
    const name = identityOf(document);
    found.set(name, `${found.get(name) ?? ""}${toYaml(JSON.parse(canonicalJson(document)) as Json)}`);
  }
  return found;
}

function identityOf(document: Json): string {
  if (!isJsonObject(document)) return "text";
  const metadata = objectOf(document["metadata"]);
  const parts = [document["apiVersion"], document["kind"], metadata["namespace"], metadata["name"]];
  return parts.filter((part) => typeof part === "string").join(" ");
}

function linesOf(text: string | undefined): string[] {
  return text === undefined ? [] : text.trimEnd().split("\n");
}

/** With more changes than these, all old lines are removed and all new ones added. */
const MOST_CHANGES = 4_000;

/** The longest common lines stay, the others are removed or added. */
function lineDiff(old: string[], now: string[]): string[] {
  const parts = diffArrays(old, now, { maxEditLength: MOST_CHANGES });
  if (parts === undefined) return [...old.map((line) => `-${line}`), ...now.map((line) => `+${line}`)];
  return parts.flatMap(({ value, added, removed }) => {
    const mark = added ? "+" : removed ? "-" : " ";
    return value.map((line) => mark + line);
  });
}
