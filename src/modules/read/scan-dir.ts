/** Reads the entries of one modules directory. */

import { readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";

import { oneLine } from "../../lib/index.ts";
import { describeProblem, type Problem } from "../../model/index.ts";
import { refuseName, splitEntryName } from "../entry-name.ts";
import { found, type Found } from "./signature.ts";

/** A sub-directory (or a symlink to one) whose name a module can have. */
export interface Candidate {
  readonly name: string;
  readonly order: number;
  readonly dir: string;
}

/** What one modules directory holds. */
export interface DirScan {
  readonly dir: string;
  readonly candidates: readonly Candidate[];
  readonly valuesFile: Found | undefined;
  readonly refused: readonly Problem[];
  readonly warnings: readonly string[];
  /** Why nothing may be purged because of this directory. */
  readonly holds: readonly string[];
}

const SILENT_NAMES = new Set(["lost+found", "LICENSE", "OWNERS"]);
const SILENT_EXTENSIONS = new Set([".md", ".txt"]);

/** Reads the entries of a modules directory, not recursively. Throws the file system's error. */
export function scanDir(dir: string, unnumberedOrder: number): DirScan {
  const candidates: Candidate[] = [];
  const refused: Problem[] = [];
  const warnings: string[] = [];
  const holds: string[] = [];
  let valuesFile: Found | undefined;
  for (const name of readdirSync(dir).sort()) {
    if (name.startsWith(".") || SILENT_NAMES.has(name)) continue;
    const entry = inspect(join(dir, name), name);
    if (entry.type === "broken") holds.push(entry.why);
    else if (entry.type === "file") warnings.push(...strangeFile(join(dir, name), name));
    else if (entry.type === "values") valuesFile = entry.file;
    else {
      const candidate = { ...splitEntryName(name, unnumberedOrder), dir: join(dir, name) };
      const why = refuseName(candidate.name);
      if (why === undefined) candidates.push(candidate);
      else
        refused.push({ file: candidate.dir, message: `no module: ${why}`, remedy: "rename the directory" });
    }
  }
  warnings.push(...holds, ...refused.map(describeProblem));
  holds.push(...refused.map(describeProblem));
  if (candidates.length === 0) holds.push(`${dir}: holds no module`);
  return { dir, candidates: candidates.sort(byOrder), valuesFile, refused, warnings, holds };
}

/** By order, then by name. */
export function byOrder(a: Candidate, b: Candidate): number {
  return a.order - b.order || (a.name < b.name ? -1 : Number(a.name > b.name));
}

type DirEntry =
  | { readonly type: "directory" | "file" }
  | { readonly type: "values"; readonly file: Found }
  | { readonly type: "broken"; readonly why: string };

function inspect(path: string, name: string): DirEntry {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) return { type: "broken", why: `${path}: is a link to nothing` };
    if (stats.isDirectory()) return { type: "directory" };
    return name === "values.yaml" ? { type: "values", file: found(path, stats) } : { type: "file" };
  } catch (error) {
    return { type: "broken", why: `${path}: cannot be read: ${oneLine(error)}` };
  }
}

function strangeFile(path: string, name: string): string[] {
  return SILENT_EXTENSIONS.has(extname(name))
    ? []
    : [`${path}: is neither a module directory nor values.yaml`];
}
