/** Preloaded into an operator: ends it, as the kernel would, at a change of its files. Used by each-point.ts. */

import fs, { constants, type PathLike } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

const scene = process.env["SCENE"] ?? "";
/** Where an operator keeps what it needs again, and what it needs for a moment. */
const places = ["sources", "tmp"].map((name) => `${join(scene, name)}/`);
/** The number of the change at which the operator ends; without the file, changes do not count. */
const point = join(scene, "file-point");
const log = join(scene, "file-changes");

type Call = (...args: unknown[]) => unknown;
type Calls = Record<string, Call>;

const original = { ...fs };
const own = fs as unknown as Calls;
const promises = fs.promises as unknown as Calls;

/** Directories of hooks and helm are alike, and made again at each run: those that differ only in the rest of their names count once. */
const known = new Set<string>();

const nameOf = (path: string): string =>
  path.startsWith(places[1] ?? "")
    ? path
        .slice(scene.length)
        .replace(/^\/tmp\/([a-z]+)[^/]*\.\d+-\d+\.[^/]*/, "/tmp/$1-*")
        .replace(/\.[0-9a-f]{12}$/, ".*")
    : path;

/** Whether this change is the one; all that count are noted. */
function isPoint(name: string, args: readonly unknown[]): boolean {
  if (name === "open" && !isWriting(args[1])) return false;
  const paths = args.slice(0, /^(rename|symlink|copyFile)/.test(name) ? 2 : 1).map(String);
  if (!paths.some((path) => places.some((place) => path.startsWith(place)))) return false;
  if (!original.existsSync(point)) return false;
  const change = `${name} ${nameOf(paths[0] ?? "")}`;
  if (known.has(change)) return false;
  known.add(change);
  original.appendFileSync(log, `${change}\n`);
  return known.size === Number(original.readFileSync(point, "utf8"));
}

const isWriting = (flags: unknown): boolean =>
  typeof flags === "number"
    ? (flags & (constants.O_WRONLY | constants.O_RDWR)) !== 0
    : typeof flags === "string" && /[wa+]/.test(flags);

/** What a change leaves that does not end: half a file, or a directory of which a part is deleted. */
function spoil(name: string, path: PathLike): void {
  const stats = original.lstatSync(path, { throwIfNoEntry: false });
  if (/^(writeFile|copyFile)/.test(name) && stats !== undefined)
    original.truncateSync(path, Math.floor(stats.size / 2));
  if (name !== "rm" || stats?.isDirectory() !== true) return;
  const files = original.readdirSync(path, { recursive: true, withFileTypes: true });
  const file = files.find((each) => each.isFile());
  if (file !== undefined) original.rmSync(join(file.parentPath, file.name));
}

const end = (): void => void process.kill(process.pid, "SIGKILL");

const CHANGES = [
  "rename",
  "mkdir",
  "mkdtemp",
  "rm",
  "rmdir",
  "unlink",
  "symlink",
  "open",
  "writeFile",
  "copyFile",
  "chmod",
  "chown",
];

for (const name of CHANGES) {
  const [now, later] = [own[`${name}Sync`] as Call, promises[name] as Call];
  // The path that a change is about: the new one of a link or a copy.
  const pathOf = (args: readonly unknown[]): PathLike =>
    (/^(symlink|copyFile)/.test(name) ? args[1] : args[0]) as PathLike;
  const endAtPoint = (args: readonly unknown[]): void => {
    if (!isPoint(name, args)) return;
    spoil(name, pathOf(args));
    end();
  };
  // A call that fails, such as `mkdir` of an existing directory, changes nothing, and does not count.
  own[`${name}Sync`] = (...args) => {
    if (name === "rm") endAtPoint(args);
    const result = now(...args);
    if (name !== "rm") endAtPoint(args);
    return result;
  };
  promises[name] = async (...args) => {
    if (name === "rm") endAtPoint(args);
    const result = await later(...args);
    if (name !== "rm") endAtPoint(args);
    return result;
  };
}
syncBuiltinESMExports();
