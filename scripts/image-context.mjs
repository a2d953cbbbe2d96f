#!/usr/bin/env node
// Fills the build context of the image, so that it builds without internet: dist/ and build/bin/<arch>/{helm,kubectl}.
//   npm run image:context       then docker build --build-arg BUNDLE=context --build-arg TOOLS=context .
import { chmodSync, copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { bundle } from "./build.mjs";
import { setup } from "./setup.mjs";
import { tools } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const arches = { x64: "amd64", arm64: "arm64" };

if (process.platform !== "linux")
  throw new Error("the binaries of this machine are not those of a Linux image");
const arch = arches[process.arch] ?? process.arch;
const target = join(root, "build", "bin", arch);
const names = ["helm", "kubectl"];
// What the user has on PATH is nothing for an image.
const env = { ...process.env, OWN_TOOLS: "false" };
await setup(names, env, { dev: false });
const found = tools(env, names);
mkdirSync(target, { recursive: true });
for (const name of names) {
  copyFileSync(found[name], join(target, name));
  chmodSync(join(target, name), 0o755);
}
await bundle();
console.log(`dist/ and build/bin/${arch}/ are ready`);
