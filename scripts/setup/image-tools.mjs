#!/usr/bin/env node
// helm and kubectl for the image, from their release sites, checked against checksums.json.
//   node scripts/setup/image-tools.mjs amd64|arm64 DIR
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { download, pinned } from "./download.mjs";
import { versions } from "./versions.mjs";

const TOOLS = ["helm", "kubectl"];
const [arch, dir] = process.argv.slice(2);
const target = `linux-${arch}`;

function refuse(message) {
  console.error(
    `${message}\nBuild with --build-arg TOOLS=context after \`npm run image:context\` to take them from the build context.`,
  );
  process.exit(1);
}

const known = new Set(pinned(target).map(({ tool }) => tool));
const unknown = TOOLS.filter((tool) => !known.has(tool));
if (unknown.length > 0) {
  const names = unknown.map((tool) => `${tool} ${versions[tool] ?? versions.kubernetes}`).join(", ");
  refuse(
    `No checksum is pinned for ${names} on ${target}, and nothing is used unchecked: run \`node scripts/setup/pin.mjs\` where there is internet.`,
  );
}
mkdirSync(dir, { recursive: true });
await download(TOOLS, dir, target);
const missing = TOOLS.filter((tool) => !existsSync(join(dir, tool)));
if (missing.length > 0) refuse(`Not to be had: ${missing.join(", ")}.`);
