/** Limits the depth of data from outside. */

import type { Json } from "../model/index.ts";

/**
 * Levels of maps and lists that data from outside may have: objects of the API, ConfigMaps, what hooks and jq
 * answer, files. It is far more than real objects have, and low enough for functions that call themselves for each
 * level.
 */
export const MAX_DEPTH = 200;

/** A value that is nested deeper than {@link MAX_DEPTH}. */
export class DepthError extends Error {
  constructor(what?: string) {
    super(`${what === undefined ? "" : `${what} is `}nested deeper than ${MAX_DEPTH} levels`);
    this.name = "DepthError";
  }
}

/** Reads JSON. Throws SyntaxError, or DepthError. */
export function parseJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  if (isTooDeep(value)) throw new DepthError();
  return value;
}

/** Whether a value is nested deeper than {@link MAX_DEPTH}. */
export function isTooDeep(value: unknown): boolean {
  return isContainer(value) && isDeeper(value, MAX_DEPTH);
}

/** Cuts off what lies deeper in an object of the API; `isCut` tells whether something was cut. */
export function cutDeep<T>(value: T): T {
  if (!isContainer(value) || !isTooDeep(value)) return value;
  cutBelow(value, MAX_DEPTH);
  cut.add(value);
  return value;
}

/** Whether `cutDeep` cut something off this object: such an object must be neither written back nor judged. */
export function isCut(value: object): boolean {
  return cut.has(value);
}

type Container = Record<string, unknown> | unknown[];

const cut = new WeakSet<object>();

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

function isDeeper(container: Container, levels: number): boolean {
  if (levels === 0) return true;
  const members = Array.isArray(container) ? container : Object.values(container);
  for (const member of members) if (isContainer(member) && isDeeper(member, levels - 1)) return true;
  return false;
}

function cutBelow(container: Container, levels: number): void {
  const members = container as Record<string, unknown>;
  for (const [key, member] of Object.entries(members)) {
    if (!isContainer(member)) continue;
    if (levels === 1) members[key] = null;
    else cutBelow(member, levels - 1);
  }
}
