/**
 * Reads the entries of one modules directory and parses their names. A candidate is a sub-directory with a valid name;
 * `purgeBlockers` are reasons to keep the releases of missing modules, because the directory may be incomplete.
 */

import { readdirSync, statSync } from "node:fs";
import { extname, join } from "node:path";

import { camelCase, describeProblem, type Problem } from "../../base/model/index.ts";
import { GLOBAL_SOURCES, MODULE_SETTINGS } from "../../values/index.ts";
import { fileProblem } from "./files.ts";
import { toFoundFile, type FoundFile } from "./fingerprint.ts";

/** A sub-directory (or a symlink to one) with a valid module name, or an entry with such a name that cannot be read. */
export interface ModuleDirectory {
  readonly name: string;
  readonly order: number;
  readonly dir: string;
  /** Why the entry cannot be read: then it counts as a module, whose release must stay. */
  readonly problem?: Problem | undefined;
}

/** The entries of one modules directory. */
export interface DirScan {
  readonly dir: string;
  readonly candidates: readonly ModuleDirectory[];
  readonly valuesFile: FoundFile | undefined;
  readonly refused: readonly Problem[];
  readonly warnings: readonly string[];
  /** Reasons why releases of missing modules must not be purged: the directory may be incomplete. */
  readonly purgeBlockers: readonly string[];
}

const VALUES_FILE = "values.yaml";
const IGNORED_NAMES = new Set(["lost+found", "LICENSE", "OWNERS"]);
const IGNORED_EXTENSIONS = new Set([".md", ".txt"]);

/**
 * Reads the entries of a modules directory, not recursively. `unnumberedOrder` is the order of modules without a number in the
 * name. A directory without modules is a reason not to purge releases, unless `mayBeEmpty`. Throws errors of the file system.
 */
export function scanDir(dir: string, unnumberedOrder: number, mayBeEmpty = false): DirScan {
  const candidates: ModuleDirectory[] = [];
  const refused: Problem[] = [];
  const warnings: string[] = [];
  const unreadable: Problem[] = [];
  let valuesFile: FoundFile | undefined;
  for (const name of readdirSync(dir).sort()) {
    const entry = classifyEntry(join(dir, name), name);
    if (entry.type === "other") warnings.push(...entry.warnings);
    else if (entry.type === "values") valuesFile = entry.file;
    else {
      const { problem } = entry;
      const candidate = { ...splitEntryName(name, unnumberedOrder), dir: join(dir, name), problem };
      const nameError = explainInvalidName(candidate.name);
      const message = `no module: ${nameError}`;
      if (problem !== undefined && (nameError !== undefined || isFileName(name))) unreadable.push(problem);
      else if (nameError === undefined) candidates.push(candidate);
      else refused.push({ file: candidate.dir, message, remedy: "rename the directory" });
    }
  }
  const notRead = [...unreadable, ...refused].map(describeProblem);
  warnings.push(...notRead);
  // The volume of a directory without modules may not be mounted.
  const isEmpty = candidates.length === 0 && !mayBeEmpty;
  const purgeBlockers = isEmpty ? [...notRead, `${dir}: contains no module`] : notRead;
  return { dir, candidates: candidates.sort(byOrder), valuesFile, refused, warnings, purgeBlockers };
}

/** Compares modules by order, then by name. */
export function byOrder(a: ModuleDirectory, b: ModuleDirectory): number {
  return a.order - b.order || (a.name < b.name ? -1 : Number(a.name > b.name));
}

/** The kind of an entry of a modules directory. A `directory` with a problem cannot be looked at, so it may be none. */
type DirEntry =
  | { readonly type: "directory"; readonly problem?: Problem }
  | { readonly type: "other"; readonly warnings: readonly string[] }
  | { readonly type: "values"; readonly file: FoundFile };

/** Whether an entry of this name is a file, not a module. */
function isFileName(name: string): boolean {
  return name === VALUES_FILE || IGNORED_EXTENSIONS.has(extname(name));
}

/** Determines the kind of an entry of a modules directory. Never throws. */
function classifyEntry(path: string, name: string): DirEntry {
  if (name.startsWith(".") || IGNORED_NAMES.has(name)) return { type: "other", warnings: [] };
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    if (stats === undefined) {
      const problem = { file: path, message: "is a link to nothing", remedy: "remove or fix it" };
      return { type: "directory", problem };
    }
    if (stats.isDirectory() && name !== VALUES_FILE) return { type: "directory" };
    if (name === VALUES_FILE) return { type: "values", file: toFoundFile(path, stats) };
    const warnings = isFileName(name) ? [] : [`${path}: is neither a module directory nor values.yaml`];
    return { type: "other", warnings };
  } catch (error) {
    return { type: "directory", problem: fileProblem(path, error) };
  }
}

const NUMBERED_NAME = /^(\d+)-(.+)$/;
/** What helm accepts as the name of a release: DNS labels with dots between them. */
const RELEASE_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const MAX_RELEASE_NAME_LENGTH = 53;

/** Suffixes of the ConfigMap keys of a module's flag and settings in kebab case, such as `-enabled`. */
const FLAG_SUFFIXES = ["Enabled", ...MODULE_SETTINGS.map(({ ending }) => ending)].map(kebabCase);

/** Splits `010-ingress` into 10 and `ingress`; without a number the order is `unnumberedOrder`. */
export function splitEntryName(
  entry: string,
  unnumberedOrder: number,
): Pick<ModuleDirectory, "order" | "name"> {
  const match = NUMBERED_NAME.exec(entry);
  if (match === null) return { order: unnumberedOrder, name: entry };
  return { order: Number(match[1]), name: match[2] ?? "" };
}

/** Why `name` cannot be a module's name; undefined when it can. It becomes the name of a release and a key of values. */
export function explainInvalidName(name: string): string | undefined {
  if (name === "global") return `"global" is the section of values that all modules share`;
  if (!RELEASE_NAME.test(name)) {
    return `"${name}" is no release name: lower case letters, digits and dashes, beginning and ending with a letter or digit`;
  }
  if (name.length > MAX_RELEASE_NAME_LENGTH) {
    return `"${name}" is longer than helm's ${MAX_RELEASE_NAME_LENGTH} characters for a release name`;
  }
  const key = camelCase(name);
  if (key === GLOBAL_SOURCES)
    return `"${name}" has the values key "${key}", which is a setting of the ConfigMap`;
  // Otherwise two modules, such as `a-1` and `a1`, could share one values key.
  if (kebabCase(key) === name) return undefined;
  return `"${name}" has the same values key as "${kebabCase(key)}": "${key}"`;
}

/**
 * Finds the module whose flag has the same values key as a module called `name`: `foo` for `foo-enabled`, because the key
 * `fooEnabled` switches `foo` on. Returns undefined if no such module exists among `names`.
 */
export function findFlagCollision(name: string, names: ReadonlySet<string>): string | undefined {
  for (const suffix of FLAG_SUFFIXES) {
    const other = name.slice(0, -suffix.length);
    if (name.endsWith(suffix) && names.has(other)) return other;
  }
  return undefined;
}

function kebabCase(camel: string): string {
  return camel.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
