/** The command `bundle`: writes an archive for a bug report (docs/guides/on-call.md, "For a bug report"). */

import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

import { systemClock, writeAll } from "../../../base/index.ts";
import { ProblemError, type Json } from "../../../base/model/index.ts";
import { getFromSocket, type CommandLine, type Terminal } from "../table/row.ts";
import { reportRefusal } from "./query.ts";
import { parseObject, operatorClient } from "./socket.ts";

/** Headers and contents of a tar archive begin at multiples of this size. */
const TAR_BLOCK = 512;
/** The end of a tar archive: two empty blocks. */
const TAR_END = Buffer.alloc(2 * TAR_BLOCK);

/** Fetches the content from the running operator, and writes the archive to a file of mode 0600, or to standard output for `-`. Returns the exit code. */
export async function saveBundle(
  line: CommandLine,
  terminal: Terminal,
  now = systemClock.now(),
): Promise<number> {
  const answer = await operatorClient(line, terminal)(getFromSocket("/bundle.json"));
  if (answer.status >= 400) return reportRefusal(terminal, answer);
  // "20260102T030405Z"
  const timestamp = new Date(now).toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const name = `addon-operator-bundle-${timestamp}`;
  const archive = await buildArchive(name, parseObject(answer.body) as Record<string, Json>, new Date(now));
  const [file = `${name}.tgz`] = line.args;
  if (file === "-") writeAll(1, archive);
  else {
    writeNewFile(file, archive);
    terminal.print(
      `${file}: ${Math.ceil(archive.length / 1024)} KiB. Review the archive before you share it\n`,
    );
  }
  return 0;
}

/** Writes a file that only this user may read. Throws ProblemError if it exists. */
function writeNewFile(file: string, archive: Buffer): void {
  try {
    writeFileSync(file, archive, { mode: 0o600, flag: "wx" });
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    const message = code === "EEXIST" ? "already exists" : `cannot be written (${code})`;
    throw new ProblemError({ file, message, remedy: "name another file, or - for standard output" });
  }
}

/** Builds a compressed tar archive with these files in one directory. Contents that are not text become JSON. */
async function buildArchive(
  dir: string,
  files: Readonly<Record<string, Json>>,
  mtime: Date,
): Promise<Buffer> {
  const { Header } = await import("tar");
  const blocks = Object.entries(files).flatMap(([name, content]) => {
    const text = typeof content === "string" ? content : `${JSON.stringify(content, undefined, 2)}\n`;
    const bytes = Buffer.from(text);
    const size = bytes.length;
    const header = new Header({ path: `${dir}/${name}`, type: "File", mode: 0o600, size, mtime });
    header.encode();
    // A tar archive consists of blocks of 512 bytes.
    const padding = Buffer.alloc((TAR_BLOCK - (bytes.length % TAR_BLOCK)) % TAR_BLOCK);
    return [header.block ?? Buffer.alloc(0), bytes, padding];
  });
  return gzipSync(Buffer.concat([...blocks, TAR_END]));
}
