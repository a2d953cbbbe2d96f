#!/usr/bin/env node
// Runs the demo and writes what it prints, when it prints it, into .github/demo.svg, the picture of README.md.
//   node scripts/run.mjs picture.mjs        on a quiet machine: it shows how long things take
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { svgOf } from "./picture/render.mjs";
import { root } from "./setup/versions.mjs";

const command = "npm run demo -- --once";

/** Lines with the time of each; throws when a step did not come true. */
async function record() {
  const from = performance.now();
  const demo = execa(process.execPath, [join(root, "scripts", "demo", "run.mjs"), "--once"], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
    reject: false,
  });
  const recording = [{ text: `$ ${command}`, at: 0 }];
  for await (const text of demo) recording.push({ text, at: performance.now() - from });
  const { exitCode } = await demo;
  if (exitCode !== 0) throw new Error(`the demo ended with ${exitCode}: no picture is made`);
  return recording;
}

writeFileSync(join(root, ".github", "demo.svg"), svgOf(await record(), `A terminal: ${command}`));
