/** Decides what of a module is read again, and what of the last read stays in force. */

import { existsSync } from "node:fs";
import { join } from "node:path";

import type { Module } from "../../model/index.ts";
import { listedPaths, listModule, type Listing } from "./listing.ts";
import { readModule, unreadableModule, type ModuleSource } from "./read-module.ts";
import { fileProblem } from "./read-text.ts";
import { confirmGone, missedSince, type Reading, type RememberedModule } from "./reading.ts";
import { isSettled } from "./signature.ts";

/**
 * One module as it counts now: read again where something changed; with its last content where it is broken or
 * files are missing.
 */
export async function refreshModule(reading: Reading, source: ModuleSource): Promise<Module> {
  const before = remembered(reading, source);
  let listing: Listing;
  try {
    listing = listModule(source.dir);
  } catch (error) {
    return keep(reading, await afterFailure(before, source, error));
  }
  const paths = listedPaths(listing);
  const missing = (before?.paths ?? []).filter((path) => !paths.includes(path));
  if (before !== undefined && missing.length > 0) {
    const full = missing.map((path) => join(source.dir, path));
    if (!confirmGone(reading, full)) return holdOver(reading, before, missing);
  }
  if (before !== undefined && isSame(before, listing, source)) return keep(reading, before);
  return keep(reading, { paths, ...(await readAgain(reading, source, listing)) });
}

/** A module whose directory is gone: its last content until that is confirmed, then undefined. */
export function goneModule(reading: Reading, before: RememberedModule): Module | undefined {
  return confirmGone(reading, [before.module.dir]) ? undefined : holdOver(reading, before, ["."]);
}

/** A module that cannot be looked at now stays as it was. */
export function keep(reading: Reading, remembered: RememberedModule): Module {
  reading.after.modules.set(remembered.module.name, remembered);
  return remembered.module;
}

function remembered(reading: Reading, source: ModuleSource): RememberedModule | undefined {
  const before = reading.before.modules.get(source.name);
  return before?.module.dir === source.dir ? before : undefined;
}

async function afterFailure(
  before: RememberedModule | undefined,
  source: ModuleSource,
  error: unknown,
): Promise<RememberedModule> {
  const good = before?.good;
  const module =
    good === undefined
      ? await unreadableModule(source, error)
      : { ...good, problem: fileProblem(source.dir, error) };
  return { module, good, paths: before?.paths ?? [], fingerprint: "", settled: false };
}

function holdOver(reading: Reading, before: RememberedModule, what: readonly string[]): Module {
  keep(reading, before);
  const since = Math.min(...what.map((path) => missedSince(reading, join(before.module.dir, path))));
  return { ...before.module, gone: { since, what } };
}

function isSame(before: RememberedModule, listing: Listing, source: ModuleSource): boolean {
  const sameCommon = before.module.common === source.common;
  const { settled, fingerprint, module } = before;
  // What was unpacked lies among temporary files, which somebody may have cleared away.
  return settled && fingerprint === listing.fingerprint && sameCommon && existsSync(module.chartDir);
}

async function readAgain(
  reading: Reading,
  source: ModuleSource,
  listing: Listing,
): Promise<Omit<RememberedModule, "paths">> {
  const fresh = await readModule(source, listing);
  const good = fresh.problem === undefined ? fresh : remembered(reading, source)?.good;
  const { problem, order, common, warnings } = fresh;
  const module = good === undefined ? fresh : { ...good, order, common, problem, warnings };
  const settled = isSettled(listing.changedAt, reading.now);
  return { module, good, fingerprint: listing.fingerprint, settled };
}
