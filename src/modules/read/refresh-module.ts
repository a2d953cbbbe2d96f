/** Reads a module again if its files changed, or keeps the result of the last read. */

import { existsSync } from "node:fs";
import { join } from "node:path";

import { attempt } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";
import { isSettled } from "./files.ts";
import { listedPaths, listModule, type Listing } from "./listing.ts";
import {
  registryOrigin,
  problemsOf,
  readModule,
  unreadableModule,
  type ModuleSource,
} from "./read-module.ts";
import { confirmMissing, missedSince, type Reading, type RememberedModule } from "./reading.ts";
import { areReferencesSame } from "./references.ts";

/**
 * Returns the current state of one module. Reads it again only if its files changed; keeps its last valid content
 * while it is broken, or while files are missing and no second read has confirmed the deletion.
 */
export async function refreshModule(reading: Reading, source: ModuleSource): Promise<Module> {
  const before = rememberedModule(reading, source);
  let listing: Listing;
  try {
    listing = listModule(source.dir);
  } catch (error) {
    return keep(reading, await moduleAfterFailedListing(reading, source, error));
  }
  const paths = listedPaths(listing);
  const origin = registryOrigin(reading, source);
  if (before !== undefined) {
    const missing = missingOf(before, paths, origin);
    const full = missing.map((path) => join(source.dir, path));
    if (missing.length > 0 && !confirmMissing(reading, full))
      return keepWithMissing(reading, before, missing);
    const isSameOrigin = origin === before.module.origin;
    if (isSameOrigin && isUnchanged(before, listing, source)) return keep(reading, before);
  }
  return keep(reading, { paths, ...(await readAgain(reading, source, listing)) });
}

/**
 * Paths that the last read found and this one did not, which may be missing for a moment only. Content from a
 * registry is replaced as a whole, so after a change of its digest no path counts as missing.
 */
function missingOf(
  { module, paths: before }: RememberedModule,
  paths: readonly string[],
  origin: Module["origin"],
): string[] {
  if (origin?.digest !== module.origin?.digest) return [];
  return before.filter((path) => !paths.includes(path));
}

/**
 * A module whose directory is missing: returns its last content until a second read confirms the deletion, then
 * undefined.
 */
export function missingModule(reading: Reading, before: RememberedModule): Module | undefined {
  return confirmMissing(reading, [before.module.dir]) ? undefined : keepWithMissing(reading, before, ["."]);
}

/** Stores the state of a module for the next read, and returns the module. */
export function keep(reading: Reading, remembered: RememberedModule): Module {
  reading.after.modules.set(remembered.module.name, remembered);
  return remembered.module;
}

/**
 * Whether the files of a module are the same as in its last listing. A module that could not be listed has no
 * fingerprint and counts as the same.
 */
export function isAsListed({ fingerprint, module }: RememberedModule): boolean {
  return fingerprint === "" || fingerprint === attempt(() => listModule(module.dir).fingerprint);
}

/** The module of the last read, if it was read from the same directory. */
function rememberedModule(reading: Reading, source: ModuleSource): RememberedModule | undefined {
  const before = reading.before.modules.get(source.name);
  return before?.module.dir === source.dir ? before : undefined;
}

/** The state of a module whose directory cannot be listed: its last valid content, else an unreadable module. */
async function moduleAfterFailedListing(
  reading: Reading,
  source: ModuleSource,
  error: unknown,
): Promise<RememberedModule> {
  const before = rememberedModule(reading, source);
  const good = before?.good;
  const module =
    good === undefined
      ? await unreadableModule(reading, source, error)
      : { ...good, problem: problemsOf(error, source.dir)[0] };
  return { module, good, paths: before?.paths ?? [], fingerprint: "", settled: false };
}

/** Keeps the last content of a module while it is not confirmed that `missingPaths` are deleted. */
function keepWithMissing(
  reading: Reading,
  before: RememberedModule,
  missingPaths: readonly string[],
): Module {
  keep(reading, before);
  const since = Math.min(...missingPaths.map((path) => missedSince(reading, join(before.module.dir, path))));
  return { ...before.module, missing: { since, what: missingPaths } };
}

/** Whether nothing that a module is read from has changed since its last read. */
function isUnchanged(before: RememberedModule, listing: Listing, source: ModuleSource): boolean {
  const sameCommon = before.module.common === source.common;
  const { settled, fingerprint, module } = before;
  if (!areReferencesSame(module.schemas)) return false;
  // The unpacked chart is in a temp directory, which a cleanup may have emptied.
  return settled && fingerprint === listing.fingerprint && sameCommon && existsSync(module.chartDir);
}

/** Reads a module. If it is broken, returns the content of its last valid read with the new problem and warnings. */
async function readAgain(
  reading: Reading,
  source: ModuleSource,
  listing: Listing,
): Promise<Omit<RememberedModule, "paths">> {
  const fresh = await readModule(reading, source, listing);
  const good = fresh.problem === undefined ? fresh : rememberedModule(reading, source)?.good;
  const { problem, order, common, origin, warnings, idleFiles = [] } = fresh;
  const module =
    good === undefined ? fresh : { ...good, order, common, origin, problem, warnings, idleFiles };
  const settled = isSettled(listing.changedAt, reading.now);
  return { module, good, fingerprint: listing.fingerprint, settled };
}
