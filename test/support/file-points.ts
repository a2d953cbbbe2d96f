/** Preloaded into an operator: ends it, as the kernel would, at a change of its files. Used by each-point.ts. */

import fs, { type PathLike } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

const scene = process.env["SCENE"] ?? "";
const sources = join(scene, "sources");
/** The number of the change at which the operator ends; without the file, changes do not count. */
const point = join(scene, "file-point");
const log = join(scene, "file-changes");

type Call = (...args: unknown[]) => unknown;
type Calls = Record<string, Call>;

const original = { ...fs };
const own = fs as unknown as Calls;
const promises = fs.promises as unknown as Calls;

let count = 0;

/** Whether this change is the one; all are noted. */
function isPoint(name: string, args: readonly unknown[]): boolean {
  const paths = args.slice(0, 2).map(String);
  if (!paths.some((path) => path.startsWith(sources)) || !original.existsSync(point)) return false;
  count += 1;
  original.appendFileSync(log, `${name} ${paths[0]}\n`);
  return count === Number(original.readFileSync(point, "utf8"));
}

/** What a change leaves that does not end: half a file, or a directory of which a part is deleted. */
function spoil(name: string, path: PathLike): void {
  const stats = original.lstatSync(path, { throwIfNoEntry: false });
  if (/^(writeFile|copyFile)/.test(name) && stats !== undefined)
    original.truncateSync(path, Math.floor(stats.size / 2));
  if (!name.startsWith("rm") || stats?.isDirectory() !== true) return;
  const files = original.readdirSync(path, { recursive: true, withFileTypes: true });
  const file = files.find((each) => each.isFile());
  if (file !== undefined) original.rmSync(join(file.parentPath, file.name));
}

const end = (): void => void process.kill(process.pid, "SIGKILL");

const CHANGES = ["rename", "mkdir", "rm", "symlink", "writeFile", "copyFile"];

for (const name of CHANGES) {
  const [now, later] = [own[`${name}Sync`] as Call, promises[name] as Call];
  // The path that a change is about: the new one of a link or a copy.
  const pathOf = (args: readonly unknown[]): PathLike =>
    (/^(symlink|copyFile)/.test(name) ? args[1] : args[0]) as PathLike;
  own[`${name}Sync`] = (...args) => {
    if (!isPoint(name, args)) return now(...args);
    if (name !== "rm") now(...args);
    spoil(name, pathOf(args));
    return end();
  };
  promises[name] = async (...args) => {
    if (!isPoint(name, args)) return later(...args);
    if (name !== "rm") await later(...args);
    spoil(name, pathOf(args));
    return end();
  };
}
syncBuiltinESMExports();
