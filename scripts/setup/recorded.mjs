// Checksums of the tools in a cache directory: what is there is compared with what was put there before it is used.
import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { say } from "./progress.mjs";

/** Beside the directory, in the format of `sha256sum --check`. */
export const sumsFile = (dir) => `${dir}.sha256`;

/** Writes down the checksums of these tools of `dir`; the lines of others stay. */
export async function record(dir, tools) {
  const sums = await Promise.all(tools.map((tool) => sumOf(join(dir, tool))));
  // Read late: another process may have written meanwhile.
  const known = recordedIn(dir);
  tools.forEach((tool, index) => known.set(tool, sums[index]));
  const lines = [...known].map(([tool, sum]) => `${sum}  ${join(dir, tool)}\n`);
  const own = `${sumsFile(dir)}.${process.pid}`;
  writeFileSync(own, lines.join(""));
  renameSync(own, sumsFile(dir));
}

/**
 * The tools of `dir` that are not what was written down, or were never written down. Of a directory that an earlier
 * version of the set-up filled nothing is known: what is there is written down.
 */
export async function changed(dir, tools) {
  const there = tools.filter((tool) => existsSync(join(dir, tool)));
  if (there.length === 0) return [];
  if (!existsSync(sumsFile(dir))) {
    const all = readdirSync(dir).filter((name) => !name.startsWith("."));
    await record(dir, all).catch(ifReadOnly);
    return [];
  }
  const known = recordedIn(dir);
  const sums = await Promise.all(there.map((tool) => sumOf(join(dir, tool))));
  return there.filter((tool, index) => known.get(tool) !== sums[index]);
}

/** Removes what changed, so that it is fetched or built again. */
export async function removeChanged(dir, tools) {
  for (const tool of await changed(dir, tools)) {
    say(`${join(dir, tool)} is not what was put there: it is not used`);
    rmSync(join(dir, tool));
  }
}

function recordedIn(dir) {
  if (!existsSync(sumsFile(dir))) return new Map();
  const lines = readFileSync(sumsFile(dir), "utf8").split("\n").filter(Boolean);
  return new Map(lines.map((line) => [line.slice(line.lastIndexOf("/") + 1), line.split(" ")[0]]));
}

async function sumOf(path) {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk);
  return hash.digest("hex");
}

function ifReadOnly(error) {
  if (!["EACCES", "EROFS", "EPERM"].includes(error.code)) throw error;
}
