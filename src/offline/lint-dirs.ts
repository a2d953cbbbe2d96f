/** Finds out what kind of directory `lint` was given. */

import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

import { ProblemError, type Tree } from "../model/index.ts";
import { readTree, type ChartArchives } from "../modules/index.ts";

/** One directory that `lint` was given. */
export interface LintDir {
  readonly dir: string;
  readonly tree: Tree;
  /** Whose layout is to be checked; undefined for global hooks. */
  readonly modulesDir: string | undefined;
  /** Only what is below this path counts: a single module was named. */
  readonly only: string | undefined;
}

const PARTS = ["values.yaml", "enabled", "crds"];

/**
 * Reads a modules directory, one module (`NUMBER-name`, or anything with a chart), or a directory of global hooks
 * (with `hooks/` and nothing of a module). Throws ProblemError when it cannot be read.
 */
export async function readLintDir(given: string, archives: ChartArchives): Promise<LintDir> {
  const dir = resolve(given);
  if (statSync(dir, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new ProblemError([{ file: dir, message: "is no directory" }]);
  if (isModule(dir)) {
    const tree = await read(archives, { modulesDirs: [dirname(dir)], only: dir });
    return { dir, modulesDir: dirname(dir), only: dir, tree };
  }
  if (existsSync(join(dir, "hooks")))
    return {
      dir,
      modulesDir: undefined,
      only: undefined,
      tree: await read(archives, { modulesDirs: [], globalHooksDir: dir }),
    };
  return { dir, modulesDir: dir, only: undefined, tree: await read(archives, { modulesDirs: [dir] }) };
}

function isModule(dir: string): boolean {
  const numbered = /^\d+-/.test(basename(dir));
  const chart = ["Chart.yaml", "templates", "module.yaml"].some((name) => existsSync(join(dir, name)));
  const parts = ["hooks", ...PARTS].some((name) => existsSync(join(dir, name)));
  return chart || (numbered && parts);
}

function read(
  archives: ChartArchives,
  what: { modulesDirs: readonly string[]; globalHooksDir?: string; only?: string },
): Promise<Tree> {
  return readTree({ archives, globalHooksDir: undefined, unnumberedOrder: 1, strict: false, ...what });
}
