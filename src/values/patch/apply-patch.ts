/**
 * Applies JSON patches (RFC 6902) of hooks to values (docs/reference/values.md, "Patches"). A patch is applied twice: *fresh*, after the
 * run of its hook, strictly; and as a *stored* patch at each later merge of the values, whose layers may have changed, tolerantly.
 * Paths begin with the key of the section. The segments of a path are its keys and indexes.
 */

import jsonPatch from "fast-json-patch";

import { DepthError, isTooDeep, toPointer, sameJson, parsePointer } from "../../base/index.ts";
import {
  cloneJson,
  copyContainer,
  isContainer,
  isIndex,
  isJsonObject,
  member,
  setMember,
  valueAt,
} from "../../base/model/index.ts";
import type { Container, Json, JsonObject, Section } from "../../base/model/index.ts";

/**
 * One RFC 6902 operation. `path` starts with the key of the section (`/global/…`, `/<camel>/…`).
 * `maps` is set on stored operations whose path passes maps only, though a segment looks like an index.
 */
export type PatchOperation = (
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string }
) & { readonly maps?: true };

/** A patch is malformed, not allowed, or does not apply to the section. */
export class PatchError extends Error {
  override readonly name = "PatchError";
}

/** Most characters that `copy` operations of one patch may add: a few dozen that each double a value would exhaust the memory. */
const MAX_COPIED_CHARACTERS = 4 * 1024 * 1024;

/**
 * Applies a fresh patch to one section, strictly: a missing parent, removing or replacing a missing value, a bad
 * index or a failed `test` throws PatchError (RFC 6902). `add` below a missing section creates it as a map. The
 * result shares unchanged parts. Undefined = the section itself was removed.
 */
export function applyJsonPatch(
  section: Section | undefined,
  operations: readonly PatchOperation[],
): Section | undefined {
  if (operations.length === 0) return section;
  const document = PatchedDocument.fromSection(sectionKeyOf(operations), section);
  for (const operation of operations) applyStrictly(document, operation);
  return requireValidSection(document.section);
}

/**
 * Applies stored patches to fresh layers, tolerantly: skips operations that no longer apply, ignores `test`, `replace` of a missing value
 * adds it, and a removed section is an empty one. Undefined only when there is neither a section nor a patch.
 */
export function replayStoredPatches(
  section: Section | undefined,
  operations: readonly PatchOperation[],
): Section | undefined {
  if (operations.length === 0) return section;
  const document = PatchedDocument.fromSection(sectionKeyOf(operations), section ?? {});
  for (const operation of operations) {
    applyTolerantly(document, operation);
    const isRemoved = !isContainer(document.section);
    if (isRemoved) document.section = {};
  }
  return requireValidSection(document.section);
}

/** Replays an operation inside one value, at `path` (not empty) relative to the value, as `compactOperations` does to fold operations. */
export function replayInValue(value: Json, operation: PatchOperation, path: string): Json {
  // The value stands as a section with an empty key.
  const document = PatchedDocument.fromSection("", value);
  applyTolerantly(document, { ...operation, path: `/${path}` });
  return document.section ?? null;
}

/**
 * Converts fresh operations on `section` to those to store: without `test`, and marked (`maps`) where a segment of the path looks like an
 * index but is a key of a map, so that `compactOperations` may fold them. Throws PatchError if an operation does not apply, or if the
 * result is no section.
 */
export function toStoredOperations(
  section: Section | undefined,
  operations: readonly PatchOperation[],
): PatchOperation[] {
  const document = PatchedDocument.fromSection(sectionKeyOf(operations), section);
  const stored: PatchOperation[] = [];
  for (const operation of operations) {
    const marked = { ...operation, maps: true as const };
    // Test before the operation, which may change a map on its path. `move` and `copy` are never folded.
    const needsMark = hasIndex(operation.path) && !("from" in operation) && passesMapsOnly(document, marked);
    applyStrictly(document, operation);
    if (operation.op !== "test") stored.push(needsMark ? marked : operation);
  }
  // `null` empties the section, as a removal does.
  requireValidSection(document.section ?? undefined);
  return stored;
}

/** True when a segment of `path` looks like an index of a list. */
export function hasIndex(path: string): boolean {
  return parsePointer(path).some((segment) => segment === "-" || isIndex(segment));
}

/** A section under its key in a root object, so that the section itself can be patched, too. Copies maps and lists before it changes them. */
class PatchedDocument {
  readonly key: string;
  readonly root: JsonObject;
  /** Characters that copies have added so far. */
  copiedCharacters = 0;
  /** Containers that this document has made: only these may be changed in place. */
  readonly #copiedContainers = new Set<Container>();

  constructor(key: string, root: JsonObject) {
    this.key = key;
    this.root = root;
    this.#copiedContainers.add(root);
  }

  /** A document with `section` under `key`; an empty one if the section is missing. */
  static fromSection(key: string, section: Json | undefined): PatchedDocument {
    const document = new PatchedDocument(key, {});
    if (section !== undefined) document.section = section;
    return document;
  }

  get section(): Json | undefined {
    return member(this.root, this.key);
  }

  set section(value: Json) {
    setMember(this.root, this.key, value);
  }

  /** A document in which operations can be tried: it shares all maps and lists with this one, and copies them before a change. */
  fork(): PatchedDocument {
    return new PatchedDocument(this.key, { ...this.root });
  }

  /** The value at a path that begins with the section's key. */
  get(segments: readonly string[]): Json | undefined {
    return valueAt(this.root, segments);
  }

  /** Copies the maps and lists above a path, which the next operation changes in place. */
  copyParents(segments: readonly string[]): void {
    let parent: Container = this.root;
    for (const segment of segments.slice(0, -1)) {
      const child: Json | undefined = valueAt(parent, [segment]);
      const isEndOfPath = !isContainer(child);
      if (isEndOfPath) return;
      const copy = this.#copiedContainers.has(child) ? child : copyContainer(child);
      this.#copiedContainers.add(copy);
      if (Array.isArray(parent)) parent[Number(segment)] = copy;
      else setMember(parent, segment, copy);
      parent = copy;
    }
  }
}

/** Key of the section that the operations patch: the first segment of all paths. */
function sectionKeyOf(operations: readonly PatchOperation[]): string {
  return parsePointer(operations[0]?.path ?? "")[0] ?? "";
}

/** Returns the section after a patch. Throws PatchError if it is no map or list, or nested too deep. */
function requireValidSection(section: Json | undefined): Section | undefined {
  if (section === undefined) return undefined;
  if (!isContainer(section)) throw new PatchError("a section must be a map or a list");
  // Several operations may nest deeper together than each alone.
  if (isTooDeep(section)) throw new PatchError(new DepthError("the patched section").message);
  return section;
}

/** Applies a fresh operation. Throws PatchError if it does not apply. The first `add` to a missing section creates the section as a map. */
function applyStrictly(document: PatchedDocument, operation: PatchOperation): void {
  if (operation.op === "add" && document.section === undefined) document.section = {};
  const problem = findObstacle(document, operation);
  if (problem !== undefined) throw new PatchError(`${operation.op} ${operation.path}: ${problem}`);
  if (operation.op !== "test") applyChecked(document, operation);
}

/** Applies a stored operation, or skips it if it does not apply any more. */
function applyTolerantly(document: PatchedDocument, stored: PatchOperation): void {
  if (stored.op === "test" || !passesMapsOnly(document, stored)) return;
  const operation = replaceAsAdd(document, stored);
  if (findObstacle(document, operation) === undefined) applyChecked(document, operation);
}

/** Turns a stored `replace` of a member of a map into `add`, so that it also applies if the member is missing now. */
function replaceAsAdd(document: PatchedDocument, operation: PatchOperation): PatchOperation {
  if (operation.op !== "replace") return operation;
  const parent = document.get(parsePointer(operation.path).slice(0, -1));
  return isJsonObject(parent) ? { ...operation, op: "add" } : operation;
}

/** Whether an operation marked with `maps` still passes maps only; true for all others. */
function passesMapsOnly(document: PatchedDocument, operation: PatchOperation): boolean {
  if (operation.maps !== true) return true;
  const segments = parsePointer(operation.path);
  return segments.every((_, index) => isJsonObject(document.get(segments.slice(0, index))));
}

/** Why `operation` does not apply to the document; undefined if it does. */
function findObstacle(document: PatchedDocument, operation: PatchOperation): string | undefined {
  const segments = parsePointer(operation.path);
  switch (operation.op) {
    case "add":
      return findTargetObstacle(document, segments);
    case "remove":
    case "replace":
      return document.get(segments) === undefined ? "there is nothing at this path" : undefined;
    case "test":
      return sameJson(document.get(segments), operation.value) ? undefined : "the value there is another one";
    case "copy":
    case "move":
      return findTransferObstacle(document, operation);
  }
}

type Transfer = PatchOperation & { readonly op: "copy" | "move" };

/** Why a `copy` or `move` does not apply to the document; undefined if it does. */
function findTransferObstacle(document: PatchedDocument, operation: Transfer): string | undefined {
  const value = document.get(parsePointer(operation.from));
  if (value === undefined) return `there is nothing at ${operation.from}`;
  if (operation.op === "copy" && document.copiedCharacters + jsonLength(value) > MAX_COPIED_CHARACTERS)
    return "the copies make the values more than 4 MiB larger";
  const removesNothing = operation.op === "copy" || operation.from === operation.path;
  if (removesNothing) return findTargetObstacle(document, parsePointer(operation.path));
  if (operation.path.startsWith(`${operation.from}/`)) return "a value cannot be moved into itself";
  // Indexes of the target count after the removal, so check the target in a copy without the value.
  const withoutValue = document.fork();
  applyChecked(withoutValue, { op: "remove", path: operation.from });
  return findTargetObstacle(withoutValue, parsePointer(operation.path));
}

/** Why nothing can be added at the path `segments`; undefined if something can. The segment `-` means the end of a list. */
function findTargetObstacle(document: PatchedDocument, segments: readonly string[]): string | undefined {
  const parent = document.get(segments.slice(0, -1));
  if (isJsonObject(parent)) return undefined;
  if (!Array.isArray(parent)) return `there is no map or list at ${toPointer(segments.slice(0, -1))}`;
  const last = segments.at(-1) ?? "";
  if (last === "-") return undefined;
  return isIndex(last) && Number(last) <= parent.length ? undefined : "the index is outside the list";
}

/** Applies an operation for which `findObstacle` found no obstacle. */
function applyChecked(document: PatchedDocument, operation: PatchOperation): void {
  if (operation.op === "move") return moveValue(document, operation);
  if (operation.op === "copy")
    document.copiedCharacters += jsonLength(document.get(parsePointer(operation.from)));
  document.copyParents(parsePointer(operation.path));
  // Without the validation of the library, in place (in the copies), and never into a prototype. The library would round numbers of a copy.
  jsonPatch.applyOperation(document.root, toAddition(document, operation), false, true, true);
}

/** Turns a `copy` into the `add` of a clone of the value. */
function toAddition(document: PatchedDocument, operation: PatchOperation): PatchOperation {
  if (operation.op !== "copy") return operation;
  const value = cloneJson(document.get(parsePointer(operation.from)) ?? null);
  return { op: "add", path: operation.path, value };
}

/** Removes the value, then adds it: the index of the target counts after the removal (RFC 6902 §4.4). */
function moveValue(document: PatchedDocument, { path, from }: Transfer): void {
  const value = document.get(parsePointer(from));
  if (value === undefined || from === path) return;
  applyChecked(document, { op: "remove", path: from });
  applyChecked(document, { op: "add", path, value });
}

function jsonLength(value: Json | undefined): number {
  return JSON.stringify(value)?.length ?? 0;
}
