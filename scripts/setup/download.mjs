// Official archives. Only what has a checksum in checksums.json is ever fetched, and nothing is used unchecked.
import { createHash } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:https";
import { join } from "node:path";
import { say, step } from "./progress.mjs";

const CONNECT_TIMEOUT_MS = 3000;
const arches = { x64: "amd64", arm64: "arm64" };
export const checksumsFile = new URL("checksums.json", import.meta.url);

/** The machine as the release sites name it: `linux-amd64`. */
export function machine(platform = process.platform, arch = process.arch) {
  return `${platform}-${arches[arch] ?? arch}`;
}

/** The release archive of each tool for a machine: `{ tool, url, member?, sha256 }`, only those with a pinned checksum. */
export function pinned(target = machine()) {
  return pinnedFor(checksums().artifacts, target);
}

/** checksums.json. */
export function checksums() {
  return JSON.parse(readFileSync(checksumsFile, "utf8"));
}

export function pinnedFor(artifacts, target) {
  const [os, arch] = target.split("-");
  const fill = (text) => text?.replaceAll("{os}", os).replaceAll("{arch}", arch);
  return artifacts
    .filter((one) => /^[0-9a-f]{64}$/.test(one.sha256?.[target] ?? ""))
    .map((one) => ({
      tool: one.tool,
      url: fill(one.url),
      member: fill(one.member),
      sha256: one.sha256[target],
    }));
}

/** True when the bytes have that SHA-256, in hex. */
export function matches(bytes, sha256) {
  return createHash("sha256").update(bytes).digest("hex") === sha256;
}

/** Fetches what it can of `missing` into `dir`; says why it could not and leaves the rest to the next way. */
export async function download(missing, dir, target = machine()) {
  for (const item of pinned(target).filter(({ tool }) => missing.includes(tool))) {
    try {
      say(`${item.tool}: ${item.url}`);
      await install(item, await fetchBytes(item.url), dir);
    } catch (error) {
      say(`${item.tool}: ${error.message}`);
      if (error.unreachable) return;
    }
  }
}

async function install(item, bytes, dir) {
  if (!matches(bytes, item.sha256)) throw new Error("the checksum is not the pinned one: not used");
  const work = mkdtempSync(join(dir, ".download-"));
  try {
    const archive = join(work, "archive");
    writeFileSync(archive, bytes);
    if (item.member) {
      const { ok, output } = await step(`unpack ${item.tool}`, "tar", {
        args: ["-xzf", archive, "-C", work, item.member],
      });
      if (!ok) throw new Error(output);
    }
    const file = item.member ? join(work, item.member) : archive;
    chmodSync(file, 0o755);
    renameSync(file, join(dir, item.tool));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Follows redirects; an error with `unreachable` means that this machine cannot reach the site at all. */
export function fetchBytes(url, hops = 5) {
  return new Promise((resolve, reject) => {
    const fail = (message, unreachable = false) => reject(Object.assign(new Error(message), { unreachable }));
    const request = get(url, (response) => {
      clearTimeout(timer);
      const { statusCode = 0, headers } = response;
      if (statusCode >= 300 && statusCode < 400 && headers.location && hops > 0) {
        response.resume();
        resolve(fetchBytes(new URL(headers.location, url).href, hops - 1));
        return;
      }
      if (statusCode !== 200) {
        response.resume();
        fail(`HTTP ${statusCode}`);
        return;
      }
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve(Buffer.concat(chunks)));
      response.on("error", (error) => fail(error.message));
    });
    const timer = setTimeout(
      () => request.destroy(new Error(`no answer within ${CONNECT_TIMEOUT_MS / 1000} s`)),
      CONNECT_TIMEOUT_MS,
    );
    request.setTimeout(30_000, () => request.destroy(new Error("the transfer stood still for 30 s")));
    request.on("error", (error) => (clearTimeout(timer), fail(error.message, true)));
  });
}
