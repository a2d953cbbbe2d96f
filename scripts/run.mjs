#!/usr/bin/env node
// Makes the checkout ready, then runs one of these scripts by a Node that is new enough. Plain Node 20, no dependencies.
//   node scripts/run.mjs test.mjs [ARGUMENT…]
// (`setup.mjs && node test.mjs` would not do: a shell remembers where `node` was before the dependencies brought theirs.)
import { spawn } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { setup } from "./setup.mjs";
import { modernNode } from "./setup/tools.mjs";
import { toolNames } from "./setup/versions.mjs";

/** Scripts that need packages alone, or get their tools themselves: none that only checks and tests need. */
const PACKAGES_ALONE = new Set(["build.mjs", "image-context.mjs", "e2e.mjs"]);

/** Scripts that need all packages, and no tools. */
const NO_TOOLS = new Set(["docs.mjs", "check-text.mjs"]);

/** Makes the checkout ready for the script. `npm test` leaves the tests in a browser to the nightly run. */
function setupFor(script, args) {
  if (PACKAGES_ALONE.has(script)) return setup([], process.env, { dev: false });
  if (NO_TOOLS.has(script)) return setup([]);
  return setup(toolNames, process.env, { browser: script !== "test.mjs" || args.includes("--nightly") });
}

/** Runs `script`, a path below `scripts/`, with our streams and ends as it ends. */
export function runScript(script, args) {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(modernNode(), [path, ...args], { stdio: "inherit" });
  // A terminal sends Ctrl-C to both: the script ends in its own time.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.once("exit", (code) => process.exit(code ?? 1));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [script, ...args] = process.argv.slice(2);
  try {
    await setupFor(script, args);
    runScript(script, args);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
