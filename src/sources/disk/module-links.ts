/** The modules directory of modules from registries: links to unpacked content, and a generated `values.yaml`. */

import { existsSync, readlinkSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { attempt } from "../../base/index.ts";
import { camelCase } from "../../base/model/index.ts";
import { explainInvalidName, splitEntryName } from "../../modules/index.ts";

/** One module in the directory. */
export interface ModuleLink {
  readonly name: string;
  readonly order: number | undefined;
  /** Its content; undefined = it has none now, and the link leads to an empty directory. */
  readonly content: string | undefined;
  /** Its flag in `values.yaml`. */
  readonly enabled: boolean | undefined;
}

/** The name of a module's link. A number before the name is the order of the module. */
export function toLinkName({ name, order }: Pick<ModuleLink, "name" | "order">): string {
  return order === undefined ? name : `${String(order).padStart(3, "0")}-${name}`;
}

/** Why no module can have this name: its link would be read as another module, or as no module. */
export function describeNameProblem(name: string): string | undefined {
  if (name === VALUES_FILE) return `"${name}" is a file of each modules directory`;
  if (splitEntryName(name, 0).name !== name)
    return `"${name}" begins with a number, which is the order in the name of a directory`;
  return explainInvalidName(name);
}

/**
 * Makes the directory contain exactly these modules. Each link is replaced by one rename, so that it always leads to
 * complete content. A module without content gets an empty directory below `emptyDirs`. New links are made before old ones
 * are removed.
 */
export async function writeModuleLinks(
  dir: string,
  emptyDirs: string,
  links: readonly ModuleLink[],
): Promise<void> {
  await mkdir(dir, { recursive: true });
  const wanted = new Set([VALUES_FILE]);
  for (const link of links) {
    const entry = toLinkName(link);
    wanted.add(entry);
    const target = targetOf(emptyDirs, link);
    if (link.content === undefined) await mkdir(target, { recursive: true });
    const path = join(dir, entry);
    if (attempt(() => readlinkSync(path)) !== target)
      await createAtomically(path, (part) => symlink(target, part));
  }
  await writeEnabledFlags(join(dir, VALUES_FILE), links);
  for (const name of await readdir(dir)) if (!wanted.has(name)) await rm(join(dir, name), { force: true });
}

/** Whether all that `writeModuleLinks` has written is still there: the flags, each link, and what it leads to. */
export function areLinksIntact(dir: string, emptyDirs: string, links: readonly ModuleLink[]): boolean {
  const isIntact = (link: ModuleLink): boolean => {
    const path = join(dir, toLinkName(link));
    const target = targetOf(emptyDirs, link);
    return attempt(() => readlinkSync(path)) === target && existsSync(target);
  };
  return existsSync(join(dir, VALUES_FILE)) && links.every(isIntact);
}

function targetOf(emptyDirs: string, { name, content }: ModuleLink): string {
  return content ?? join(emptyDirs, name);
}

const VALUES_FILE = "values.yaml";

/** Creates a file or link with `make` under a temporary name, then renames it. */
async function createAtomically(path: string, make: (part: string) => Promise<void>): Promise<void> {
  // Names that begin with a dot are no modules.
  const part = join(path, "..", `.${crypto.randomUUID()}`);
  await make(part);
  await rename(part, path);
}

/** Writes the flags of the modules (`someModuleEnabled: true`), unless the file has them already. */
async function writeEnabledFlags(path: string, links: readonly ModuleLink[]): Promise<void> {
  const flags = links.filter(({ enabled }) => enabled !== undefined);
  const lines = flags.map(({ name, enabled }) => `${camelCase(name)}Enabled: ${enabled}\n`).sort();
  const text = `# Generated from ModuleSources.\n${lines.join("")}`;
  if ((await readFile(path, "utf8").catch(() => undefined)) === text) return;
  await createAtomically(path, (part) => writeFile(part, text));
}
