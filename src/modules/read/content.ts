/**
 * Digests of all files of a module, or of the directory of global hooks. They show to the watch of files, and to a run whose hooks may have
 * written files, that content has changed.
 */

import { readdirSync, type Dirent, type Stats } from "node:fs";
import { join } from "node:path";

import { attempt, FilesHash, hashFiles, readRegularFile, WorkSlices } from "../../base/index.ts";
import type { Module } from "../../base/model/index.ts";
import { ADDON_FILE, MODULE_FILE } from "../chart/addon-file.ts";
import { readHelmIgnore } from "../chart/chart-files.ts";
import { stat } from "./files.ts";
import { Fingerprint, toFoundFile, type FoundFile } from "./fingerprint.ts";
import { identifyFile, MOST_LEVELS, MOST_BYTES, MOST_ENTRIES } from "./walk.ts";

/** Digests of all files below a directory. */
export interface ContentDigests {
  /** Of times, sizes and inodes. It may change while the content stays. */
  readonly stamps: string;
  /** Of names, modes and contents. */
  readonly content: string;
  /** Of the files that discovery and the order of modules depend on. */
  readonly discoveryInputs: string;
}

/** How many files count. */
export interface ContentLimits {
  /** Number of files and directories. Deeper ones beyond the limit do not count. */
  readonly entries: number;
  /** Number of bytes that are read. Of files beyond the limit only times, size and inode count. */
  readonly bytes: number;
}

export const CONTENT_LIMITS: ContentLimits = { entries: MOST_ENTRIES, bytes: MOST_BYTES };

/** What a list of all files reports while it goes on. */
interface ListReport {
  /** Called with each directory before it is listed, so that no change is missed between list and watch. */
  readonly onDirectory: (path: string, id: string) => void;
  /** Called with each symbolic link before it is followed. */
  readonly onLink: (path: string) => void;
  /** Called once if files are left out because of the limit. */
  readonly onTooLarge: () => void;
}

const NO_REPORT: ListReport = { onDirectory: () => {}, onLink: () => {}, onTooLarge: () => {} };

/** Computes the digests of a directory. Reads contents only if a file was changed since `before`. Lets other work go on meanwhile. */
export async function digestContent(
  dir: string,
  before: ContentDigests | undefined,
  limits: ContentLimits,
  report: ListReport,
): Promise<ContentDigests> {
  const slices = new WorkSlices();
  const files: ContentFile[] = [];
  for (const file of visitAll(dir, limits.entries, report)) {
    if (file !== undefined) files.push(file);
    await slices.count();
  }
  const stamps = new Fingerprint(files.map((file) => [file.rel, file])).digest;
  if (before?.stamps === stamps) return before;
  const [content, discoveryInputs] = [new FilesHash(), new FilesHash()];
  for (const [rel, key, bytes] of readContents(files, limits.bytes)) {
    content.add(key, bytes);
    // A change of the other files concerns only the module itself.
    if (affectsDiscovery(rel)) discoveryInputs.add(key, bytes);
    await slices.count(bytes.length);
  }
  return { stamps, content: content.digest(), discoveryInputs: discoveryInputs.digest() };
}

/** Digest of the content of all files of modules: it changes if, and only if, the watch of files reports a changed module. */
export function hashModuleFiles(modules: readonly Module[]): string {
  const hash = new FilesHash();
  for (const { name, dir } of modules) {
    const files = [...visitAll(dir, CONTENT_LIMITS.entries, NO_REPORT)].filter((file) => file !== undefined);
    for (const [, key, bytes] of readContents(files, CONTENT_LIMITS.bytes)) hash.add(`${name}/${key}`, bytes);
  }
  return hash.digest();
}

const DISCOVERY_FILES: ReadonlySet<string> = new Set(["enabled", ADDON_FILE, MODULE_FILE]);
/** Whether discovery or other modules depend on a file; `rel` is its path in the module. */
const affectsDiscovery = (rel: string): boolean => DISCOVERY_FILES.has(rel) || topSegment(rel) === "crds";
const topSegment = (rel: string): string | undefined => rel.split("/", 1)[0];
/** Parts of the module even if `.helmignore` keeps them out of the chart. */
const MODULE_PARTS: ReadonlySet<string | undefined> = new Set([
  ...DISCOVERY_FILES,
  "crds",
  "hooks",
  "openapi",
  "values.yaml",
]);
/** Whether `.helmignore` applies to the file: not to the module's own parts. */
const isPartOfChart = (rel: string): boolean => rel !== "" && !MODULE_PARTS.has(topSegment(rel));
/** Temporary files of editors (`x~`; `#x#` of emacs; `4913`, with which vim tests a directory), and hidden files except `.helmignore`. */
const TEMPORARY_NAME = /~$|^#.*#$|^4913$|^\.(?!helmignore$)/;
/** Of a larger file only the signature counts: times, size and inode. */
const MAX_READ_BYTES = 1024 * 1024;

/** A file below a directory; `rel` is the path in the directory. */
interface ContentFile extends FoundFile {
  readonly rel: string;
  readonly mode: number;
  readonly size: number;
}

/**
 * Visits everything below a directory, and yields a file, or undefined, after each visit. Breadth first, so that beyond the limit the deepest
 * files are left out. Enters each directory once, and ignores what cannot be read, what `.helmignore` excludes, and what lies too deep.
 */
function* visitAll(
  root: string,
  mostEntries: number,
  report: ListReport,
): Generator<ContentFile | undefined> {
  const isIgnored = readHelmIgnore(root);
  const visitedDirs = new Set<string>();
  let isTooLarge = false;
  // The loop appends to the queue.
  const queue = [{ path: root, rel: "", depth: 0 }];
  for (const { path, rel, depth } of queue) {
    const stats = attempt(() => stat(path));
    const isLeftOut = stats === undefined || (isPartOfChart(rel) && isIgnored(rel, stats.isDirectory()));
    const isDirectory = !isLeftOut && stats.isDirectory();
    yield isLeftOut || isDirectory ? undefined : toContentFile(path, rel, stats);
    // A symbolic link can lead to a directory that was visited.
    if (!isDirectory || visitedDirs.has(identifyFile(stats))) continue;
    visitedDirs.add(identifyFile(stats));
    report.onDirectory(path, identifyFile(stats));
    const children = listChildren({ path, rel }, isIgnored);
    if (!isTooLarge && queue.length + children.length > mostEntries) {
      isTooLarge = true;
      report.onTooLarge();
    }
    // Hooks, CRDs and charts may not lie so deep, and each access to the path takes long.
    if (isTooLarge || depth > MOST_LEVELS) continue;
    for (const child of children) {
      if (child.isLink) report.onLink(child.path);
      queue.push({ ...child, depth: depth + 1 });
    }
  }
}

/** What a directory contains, except what `isIgnored` excludes. */
function listChildren(
  dir: Pick<ContentFile, "path" | "rel">,
  isIgnored: ReturnType<typeof readHelmIgnore>,
): (Pick<ContentFile, "path" | "rel"> & { readonly isLink: boolean })[] {
  return listEntries(dir.path).flatMap((entry) => {
    const rel = dir.rel === "" ? entry.name : `${dir.rel}/${entry.name}`;
    const isLink = entry.isSymbolicLink();
    // The target of a link decides whether rules for directories apply.
    if (!isLink && isPartOfChart(rel) && isIgnored(rel, entry.isDirectory())) return [];
    return [{ path: join(dir.path, entry.name), rel, isLink }];
  });
}

/** Lists the sorted entries of a directory without hidden files and temporary files of editors; empty if the directory cannot be read. */
export function listEntries(dir: string): Dirent[] {
  const entries = attempt(() => readdirSync(dir, { withFileTypes: true })) ?? [];
  return entries.filter(({ name }) => !TEMPORARY_NAME.test(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function toContentFile(path: string, rel: string, stats: Stats): ContentFile {
  const file = { ...toFoundFile(path, stats), rel, mode: stats.mode, size: stats.size };
  // Of a FIFO, socket or device only the presence counts: the times of a device may change all the time.
  return stats.isFile() ? file : { ...file, signature: "special" };
}

/** Reads the contents of files. The key contains the mode, too. */
function* readContents(
  files: readonly ContentFile[],
  mostBytes: number,
): Generator<readonly [rel: string, key: string, bytes: Uint8Array]> {
  let bytesLeft = mostBytes;
  for (const file of files) {
    const bytes = readOrSign(file, bytesLeft);
    bytesLeft -= bytes.length;
    yield [file.rel, `${file.rel}\0${file.mode}`, bytes];
  }
}

/** The content of a file, or its signature if the file is too large, larger than `bytesLeft`, or cannot be read. */
function readOrSign(
  { path, size, signature }: Pick<ContentFile, "path" | "size" | "signature">,
  bytesLeft: number,
): Uint8Array {
  const isRead = size <= Math.min(MAX_READ_BYTES, bytesLeft);
  const bytes = isRead ? attempt(() => readRegularFile(path, MAX_READ_BYTES)) : undefined;
  return bytes ?? Buffer.from(signature);
}

/** Digest of the mode and the content of one file. */
export function digestFile({ path, signature }: Pick<FoundFile, "path" | "signature">): string {
  const { mode = 0, size = Infinity } = attempt(() => stat(path)) ?? {};
  return hashFiles([[String(mode), readOrSign({ path, size, signature }, Infinity)]]);
}
