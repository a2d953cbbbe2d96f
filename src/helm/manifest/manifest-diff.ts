/** Compares two manifests for people. */

import { canonicalJson, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject } from "../../model/index.ts";
import { documentsOf } from "./manifest.ts";

/**
 * What changes between two manifests, object by object, as lines that begin with `-`, `+` or a blank; empty when
 * they mean the same. The order of objects and keys does not count.
 */
export function manifestDiff(before: readonly string[], after: readonly string[]): string {
  const old = byIdentity(before);
  const now = byIdentity(after);
  const names = [...new Set([...old.keys(), ...now.keys()])].sort();
  return names
    .filter((name) => old.get(name) !== now.get(name))
    .map((name) => `# ${name}\n${lineDiff(linesOf(old.get(name)), linesOf(now.get(name))).join("\n")}\n`)
    .join("");
}

/** What changes between two versions of an object: changed lines, and a few around them; "" for nothing. */
export function diffOf(before: Json | undefined, after: Json | undefined): string {
  const [old, now] = [before, after].map((object) =>
    object === undefined ? [] : linesOf(toYaml(JSON.parse(canonicalJson(object)) as Json)),
  );
  return withContext(lineDiff(old ?? [], now ?? []))
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

/** Beyond this many cells of the table, lines are not compared: all old ones are removed, all new ones added. */
const MOST_CELLS = 4_000_000;

/** The longest common lines stay, the others are removed or added. */
function lineDiff(old: readonly string[], now: readonly string[]): string[] {
  const least = Math.min(old.length, now.length);
  let head = 0;
  while (head < least && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < least - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const between = (lines: readonly string[]): readonly string[] => lines.slice(head, lines.length - tail);
  const same = now.map((line) => ` ${line}`);
  const middle = middleDiff(between(old), between(now));
  return [...same.slice(0, head), ...middle, ...same.slice(same.length - tail)];
}

/** The same of what lies between the first line that differs and the last. */
function middleDiff(old: readonly string[], now: readonly string[]): string[] {
  if (old.length * now.length > MOST_CELLS) return [...old.map(minus), ...now.map(plus)];
  const common = commonLengths(old, now);
  const lines: string[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (old[i] !== undefined && old[i] === now[j]) {
      lines.push(` ${old[i]}`);
      i++;
      j++;
    } else if (i < old.length && at(common, i + 1, j) >= at(common, i, j + 1)) {
      lines.push(minus(old[i++] ?? ""));
    } else {
      lines.push(plus(now[j++] ?? ""));
    }
  }
  return lines;
}

const minus = (line: string): string => `-${line}`;
const plus = (line: string): string => `+${line}`;
const at = (table: readonly (readonly number[])[], i: number, j: number): number => table[i]?.[j] ?? 0;

/** For each pair of positions: how many lines the rests have in common. */
function commonLengths(old: readonly string[], now: readonly string[]): number[][] {
  const table = Array.from({ length: old.length + 1 }, () => Array.from({ length: now.length + 1 }, () => 0));
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const row = table[i];
      if (row === undefined) continue;
      row[j] =
        old[i] === now[j] ? at(table, i + 1, j + 1) + 1 : Math.max(at(table, i + 1, j), at(table, i, j + 1));
    }
  }
  return table;
}
