#!/usr/bin/env node
// Makes a checkout ready to test: npm dependencies, a Kubernetes control plane, kubectl, helm 4 and helm 3.
//   node scripts/setup.mjs               gets what is missing; can be interrupted and run again
//   node scripts/setup.mjs --print-env   prints where the tools are, as shell assignments
import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { download } from "./setup/download.mjs";
import { build, findGo } from "./setup/gobuild.mjs";
import { lock } from "./setup/lock.mjs";
import { dependenciesCurrent, installDependencies } from "./setup/npm.mjs";
import { say } from "./setup/progress.mjs";
import { locate, modernNode, tools, toolsEnv } from "./setup/tools.mjs";
import { cacheDir, cacheRoot, root, versions } from "./setup/versions.mjs";

export { tools };

/** Brings everything into place; throws one readable error when it cannot. */
export async function setup(env = process.env) {
  if (dependenciesCurrent(root) && locate(env).missing.length === 0) return;
  const wait = (pid) => say(`another set-up (process ${pid}) is at work: waiting for it`);
  const release = await lock(join(cacheRoot(env), "setup.lock"), wait);
  try {
    await installDependencies(root, env);
    await getTools(env);
  } finally {
    release();
  }
}

async function getTools(env) {
  const dir = cacheDir(env);
  if (locate(env).missing.length === 0) return;
  mkdirSync(dir, { recursive: true });
  clearLeftovers(dir);
  await download(locate(env).missing, dir);
  const { missing } = locate(env);
  if (missing.length === 0) return;
  const go = findGo(env);
  if (go && missing.includes("kube-apiserver"))
    say("building Kubernetes takes about five minutes on two cores, once");
  const failures = go ? await build({ go, missing, dir, env }) : ["There is no Go on this machine."];
  if (locate(env).missing.length > 0) throw new Error(remedies(locate(env).missing, failures));
}

/** Only an interrupted set-up leaves these; the lock says that no other one is at work. */
function clearLeftovers(dir) {
  for (const name of readdirSync(dir).filter((entry) => /^\.(build|download)-/.test(entry)))
    rmSync(join(dir, name), { recursive: true, force: true });
}

function remedies(missing, failures) {
  return [
    `Not to be had: ${missing.join(", ")}.`,
    ...failures,
    "Either of these helps, then run the same command again:",
    "  - install Go 1.26 or later (https://go.dev/dl) with access to a Go module proxy: the tools are then built from source;",
    `  - get Kubernetes ${versions.kubernetes}, etcd ${versions.etcd}, helm ${versions.helm} and helm ${versions.helm3} (as helm3) on a machine with internet,`,
    "    put the binaries into one directory and name it: export KUBEBUILDER_ASSETS=DIR",
  ].join("\n");
}

async function main(args) {
  const unknown = args.filter((arg) => arg !== "--print-env");
  if (unknown.length > 0) throw new Error(`unknown argument ${unknown[0]}; known: --print-env`);
  await setup();
  modernNode();
  if (!args.includes("--print-env")) return;
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
