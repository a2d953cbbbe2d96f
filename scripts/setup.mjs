#!/usr/bin/env node
// Makes a checkout ready: npm dependencies, and the tools that are missing: a Kubernetes control plane, kubectl, helm 4 and helm 3.
//   node scripts/setup.mjs                 gets what is missing; can be interrupted and run again
//   node scripts/setup.mjs --print-env     prints where the tools are, as shell assignments
//   node scripts/setup.mjs --print-urls    prints the addresses of all files for this machine, to fill a mirror
// RELEASE_MIRROR=URL fetches from below URL (host and path as they are); HTTPS_PROXY and NO_PROXY count.
import { accessSync, constants, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { getBrowser } from "./setup/browser.mjs";
import { download } from "./setup/download.mjs";
import { build, findGo } from "./setup/gobuild.mjs";
import { lock } from "./setup/lock.mjs";
import { dependenciesCurrent, installDependencies } from "./setup/npm.mjs";
import { say } from "./setup/progress.mjs";
import { changed, record, removeChanged } from "./setup/recorded.mjs";
import { machine, releasesFor } from "./setup/releases.mjs";
import { locate, modernNode, tools, toolsEnv, variableOf } from "./setup/tools.mjs";
import { cacheDir, cacheRoot, root, toolNames, versions } from "./setup/versions.mjs";

export { tools };

/**
 * Brings the dependencies and the `wanted` tools into place; throws one readable error when it cannot. Without `dev`,
 * only what it takes to build and run the operator: half of the time. Without `browser`, no Chromium is installed.
 */
export async function setup(wanted = toolNames, env = process.env, { dev = true, browser = dev } = {}) {
  if (browser && wanted === toolNames) getBrowser(env);
  const isCurrent = dependenciesCurrent(root, { dev }) && missingOf(wanted, env).length === 0;
  if (isCurrent && (await changed(cacheDir(env), cached(wanted, env))).length === 0) return;
  makeCache(env);
  const wait = (pid) => say(`another set-up (process ${pid}) is at work: waiting for it`);
  const release = await lock(join(cacheRoot(env), "setup.lock"), wait);
  try {
    // Both to their end, so that nothing is left running when one of them fails.
    const results = await Promise.allSettled([
      installDependencies(root, env, { dev }),
      getTools(wanted, env),
    ]);
    const failures = results
      .filter(({ status }) => status === "rejected")
      .map(({ reason }) => reason.message);
    if (failures.length > 0) throw new Error(failures.join("\n\n"));
  } finally {
    release();
  }
}

const missingOf = (wanted, env) => locate(env, wanted).missing;

/** The tools that are used from the cache, and not from where the user or PATH names them. */
function cached(wanted, env) {
  const { found } = locate(env, wanted);
  return wanted.filter((tool) => found[tool] === join(cacheDir(env), tool));
}

function makeCache(env) {
  const dir = cacheDir(env);
  try {
    mkdirSync(dir, { recursive: true });
    accessSync(dir, constants.W_OK);
  } catch (error) {
    throw new Error(
      `${dir}, where the tools are kept, cannot be written (${error.code}): export XDG_CACHE_HOME=DIR`,
      {
        cause: error,
      },
    );
  }
}

async function getTools(wanted, env) {
  const dir = cacheDir(env);
  const missing = () => missingOf(wanted, env);
  await removeChanged(dir, cached(wanted, env));
  if (missing().length === 0) return;
  clearLeftovers(dir);
  const asked = missing();
  try {
    await fetchOrBuild(missing, dir, env);
  } finally {
    const got = cached(asked, env);
    if (got.length > 0) await record(dir, got);
  }
}

async function fetchOrBuild(missing, dir, env) {
  const failures = await download(missing(), dir, { env });
  if (missing().length === 0) return;
  const go = findGo(env);
  if (go) failures.push(...(await build({ go, missing: missing(), dir, env })));
  else failures.push("There is no Go on this machine to build them with.");
  if (missing().length > 0) throw new Error(remedies(missing(), failures));
}

/** Only an interrupted set-up leaves these; the lock says that no other one is at work. Partial downloads are continued. */
function clearLeftovers(dir) {
  for (const name of readdirSync(dir).filter((entry) => /^\.(build|unpack)-/.test(entry)))
    rmSync(join(dir, name), { recursive: true, force: true });
}

function remedies(missing, failures) {
  const hosts = [...new Set(releasesFor(machine()).map(({ url }) => new URL(url).host))];
  return [
    `Not to be had: ${missing.join(", ")}.`,
    ...failures.map((failure) => `  ${failure}`),
    "One of these helps, then run the same command again:",
    `  - download: let this machine reach ${hosts.join(", ")}, through HTTPS_PROXY, or set RELEASE_MIRROR to a mirror of them`,
    "    (`node scripts/setup.mjs --print-urls` lists the files);",
    "  - Go: install Go 1.26 or later (https://go.dev/dl) with access to a Go module proxy: the tools are then built from source;",
    `  - your own: get ${missing.map(versioned).join(", ")}`,
    `    and name each by its path (${variableOf(missing[0])}=…), or their directory: export KUBEBUILDER_ASSETS=DIR`,
  ].join("\n");
}

const versioned = (tool) => `${tool} ${versions[tool] ?? versions.kubernetes}`;

async function main([option, ...more]) {
  const known = ["--print-env", "--print-urls"];
  const unknown = [option, ...more].find((arg, at) => arg !== undefined && (at > 0 || !known.includes(arg)));
  if (unknown) throw new Error(`unknown argument ${unknown}; known: ${known.join(" or ")}`);
  if (option === "--print-urls") {
    for (const { url } of releasesFor(machine())) console.log(url);
    return;
  }
  await setup();
  modernNode();
  if (option !== "--print-env") return;
  for (const [name, path] of Object.entries(toolsEnv(tools()))) console.log(`export ${name}='${path}'`);
}

if (
  process.argv[1] &&
  statSync(process.argv[1], { throwIfNoEntry: false }) &&
  import.meta.url === pathToFileURL(process.argv[1]).href
)
  main(process.argv.slice(2)).catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
