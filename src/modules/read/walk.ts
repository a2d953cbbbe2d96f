/** The walk through the files of a module or a chart, which ends with a problem beyond the limits. */

import { lstatSync, readdirSync, statSync, type Dirent, type Stats } from "node:fs";
import { join } from "node:path";

import { ProblemError } from "../../base/model/index.ts";
import { fileProblem, stat } from "./files.ts";

/** A file or directory. */
export interface WalkEntry {
  /** Relative to the root of the walk. */
  readonly rel: string;
  readonly path: string;
  /** Of the target of a link; of a link to nothing, its own. */
  readonly stats: Stats;
  /** A link to a directory that the link lies in. The walk does not enter it. */
  readonly isCircular: boolean;
}

interface WalkRules {
  /** Count each entry. */
  readonly limits: SizeLimits;
  /** Leaves an entry out, with all that is below it. The target of a link decides whether it is a directory. */
  readonly isLeftOut: (rel: string, isDirectory: boolean) => boolean;
  /** Enters a directory only once, even if several links lead to it. */
  readonly entersOnce?: boolean;
}

/**
 * Yields the entries below a directory in the order of their names, each directory before its content. Follows links. Throws ProblemError
 * beyond the limits and for an entry that cannot be read, and the file system's error for a directory.
 */
export function* walk(root: string, { limits, isLeftOut, entersOnce }: WalkRules): Generator<WalkEntry> {
  const entered = new Set<string>();
  // `parents` identifies the directories above an entry, to find circular links. The last one of the list is the next to visit.
  const pending: { readonly rel: string; readonly found: Dirent; readonly parents: readonly string[] }[] = [];
  const enter = (dir: string, parents: readonly string[]): void => {
    for (const found of listSorted(join(root, dir)).reverse())
      pending.push({ rel: dir === "" ? found.name : `${dir}/${found.name}`, found, parents });
  };
  enter("", [identifyFile(statSync(root))]);
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { rel, found, parents } = next;
    const path = join(root, rel);
    const isLink = found.isSymbolicLink();
    const stats = !isLink && isLeftOut(rel, found.isDirectory()) ? undefined : statTargetOrLink(path);
    if (stats === undefined || (isLink && isLeftOut(rel, stats.isDirectory()))) {
      limits.countLeftOut();
      continue;
    }
    limits.countEntry();
    const id = identifyFile(stats);
    const isCircular = stats.isDirectory() && parents.includes(id);
    yield { rel, path, stats, isCircular };
    if (!stats.isDirectory() || isCircular || (entersOnce === true && entered.has(id))) continue;
    limits.checkDepth(path, parents.length);
    entered.add(id);
    enter(rel, [...parents, id]);
  }
}

/** The entries of a directory, sorted by their names. */
function listSorted(dir: string): Dirent[] {
  const entries = readdirSync(dir, { withFileTypes: true });
  return entries.sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Stats of a link's target, or of a dangling link itself; undefined if the path no longer exists. */
function statTargetOrLink(path: string): Stats | undefined {
  try {
    return stat(path) ?? lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new ProblemError(fileProblem(path, error));
  }
}

/** The identity of a file or directory, whatever links lead to it. */
export function identifyFile({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** Most paths below one directory: links can multiply a few directories into very many paths. */
export const MOST_ENTRIES = 30_000;
/** Most paths below one directory that are left out. */
const MOST_LEFT_OUT = 10 * MOST_ENTRIES;
/** Most directories on the way to a file. */
export const MOST_LEVELS = 100;
/** Most bytes of all files, as in a chart archive. */
export const MOST_BYTES = 100 * 1024 * 1024;

/** Counts what a walk through `dir` finds, and ends the walk with a ProblemError beyond the limits: a link to `/` in a module would otherwise stall the operator. */
export class SizeLimits {
  readonly #dir: string;
  readonly #remedy: string;
  #entries = 0;
  #leftOut = 0;
  #bytes = 0;

  /** `remedy` explains to users how to fix a directory that is too large. */
  constructor(dir: string, remedy = "remove the link that leads to them") {
    this.#dir = dir;
    this.#remedy = remedy;
  }

  /** Counts one file or directory. Throws ProblemError if there are too many. */
  countEntry(): void {
    this.#entries += 1;
    if (this.#entries > MOST_ENTRIES)
      this.#refuse(`contains more than ${MOST_ENTRIES} files and directories`);
  }

  /** Counts one file or directory that is left out, which costs much less than others. Throws ProblemError if there are too many. */
  countLeftOut(): void {
    this.#leftOut += 1;
    if (this.#leftOut > MOST_LEFT_OUT)
      this.#refuse(`contains more than ${MOST_LEFT_OUT} files and directories that are left out`);
  }

  /** Throws ProblemError if a directory lies too deep: each access takes longer than the one before. */
  checkDepth(file: string, depth: number): void {
    if (depth > MOST_LEVELS) this.#refuse(`lies more than ${MOST_LEVELS} directories deep`, file);
  }

  /** Adds the size of one file to the total. Throws ProblemError if the total is too large. */
  countFileBytes(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#refuse(`contains more than ${MOST_BYTES >> 20} MiB`);
  }

  #refuse(message: string, file = this.#dir): never {
    throw new ProblemError({ file, message, remedy: this.#remedy });
  }
}
