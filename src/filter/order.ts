/** Finds filters whose result depends on the order of keys, where engines differ. */

import type { Node } from "./parser.ts";

/**
 * True where the filter iterates over an object that it makes itself with keys out of order: jq keeps the order of
 * making, gojq sorts by key. Objects of the cluster come with their keys sorted.
 */
export function dependsOnOrder(node: Node): boolean {
  if (node.op === "each" && some(node.of, isUnordered)) return true;
  if (node.op === "pipe" && some(node.left, isUnordered) && some(node.right, isEach)) return true;
  return partsOf(node).some(dependsOnOrder);
}

const isEach = (node: Node): boolean => node.op === "each";

function isUnordered(node: Node): boolean {
  if (node.op !== "object") return false;
  return node.entries.some(([key], place) => place > 0 && (node.entries[place - 1]?.[0] ?? "") > key);
}

function some(node: Node, test: (node: Node) => boolean): boolean {
  return test(node) || partsOf(node).some((part) => some(part, test));
}

function partsOf(node: Node): readonly Node[] {
  if ("left" in node) return [node.left, node.right];
  if ("of" in node) return [node.of];
  if (node.op === "object") return node.entries.map(([, value]) => value);
  return "body" in node && node.body !== undefined ? [node.body] : [];
}
