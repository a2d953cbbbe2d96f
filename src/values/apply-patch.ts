import jsonPatch from "fast-json-patch";

import { canonicalJson } from "../lib/index.ts";
import { isJsonObject } from "../model/index.ts";
import type { Json, JsonObject, Section } from "../model/index.ts";
import { member, setMember } from "./merge.ts";
import { PatchError } from "./patch.ts";
import type { PatchOperation } from "./patch.ts";
import { pointerOf, segmentsOf } from "./pointer.ts";

type Container = JsonObject | Json[];

/**
 * A fresh patch over one section, strictly: a missing parent, removing or replacing what is not there, a bad
 * index or a failed `test` throws PatchError (RFC 6902). An absent section counts as an empty map. The section is
 * not changed; what the patch did not touch is shared. Undefined = the section itself was removed.
 */
export function applyPatch(
  section: Section | undefined,
  operations: readonly PatchOperation[],
): Section | undefined {
  if (operations.length === 0) return section;
  return sectionAfter(patchSection(section, operations, applyStrictly));
}

/**
 * Stored patches over fresh layers, tolerantly: an operation that no longer fits is left out, `test` is not
 * looked at again, `replace` of what is gone adds it (README "Values": Patches).
 */
export function replay(
  section: Section | undefined,
  operations: readonly PatchOperation[],
): Section | undefined {
  if (operations.length === 0) return section;
  return sectionAfter(patchSection(section, operations, applyTolerantly));
}

type Apply = (document: Document, operation: PatchOperation) => void;

/** The section below a root, so that operations on the section as a whole are like any other. */
class Document {
  root: JsonObject;
  /** Containers made in this run; others are copied before they are changed. */
  readonly #own = new Set<Container>();

  constructor(root: JsonObject) {
    this.root = root;
    this.#own.add(root);
  }

  get(segments: readonly string[]): Json | undefined {
    let value: Json | undefined = this.root;
    for (const segment of segments) value = childOf(value, segment);
    return value;
  }

  /** Makes every container above `segments` ours to change. */
  open(segments: readonly string[]): void {
    let parent: Container = this.root;
    for (const segment of segments.slice(0, -1)) {
      const child: Json | undefined = childOf(parent, segment);
      if (!isContainer(child)) return;
      const copy: Container = this.#own.has(child) ? child : copyOf(child);
      this.#own.add(copy);
      putChild(parent, segment, copy);
      parent = copy;
    }
  }
}

function patchSection(
  section: Section | undefined,
  operations: readonly PatchOperation[],
  apply: Apply,
): Document {
  const key = segmentsOf(operations[0]?.path ?? "")[0] ?? "";
  const document = new Document({});
  setMember(document.root, key, section ?? {});
  for (const operation of operations) apply(document, operation);
  return document;
}

function sectionAfter(document: Document): Section | undefined {
  const [section] = Object.values(document.root);
  if (section === undefined || section === null) return undefined;
  if (typeof section !== "object") throw new PatchError("a section must be a map or a list");
  return section;
}

function applyStrictly(document: Document, operation: PatchOperation): void {
  const problem = misfit(document, operation);
  if (problem !== undefined) throw new PatchError(`${operation.op} ${operation.path}: ${problem}`);
  if (operation.op !== "test") execute(document, operation);
}

function applyTolerantly(document: Document, stored: PatchOperation): void {
  if (stored.op === "test" || !passesMapsOnly(document, stored)) return;
  const operation = asAdd(document, stored);
  if (misfit(document, operation) === undefined) execute(document, operation);
}

/** `replace` of a missing member is `add`: the hook meant the value to be there. */
function asAdd(document: Document, operation: PatchOperation): PatchOperation {
  if (operation.op !== "replace") return operation;
  const parent = document.get(segmentsOf(operation.path).slice(0, -1));
  return isJsonObject(parent) ? { ...operation, op: "add" } : operation;
}

function passesMapsOnly(document: Document, operation: PatchOperation): boolean {
  if (operation.maps !== true) return true;
  const segments = segmentsOf(operation.path);
  return segments.every((_, index) => isJsonObject(document.get(segments.slice(0, index))));
}

/** Why `operation` does not fit the document; undefined when it does. */
function misfit(document: Document, operation: PatchOperation): string | undefined {
  const segments = segmentsOf(operation.path);
  switch (operation.op) {
    case "add":
      return misfitOfTarget(document, segments);
    case "remove":
    case "replace":
      return document.get(segments) === undefined ? "there is nothing at this path" : undefined;
    case "test":
      return sameJson(document.get(segments), operation.value) ? undefined : "the value there is another one";
    case "copy":
    case "move":
      return misfitOfTransfer(document, operation);
  }
}

function sameJson(actual: Json | undefined, wanted: Json): boolean {
  return actual !== undefined && canonicalJson(actual) === canonicalJson(wanted);
}

function misfitOfTransfer(
  document: Document,
  operation: PatchOperation & { op: "copy" | "move" },
): string | undefined {
  if (document.get(segmentsOf(operation.from)) === undefined) return `there is nothing at ${operation.from}`;
  const inside = operation.path.startsWith(`${operation.from}/`);
  if (operation.op === "move" && inside) return "a value cannot be moved into itself";
  return misfitOfTarget(document, segmentsOf(operation.path));
}

function misfitOfTarget(document: Document, segments: readonly string[]): string | undefined {
  const parent = document.get(segments.slice(0, -1));
  if (isJsonObject(parent)) return undefined;
  if (!Array.isArray(parent)) return `there is no map or list at ${pointerOf(segments.slice(0, -1))}`;
  const last = segments.at(-1) ?? "";
  if (last === "-") return undefined;
  return isIndex(last) && Number(last) <= parent.length ? undefined : "the index is outside the list";
}

function execute(document: Document, operation: PatchOperation): void {
  document.open(segmentsOf(operation.path));
  if (operation.op === "move") return move(document, operation);
  jsonPatch.applyOperation(document.root, operation, false, true, true);
}

/** As two operations: the index of the target counts after the removal (RFC 6902 §4.4). */
function move(document: Document, operation: { readonly path: string; readonly from: string }): void {
  const value = document.get(segmentsOf(operation.from));
  if (value === undefined || operation.from === operation.path) return;
  document.open(segmentsOf(operation.from));
  jsonPatch.applyOperation(document.root, { op: "remove", path: operation.from }, false, true, true);
  const target = segmentsOf(operation.path);
  const problem = misfitOfTarget(document, target);
  if (problem !== undefined) throw new PatchError(`move ${operation.path}: ${problem}`);
  document.open(target);
  jsonPatch.applyOperation(document.root, { op: "add", path: operation.path, value }, false, true, true);
}

function isIndex(segment: string): boolean {
  return /^(?:0|[1-9]\d*)$/.test(segment);
}

function isContainer(value: Json | undefined): value is Container {
  return typeof value === "object" && value !== null;
}

function childOf(value: Json | undefined, segment: string): Json | undefined {
  if (Array.isArray(value)) return isIndex(segment) ? value[Number(segment)] : undefined;
  return isJsonObject(value) ? member(value, segment) : undefined;
}

function putChild(parent: Container, segment: string, child: Json): void {
  if (Array.isArray(parent)) parent[Number(segment)] = child;
  else setMember(parent, segment, child);
}

function copyOf(value: Container): Container {
  return Array.isArray(value) ? [...value] : { ...value };
}
