#!/usr/bin/env node
// Fills checksums.json with what the release sites publish beside each file; for whoever raises a version.
//   node scripts/setup/pin.mjs      needs internet; prints what changed, to be reviewed with the version
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { checksums, checksumsFile, fetchBytes } from "./download.mjs";
import { say } from "./progress.mjs";

const TARGETS = ["linux-amd64", "linux-arm64", "darwin-arm64"];

/** The checksum of `file` in a list of them, or in a file that holds nothing but one; undefined when it is not there. */
export function checksumIn(text, file) {
  const lines = text.trim().split("\n");
  const line = lines.find((each) => each.trim().endsWith(file)) ?? (lines.length === 1 ? lines[0] : "");
  return /^[0-9a-f]{64}(?=\s|$)/.exec(line.trim())?.[0];
}

async function pin(artifact, target) {
  const [os, arch] = target.split("-");
  const url = artifact.url.replaceAll("{os}", os).replaceAll("{arch}", arch);
  const list = artifact.sums.replace("{url}", url);
  try {
    return checksumIn((await fetchBytes(list)).toString("utf8"), url.split("/").at(-1));
  } catch (error) {
    // Not every tool is released for every machine.
    say(`${artifact.tool} for ${target}: ${error.message}`);
    return undefined;
  }
}

async function main() {
  const content = checksums();
  for (const artifact of content.artifacts) {
    for (const target of TARGETS) {
      const found = await pin(artifact, target);
      if (found === undefined || found === artifact.sha256[target]) continue;
      artifact.sha256[target] = found;
      say(`${artifact.tool} for ${target}: ${found}`);
    }
  }
  writeFileSync(checksumsFile, `${JSON.stringify(content, null, 2)}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) await main();
