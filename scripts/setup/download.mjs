// Tools from the release sites: nothing is used whose checksum is not the one that is pinned, or, for the few that have
// no pin, the one that the same site publishes.
import { createHash } from "node:crypto";
import {
  chmodSync,
  createReadStream,
  mkdtempSync,
  openSync,
  readSync,
  closeSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { fetchFile, fetchText, isDiskFull, megabytes, saysDiskFull, sizeOf } from "./fetch.mjs";
import { begin, say, step } from "./progress.mjs";
import { checksumIn, checksums, choose, machine, mirrored, releasesFor } from "./releases.mjs";

/**
 * Fetches what it can of `missing` into `dir`, all files at once; resolves to messages for what it could not.
 * `files` are those to choose from, `pinnedOnly` leaves out what has no pinned checksum. Throws only when the disk is full.
 */
export async function download(missing, dir, options = {}) {
  const { target = machine(), env = process.env, pinnedOnly = false, known = checksums() } = options;
  const { files = releasesFor(target, known) } = options;
  const usable = files.filter(({ checksum }) => checksum || !pinnedOnly);
  const results = await Promise.all(choose(missing, usable).map((file) => get(file, { missing, dir, env })));
  return results.filter((failure) => failure !== undefined);
}

async function get(release, { missing, dir, env }) {
  const file = { ...release, address: mirrored(release.url, env), name: release.url.split("/").at(-1) };
  try {
    const checksum = file.checksum ?? (await published(file, env));
    const path = await fetchChecked(file, { checksum, dir, env });
    await install(path, {
      file,
      dir,
      tools: Object.keys(file.tools).filter((tool) => missing.includes(tool)),
    });
    return undefined;
  } catch (error) {
    if (isDiskFull(error)) throw new Error(diskFull(dir), { cause: error });
    const failure = `${file.address}: ${error.message}`;
    say(failure);
    return failure;
  }
}

/** The checksum of a file that has no pinned one, which only an encrypted connection makes worth anything. */
async function published(file, env) {
  const list = mirrored(file.sums, env);
  if (!list.startsWith("https:"))
    throw new Error("no checksum of it is pinned, and the one of a site without TLS proves nothing");
  const text = await fetchText(list, env).catch((error) =>
    Promise.reject(new Error(`${list}: ${error.message}`)),
  );
  if (/^\s*</.test(text))
    throw new Error(`${list} is a web page, not a checksum: a portal or a proxy answered`);
  const checksum = checksumIn(text, file.name);
  if (!checksum) throw new Error(`no checksum of it is pinned, and none is published in ${list}`);
  say(`${file.name}: no checksum of it is pinned; the one that its own site publishes is taken (${list})`);
  return checksum;
}

/** Continues a part that an interrupted set-up left. If the result has the wrong checksum, fetches the file again, once. */
async function fetchChecked(file, { checksum, dir, env }) {
  const path = join(dir, `.part-${file.name}`);
  const resumed = sizeOf(path) > 0;
  await fetchWithProgress(file, path, env);
  if (await matches(path, checksum)) return path;
  const page = startOf(path).startsWith("<");
  rmSync(path, { force: true });
  if (resumed) return fetchChecked(file, { checksum, dir, env });
  throw new Error(
    page
      ? "a web page came instead of the file: a portal or a proxy answered"
      : `its checksum is not the ${file.checksum ? "pinned" : "published"} one: not used`,
  );
}

async function fetchWithProgress(file, path, env) {
  let reported = "";
  const end = begin(file.name, () => reported);
  let result = "failed";
  try {
    const onBytes = (have, all) => (reported = `${megabytes(have)}${all ? ` of ${megabytes(all)}` : ""}`);
    await fetchFile(file.address, path, { env, onBytes });
    result = megabytes(sizeOf(path));
  } finally {
    end(result);
  }
}

/** True when the file has that SHA-256 or SHA-512, in hex. */
export async function matches(path, checksum) {
  const hash = createHash(checksum.length === 64 ? "sha256" : "sha512");
  for await (const chunk of createReadStream(path)) hash.update(chunk);
  return hash.digest("hex") === checksum;
}

function startOf(path) {
  const file = openSync(path);
  try {
    const bytes = Buffer.alloc(64);
    return bytes.toString("utf8", 0, readSync(file, bytes)).trimStart();
  } finally {
    closeSync(file);
  }
}

/** Unpacked under a temporary name, so that an interrupted set-up leaves nothing that looks finished. */
async function install(path, { file, tools, dir }) {
  const work = mkdtempSync(join(dir, ".unpack-"));
  try {
    const members = tools.map((tool) => file.tools[tool]).filter((member) => member !== "");
    if (members.length > 0) await unpack(path, work, members);
    for (const tool of tools) {
      const from = file.tools[tool] === "" ? path : join(work, file.tools[tool]);
      chmodSync(from, 0o755);
      renameSync(from, join(dir, tool));
    }
    rmSync(path, { force: true });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function unpack(archive, dir, members) {
  const args = ["-xzf", archive, "-C", dir, ...members];
  const { ok, output } = await step(`unpack ${members.join(" ")}`, "tar", { args });
  const code = saysDiskFull(output) ? "ENOSPC" : undefined;
  if (!ok) throw Object.assign(new Error(`tar: ${output.trim()}`), { code });
}

export const diskFull = (dir) =>
  `The disk is full, or a quota or \`ulimit -f\` is reached: the tools need 1 GB in ${dir}. Make room, or export XDG_CACHE_HOME=DIR, and run again: what has come stays and is gone on with.`;
