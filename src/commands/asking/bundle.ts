/** The command `bundle`: writes what a bug report needs into an archive (docs/DEBUG.md, "For a bug report"). */

import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

import { systemClock, writeAll } from "../../lib/index.ts";
import { ProblemError, type Json } from "../../model/index.ts";
import { get, type Line, type World } from "../table/row.ts";
import { tellRefusal } from "./ask.ts";
import { objectIn, operatorOf } from "./socket.ts";

const BLOCK = 512;

/** Asks the operator and writes a file that is its owner's alone, or, for `-`, to standard output. */
export async function bundle(line: Line, world: World, now = systemClock.now()): Promise<number> {
  const answer = await operatorOf(line, world)(get("/bundle.json"));
  if (answer.status >= 400) return tellRefusal(world, answer);
  const stamp = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const name = `addon-operator-bundle-${stamp}`;
  const archive = await archiveOf(name, objectIn(answer.body) as Record<string, Json>, new Date(now));
  const [file = `${name}.tgz`] = line.args;
  if (file === "-") writeAll(1, archive);
  else {
    write(file, archive);
    world.print(`${file}: ${Math.ceil(archive.length / 1024)} KiB; read it before you give it away\n`);
  }
  return 0;
}

function write(file: string, archive: Buffer): void {
  try {
    writeFileSync(file, archive, { mode: 0o600, flag: "wx" });
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    const message = code === "EEXIST" ? "is there already" : `cannot be written (${code})`;
    throw new ProblemError([{ file, message, remedy: "name another file, or - for standard output" }]);
  }
}

/** A tar archive with these files in one directory. */
async function archiveOf(dir: string, files: Readonly<Record<string, Json>>, mtime: Date): Promise<Buffer> {
  const { Header } = await import("tar");
  const blocks = Object.entries(files).flatMap(([name, content]) => {
    const text = typeof content === "string" ? content : `${JSON.stringify(content, undefined, 2)}\n`;
    const bytes = Buffer.from(text);
    const header = new Header({
      path: `${dir}/${name}`,
      type: "File",
      mode: 0o600,
      size: bytes.length,
      mtime,
    });
    header.encode();
    const padding = Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK);
    return [header.block ?? Buffer.alloc(0), bytes, padding];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]));
}
