/**
 * Reads a module again if its files changed, or keeps the result of the last read; also while other modules run. A candidate
 * is the directory of a module, a `Listing` names its files, a `Reading` is one read of the directories: its `before` is the
 * memory of the last read, its `after` the memory for the next one.
 */

import { existsSync } from "node:fs";
import { join, sep } from "node:path";

import { attempt } from "../../base/index.ts";
import { ProblemError, type Module, type Tree } from "../../base/model/index.ts";
import { stat } from "./files.ts";
import { listedPaths, listModule, type Listing } from "./listing.ts";
import { readModule, registryOrigin, toProblems, unreadableModule } from "./read-module.ts";
import type { ModuleCandidate } from "./read-module.ts";
import {
  beginReading,
  without,
  confirmMissing,
  keepMemory,
  recallMemory,
  type Reading,
  type ReadTreeOptions,
  type RememberedModule,
} from "./reading.ts";
import { areReferencesUnchanged } from "./references.ts";

/**
 * Returns the current state of one module. Reads it again only if its files changed; keeps its last valid content
 * while it is broken, or while files are missing and no second read has confirmed the deletion.
 */
export async function refreshModule(reading: Reading, candidate: ModuleCandidate): Promise<Module> {
  const sameName = reading.before.modules.get(candidate.name);
  // A module of the same name from another directory is another module.
  const before = sameName?.module.dir === candidate.dir ? sameName : undefined;
  const lastValid = before?.lastValid;
  let listing: Listing;
  try {
    if (candidate.problem !== undefined) throw new ProblemError(candidate.problem);
    listing = listModule(candidate.dir);
  } catch (error) {
    const problem = toProblems(error, candidate.dir)[0];
    const module = lastValid ?? (await unreadableModule(reading, candidate));
    // Without a fingerprint, the next read reads the module in any case.
    const listed = { paths: before?.paths ?? [], fingerprint: undefined, readAt: reading.now };
    return rememberModule(reading, { module: { ...module, problem }, lastValid, ...listed });
  }
  const kept = before && keepIfUnchanged(reading, before, { candidate, listing });
  if (kept !== undefined) return kept;
  const fresh = await readModule(reading, candidate, listing);
  return rememberModule(reading, {
    ...keepLastValid(fresh, lastValid),
    paths: listedPaths(listing),
    fingerprint: listing.fingerprint,
    readAt: reading.now,
  });
}

/**
 * The module of the last read, if nothing has changed, or while files are missing and no second read has confirmed their
 * deletion. Undefined: the module must be read again.
 */
function keepIfUnchanged(
  reading: Reading,
  before: RememberedModule,
  { candidate, listing }: { readonly candidate: ModuleCandidate; readonly listing: Listing },
): Module | undefined {
  const origin = registryOrigin(reading, candidate);
  const missing = findMissingPaths(before, listedPaths(listing), origin);
  const fullPaths = missing.map((path) => join(candidate.dir, path));
  if (!confirmMissing(reading, fullPaths)) return keepWithMissing(reading, before, missing);
  const isSame = origin === before.module.origin && isUnchanged(before, listing, candidate);
  return isSame ? rememberModule(reading, before) : undefined;
}

/**
 * Paths that the last read found and this one, with `paths`, did not. They may be missing for a moment only. Content from
 * a registry is replaced as a whole, so after a change of its digest no path counts as missing.
 */
function findMissingPaths(
  { module, paths: before }: RememberedModule,
  paths: readonly string[],
  origin: Module["origin"],
): string[] {
  return origin?.digest === module.origin?.digest ? without(before, paths) : [];
}

/** A module whose directory is missing: returns its last content until a second read confirms the deletion, then undefined. */
export function keepUntilConfirmedMissing(reading: Reading, before: RememberedModule): Module | undefined {
  return confirmMissing(reading, [before.module.dir]) ? undefined : keepWithMissing(reading, before, ["."]);
}

/** Stores the state of a module for the next read, which compares with it. Returns the module. */
export function rememberModule(reading: Reading, remembered: RememberedModule): Module {
  reading.after.modules.set(remembered.module.name, remembered);
  return remembered.module;
}

/** Whether the files of a module are the same as in its last listing. A module that could not be listed has no fingerprint and counts as the same. */
export function isListingCurrent({ fingerprint, module }: RememberedModule): boolean {
  if (fingerprint === undefined) return true;
  return fingerprint.digest === attempt(() => listModule(module.dir).fingerprint.digest);
}

/** Returns the last content of a module, marked with the paths that are missing but may return. */
function keepWithMissing(
  reading: Reading,
  before: RememberedModule,
  missingPaths: readonly string[],
): Module {
  rememberModule(reading, before);
  const times = missingPaths.map((path) => reading.missing.since.get(join(before.module.dir, path)));
  const since = Math.min(...times.filter((time) => time !== undefined));
  return { ...before.module, unconfirmedMissing: { since, what: missingPaths } };
}

/** Whether nothing that a module is read from has changed since its last read. */
function isUnchanged(before: RememberedModule, listing: Listing, candidate: ModuleCandidate): boolean {
  const hasSameCommonValues = before.module.common === candidate.common;
  const { fingerprint, readAt, module } = before;
  if (!areReferencesUnchanged(module.schemas)) return false;
  const areFilesUnchanged = fingerprint?.isUnchanged(readAt, listing.fingerprint) === true;
  if (!areFilesUnchanged || !hasSameCommonValues) return false;
  // The unpacked chart is in a temp directory, which a cleanup may have emptied.
  return existsSync(module.chartDir);
}

/**
 * The module as it was read; if it is broken, the content of its last valid read with the new problem and warnings, and with
 * the fields that do not come from its own files.
 */
function keepLastValid(
  fresh: Module,
  lastValid: Module | undefined,
): Pick<RememberedModule, "module" | "lastValid"> {
  const { problem, order, common, origin, warnings, notExecutableWarnings = [] } = fresh;
  if (problem === undefined) return { module: fresh, lastValid: fresh };
  if (lastValid === undefined) return { module: fresh, lastValid };
  const module = { ...lastValid, order, common, origin, problem, warnings, notExecutableWarnings };
  return { module, lastValid };
}

/** Most reads of a module whose files keep changing; then the last read is used. */
const MOST_TRIES = 10;

/**
 * The tree with one module as it is on disk now; `previous` itself if nothing has changed, which a listing of
 * the directory decides without opening files. Missing files stay in force until a later read confirms the deletion. Never
 * throws: errors are in the module's `problem`.
 */
export async function rereadModule(
  options: Omit<ReadTreeOptions, "previous" | "namesToRead" | "onlyDir">,
  previous: Tree,
  name: string,
): Promise<Tree> {
  const before = recallMemory(previous);
  const module = previous.modules.find((each) => each.name === name);
  if (module === undefined || !before.modules.has(name)) return previous;
  for (let tries = 1; ; tries += 1) {
    const reading = beginReading({ ...options, previous });
    const fresh = await rereadOrKeep(reading, module);
    if (fresh === module) return previous;
    const remembered = reading.after.modules.get(name);
    const hasChangedMeanwhile = remembered !== undefined && !isListingCurrent(remembered);
    if (tries < MOST_TRIES && hasChangedMeanwhile) continue;
    const modules = previous.modules.map((each) => (each === module ? fresh : each));
    // Paths of other modules, which this read does not check, stay missing.
    const missingElsewhere = [...before.missingSince.keys()].filter(
      (path) => path !== module.dir && !path.startsWith(module.dir + sep),
    );
    confirmMissing(reading, missingElsewhere);
    const { nextCheckAt: recheckAt, since: missingSince } = reading.missing;
    const memory = {
      ...before,
      modules: new Map([...before.modules, ...reading.after.modules]),
      missingSince,
    };
    const { recheckAt: _, ...tree } = previous;
    return keepMemory({ ...tree, modules, ...(recheckAt !== undefined && { recheckAt }) }, memory);
  }
}

/** Reads a module again; keeps the module while its directory is missing, because only a converge removes modules. */
async function rereadOrKeep(reading: Reading, module: Module): Promise<Module> {
  const { name, order, dir, common } = module;
  if (stat(dir) !== undefined) return refreshModule(reading, { name, order, dir, common });
  const remembered = reading.before.modules.get(name);
  return (remembered && keepUntilConfirmedMissing(reading, remembered)) ?? module;
}
