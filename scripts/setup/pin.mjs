#!/usr/bin/env node
// Writes checksums.json anew with what the release sites publish for the versions in use; for whoever raises a version.
//   node scripts/setup/pin.mjs          needs internet; prints what changed, to be reviewed with the version
// With RELEASE_MIRROR=URL it is what that mirror publishes: so builds of one's own are pinned in a checkout.
import { writeFileSync } from "node:fs";
import { fetchText } from "./fetch.mjs";
import { say } from "./progress.mjs";
import { checksumIn, checksums, checksumsFile, mirrored, releasesFor } from "./releases.mjs";

const TARGETS = ["linux-amd64", "linux-arm64", "darwin-arm64", "darwin-amd64"];

/** Undefined where nothing is published: not every tool is released for every machine. */
async function published({ url, sums }) {
  try {
    return checksumIn(await fetchText(mirrored(sums)), url.split("/").at(-1));
  } catch (error) {
    say(`${sums}: ${error.message}`);
    return undefined;
  }
}

const before = checksums();
const after = {};
for (const release of TARGETS.flatMap((target) => releasesFor(target))) {
  const address = release.url.slice("https://".length);
  const found = await published(release);
  if (found && found !== before[address]) say(`${address}: ${found}`);
  if (found ?? before[address]) after[address] = found ?? before[address];
}
writeFileSync(checksumsFile, `${JSON.stringify(after, Object.keys(after).toSorted(), 2)}\n`);
