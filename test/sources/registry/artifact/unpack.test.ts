import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Header, Pax, type HeaderData } from "tar";
import { expect, it } from "vitest";

import { LAYER_LIMITS, unpackLayer } from "../../../../src/sources/registry/artifact/unpack.ts";
import { tempDir } from "./lab.ts";

type Entry = HeaderData & { readonly content?: string };
const BLOCK = 512;

function block({ content = "", ...data }: Entry): Buffer {
  const size = data.size ?? Buffer.byteLength(content);
  const header = Buffer.alloc(BLOCK);
  new Header({ type: "File", mode: 0o644, ...data, size } as HeaderData).encode(header);
  const body = Buffer.alloc(Math.ceil(Buffer.byteLength(content) / BLOCK) * BLOCK);
  body.write(content);
  return Buffer.concat([header, body]);
}

const archive = (...parts: (Entry | Buffer)[]): Buffer =>
  gzipSync(
    Buffer.concat([
      ...parts.map((each) => (Buffer.isBuffer(each) ? each : block(each))),
      Buffer.alloc(2 * BLOCK),
    ]),
    { level: 1 },
  );

/** Everything below a directory, with modes and contents. */
const listed = (dir: string): string[] =>
  readdirSync(dir, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((name) => {
      const stats = statSync(join(dir, name));
      return `${name} ${stats.mode.toString(8)} ${stats.isFile() ? readFileSync(join(dir, name), "utf8") : ""}`;
    });

/** Unpacks a layer, as a file and from memory, which makes no difference; returns the directory. */
async function unpack(bytes: Buffer, isReadOnly = false): Promise<string> {
  const dir = tempDir();
  const layer = join(dir, "layer");
  writeFileSync(layer, bytes);
  const attempt = async (from: string | Buffer, target: string): Promise<string> => {
    const error = await unpackLayer(from, target, isReadOnly).catch(String);
    const left = [target, `${target}.part`].filter((each) => existsSync(each));
    return error === undefined ? listed(target).join("\n") : `${error} ${left.join()}`;
  };
  const target = join(dir, "module");
  const outcome = await attempt(layer, target);
  expect(await attempt(bytes, join(dir, "memory"))).toBe(outcome);
  if (!existsSync(target)) throw new Error(outcome);
  return target;
}

const GOOD: Entry = { path: "Chart.yaml", content: "name: web\n" };
const deep = `${"a/".repeat(LAYER_LIMITS.depth)}b`;
const pax = (path: string): Buffer => new Pax({ path }).encode();

const globalPax = (path: string): Buffer => new Pax({ path }, true).encode();

/** A file whose header names a type by this letter. */
function ofType(letter: string): Buffer {
  const bytes = block({ path: "a", content: "x" });
  bytes.write(letter, 156);
  bytes.fill(" ", 148, 156);
  const sum = bytes.subarray(0, BLOCK).reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return bytes;
}

/** A file whose name has a byte that is no UTF-8. */
function undecodable(): Buffer {
  const bytes = block({ path: "r?.txt", content: "x" });
  bytes[1] = 0xff;
  bytes.fill(" ", 148, 156);
  const sum = bytes.subarray(0, BLOCK).reduce((total, byte) => total + byte, 0);
  bytes.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return bytes;
}

it("unpacks files and directories, and leaves owner and other modes out", async () => {
  const dir = await unpack(
    archive({ path: "hooks/", type: "Directory" }, { path: "hooks/a", mode: 0o4755 }, GOOD),
  );
  expect(readFileSync(join(dir, "Chart.yaml"), "utf8")).toBe("name: web\n");
});

it.each<[string, readonly (Entry | Buffer)[], string]>([
  ["a symbolic link", [{ path: "a", type: "SymbolicLink", linkpath: "Chart.yaml" }], "is a SymbolicLink"],
  ["a hard link", [{ path: "a", type: "Link", linkpath: "Chart.yaml" }], "is a Link"],
  ["a device", [{ path: "a", type: "CharacterDevice" }], "is a CharacterDevice"],
  [
    "a file with the target of a link",
    [new Pax({ linkpath: "/etc" }).encode(), { path: "a" }],
    "is a file with",
  ],
  ["a drive", [{ path: "c:a" }], "begins as a path with a drive"],
  ["a FIFO", [{ path: "a", type: "FIFO" }], "is a FIFO"],
  ["a block device", [{ path: "a", type: "BlockDevice" }], "is a BlockDevice"],
  ["a sparse file", [ofType("S")], "has a type or a header that is not allowed"],
  ["a type that nobody knows", [ofType("Q")], "has a type or a header that is not allowed"],
  ["a whiteout", [{ path: "a/.wh.b" }], "is a whiteout"],
  ["an absolute path", [{ path: "/etc/passwd" }], "is no plain path"],
  ["..", [{ path: "a/../../b" }], "is no plain path"],
  ["a path of an extended header", [pax("../b"), { path: "c" }], "is no plain path"],
  ["a backslash", [{ path: "a\\b" }], "has a character"],
  ["an escape sequence", [{ path: "a\u001b[2Jb" }], "has a character"],
  ["a line end", [{ path: "a\nb" }], "has a character"],
  ["a change of the text direction", [pax("a\u202eb"), { path: "c" }], "has a character"],
  ["a git repository", [{ path: ".git/config" }], "is of a git repository: push the module without .git"],
  ["a git repository in capitals", [{ path: "a/.GIT" }], "is of a git repository"],
  ["an extended header of 1 MiB", [pax("n/".repeat(2 ** 19)), { path: "n" }], "has a type or a header"],
  ["an empty name", [{ path: "a//b" }], "is no plain path"],
  [".", [{ path: "./a" }], "is no plain path"],
  ["a long name", [pax("n".repeat(300)), { path: "n" }], "has a name that is too long"],
  ["a long path", [pax(`${"n".repeat(200)}/`.repeat(11) + "b"), { path: "n" }], "is too long"],
  ["a deep path", [pax(deep), { path: "n" }], "is too deep"],
  ["a path twice", [GOOD, GOOD], "occurs twice"],
  ["names that differ in letter case", [GOOD, { path: "chart.yaml" }], "occurs twice"],
  ["names that differ in composition", [{ path: "\u00e9" }, { path: "e\u0301" }], "occurs twice"],
  [
    "directories that differ in letter case",
    [{ path: "a/x" }, { path: "A/y" }],
    "differs only in letter case",
  ],
  [
    "a directory and a path below it that differ in letter case",
    [{ path: "A/", type: "Directory" }, { path: "a/b" }],
    "differs only in letter case",
  ],
  [
    "the same the other way round",
    [{ path: "a/b" }, { path: "A/", type: "Directory" }],
    "is also the directory",
  ],
  ["bytes that are no UTF-8", [undecodable()], "has a character"],
  ["a very deep path", [pax(`${"a/".repeat(30_000)}b`), { path: "n" }], "is too deep"],
  [
    "more directories than entries are allowed",
    Array.from({ length: 300 }, (_, number) => ({ path: `${number}/${"d/".repeat(80)}f` })),
    "is below one of more than 20000 directories",
  ],
  ["a file below a file", [{ path: "a" }, { path: "a/b" }], "is below a file"],
  ["a file in place of a directory", [{ path: "a/b" }, { path: "a" }], "is also the directory"],
  ["a file that is too large", [{ path: "a", size: LAYER_LIMITS.file + 1 }], "is larger than 64 MiB"],
])("refuses %s before anything is written", async (_, entries, message) => {
  await expect(unpack(archive(GOOD, { path: "z" }, ...entries))).rejects.toThrow(message);
});

it("refuses an archive that ends in the middle, garbage, and a damaged gzip", async () => {
  const good = archive({ path: "a", content: "x".repeat(5000) });
  await expect(unpack(good.subarray(0, good.length - 20))).rejects.toThrow("unexpected end of file");
  await expect(unpack(gzipSync(Buffer.alloc(4 * BLOCK, 7)))).rejects.toThrow("checksum failure");
  await expect(unpack(Buffer.from("no gzip"))).rejects.toThrow(
    "NotVerifiedError: its archive is refused: incorrect header check",
  );
});

/** A member of a gzip file with zeros of the largest size of a file: to compress more of them takes seconds. */
const ZEROS = gzipSync(Buffer.alloc(LAYER_LIMITS.file), { level: 1 });
/** So many of them are as large as an archive may become. */
const FULL = Array.from({ length: LAYER_LIMITS.unpacked / LAYER_LIMITS.file }, () => ZEROS);

/** Unpacks a layer that is a file. */
async function unpackFile(...members: Buffer[]): Promise<void> {
  const layer = join(tempDir(), "layer");
  writeFileSync(layer, Buffer.concat(members));
  await unpackLayer(layer, join(tempDir(), "module"));
}

it("reads what follows the end mark of an archive, and refuses too much of it", async () => {
  const dir = await unpack(archive(GOOD, Buffer.alloc(2 * BLOCK), Buffer.alloc(1 << 20)));
  expect(readFileSync(join(dir, "Chart.yaml"), "utf8")).toBe("name: web\n");
  await expect(unpackFile(archive(GOOD), ...FULL)).rejects.toThrow("larger than 256 MiB when unpacked");
});

it("refuses what becomes too large, and too many entries", async () => {
  const files = FULL.flatMap((content, at) => [
    gzipSync(block({ path: `f${at}`, size: LAYER_LIMITS.file })),
    content,
  ]);
  await expect(unpackFile(...files)).rejects.toThrow("larger than 256 MiB when unpacked");
  const many = Array.from({ length: LAYER_LIMITS.entries + 1 }, (_, index) => ({ path: `f${index}` }));
  await expect(unpack(archive(...many))).rejects.toThrow("more than 20000 entries");
});

it("reads no path in a global header", async () => {
  expect(readdirSync(await unpack(archive(globalPax("../b"), { path: "c" })))).toEqual(["c"]);
});

it("refuses 10 GiB of zeros in 10 MiB, made of many members", async () => {
  const bytes = Buffer.concat(Array.from({ length: 160 }, () => ZEROS));
  const unpacked = unpackLayer(bytes, join(tempDir(), "module"));
  await expect(unpacked).rejects.toThrow("larger than 256 MiB when unpacked");
});

it("refuses an archive that is compressed twice, however it begins", async () => {
  const twice = gzipSync(archive(GOOD));
  await expect(unpack(twice)).rejects.toThrow("it is compressed twice");
  const [head, tail] = [archive(GOOD).subarray(0, 1), archive(GOOD).subarray(1)];
  const inPieces = Buffer.concat([gzipSync(head), gzipSync(tail)]);
  await expect(unpack(inPieces)).rejects.toThrow("it is compressed twice");
});

it("leaves alone what comes after the end of the archive", async () => {
  const dir = await unpack(Buffer.concat([archive(GOOD), archive({ path: "evil" })]));
  expect(readdirSync(dir)).toEqual(["Chart.yaml"]);
});

it("takes the right to write from files alone, where nobody may change them", async () => {
  const dir = await unpack(
    archive({ path: "d/", type: "Directory" }, { path: "d/a", mode: 0o755 }, { path: "d/b", mode: 0o644 }),
    true,
  );
  const modes = ["d", "d/a", "d/b"].map((name) => statSync(join(dir, name)).mode & 0o777);
  expect(modes).toEqual([0o755, 0o555, 0o444]);
});

it("drops setuid, setgid and the sticky bit, and who may write", async () => {
  const dir = await unpack(archive({ path: "a", mode: 0o7777 }, { path: "b", mode: 0o7066 }));
  expect(["a", "b"].map((name) => statSync(join(dir, name)).mode & 0o7777)).toEqual([0o755, 0o644]);
});
