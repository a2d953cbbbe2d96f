/** Finds the helm binary and its version. */

import { statSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { objectOf, ProblemError } from "../../model/index.ts";
import { findProgram } from "../../process/index.ts";

/** Which helm it is; `id` changes with the file. */
export interface Binary {
  readonly path: string;
  readonly id: string;
}

/** Finds the helm binary. Throws ProblemError where there is none. */
export function locate(bin: string, searchPath: string | undefined): Binary {
  const path = findProgram(bin, searchPath);
  if (path === undefined) {
    const remedy = "install helm 3 or 4, or set --helm-bin";
    throw new ProblemError([{ file: bin, message: "there is no such helm binary", remedy }]);
  }
  const { size, mtimeMs } = statSync(path);
  return { path, id: `${path}:${size}:${mtimeMs}` };
}

/** The major version that an earlier operator process noted for a binary. */
export async function notedMajor(dir: string, binary: Binary): Promise<number | undefined> {
  try {
    const note: unknown = JSON.parse(await readFile(noteFile(dir), "utf8"));
    const { id, major } = objectOf(note);
    return id === binary.id && typeof major === "number" ? major : undefined;
  } catch {
    return undefined;
  }
}

/** Notes it for later processes; if the directory cannot be written, that only costs a helm process then. */
export async function noteMajor(dir: string, binary: Binary, major: number): Promise<void> {
  const fresh = `${noteFile(dir)}.${process.pid}`;
  try {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await writeFile(fresh, JSON.stringify({ id: binary.id, major }), { mode: 0o600 });
    await rename(fresh, noteFile(dir));
  } catch {
    // See above.
  }
}

function noteFile(dir: string): string {
  return join(dir, "version.json");
}
