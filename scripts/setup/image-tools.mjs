#!/usr/bin/env node
// helm and kubectl for the image: from their release sites where checksums.json has their checksum, else built with Go
// from modules that go.sum pins.
//   node scripts/setup/image-tools.mjs amd64|arm64 DIR
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { download } from "./download.mjs";
import { build, findGo } from "./gobuild.mjs";
import { releasesFor } from "./releases.mjs";
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

const pinned = releasesFor(target).filter(({ checksum }) => checksum);
const known = TOOLS.filter((tool) => pinned.some(({ tools }) => tool in tools));
const unknown = TOOLS.filter((tool) => !known.includes(tool));
mkdirSync(dir, { recursive: true });
if (unknown.length > 0) {
  const names = unknown.map((tool) => `${tool} ${versions[tool] ?? versions.kubernetes}`).join(", ");
  const without = `No checksum is pinned for ${names} on ${target} (\`node scripts/setup/pin.mjs\` where there is internet)`;
  const go = findGo(process.env);
  if (!go) refuse(`${without}, and there is no Go to build it.`);
  const env = { ...process.env, GOOS: "linux", GOARCH: arch };
  const failures = await build({ go, missing: unknown, dir, env });
  if (failures.length > 0) refuse(`${without}, and building it failed:\n${failures.join("\n")}`);
}
const failures = await download(known, dir, { target, pinnedOnly: true });
const missing = TOOLS.filter((tool) => !existsSync(join(dir, tool)));
if (missing.length > 0) refuse(`Not to be had: ${missing.join(", ")}.\n${failures.join("\n")}`);
