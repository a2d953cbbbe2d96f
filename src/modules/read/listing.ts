/** Lists the files of a module's directory without reading them. */

import { readdirSync } from "node:fs";
import { join } from "node:path";

import { findHookFiles } from "./hook-files.ts";
import { found, stat } from "./signature.ts";
import type { Found } from "./signature.ts";

/** The files of a module's directory that matter, without their content. */
export interface Listing {
  readonly dir: string;
  /** `Chart.yaml`, `values.yaml`, `enabled`, `templates`, `openapi/…`, `crds/…`, by path below the directory. */
  readonly files: ReadonlyMap<string, Found>;
  /** Files of hooks, by path below `hooks/`. */
  readonly hooks: ReadonlyMap<string, Found>;
  /** The same as before when nothing listed has changed. */
  readonly fingerprint: string;
  /** The latest change of anything listed, in ms since the epoch. */
  readonly changedAt: number;
}

const FILES = new Set(["Chart.yaml", "values.yaml", "enabled"]);
export const SCHEMA_FILES = { config: "openapi/config-values.yaml", values: "openapi/values.yaml" } as const;

/** Lists a module's directory. Throws the file system's error when it cannot be read. */
export function listModule(dir: string): Listing {
  const files = new Map<string, Found>();
  let hooks: ReadonlyMap<string, Found> = new Map();
  for (const entry of readdirSync(dir).sort()) {
    if (FILES.has(entry)) addFile(files, dir, entry);
    else if (entry === "templates") addDirectory(files, dir, entry);
    else if (entry === "openapi") Object.values(SCHEMA_FILES).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "crds") crdNames(join(dir, entry)).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "hooks") hooks = findHookFiles(join(dir, entry));
  }
  return { dir, files, hooks, ...summary([...files, ...hooks]) };
}

/** Every listed path, to find out what is missing later. */
export function listedPaths(listing: Listing): string[] {
  return [...listing.files.keys(), ...[...listing.hooks.keys()].map((rel) => `hooks/${rel}`)];
}

function summary(entries: readonly (readonly [string, Found])[]): { fingerprint: string; changedAt: number } {
  return {
    fingerprint: entries.map(([rel, file]) => `${rel}\0${file.signature}`).join("\n"),
    changedAt: Math.max(0, ...entries.map(([, file]) => file.changedAt)),
  };
}

function addFile(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  const stats = stat(path);
  if (stats?.isFile()) files.set(rel, found(path, stats));
}

/** Only whether `templates` exists matters here: its content is covered by the digest of the chart. */
function addDirectory(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  if (!stat(path)?.isDirectory()) return;
  files.set(rel, { path, signature: "directory", executable: true, changedAt: 0 });
}

function crdNames(dir: string): string[] {
  if (!stat(dir)?.isDirectory()) return [];
  return readdirSync(dir)
    .filter((name) => !name.startsWith(".") && /\.ya?ml$/.test(name))
    .sort()
    .map((name) => `crds/${name}`);
}
