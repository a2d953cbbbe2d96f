// The npm dependencies: installed when they are not what package-lock.json says.
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join, sep } from "node:path";
import { saysDiskFull } from "./fetch.mjs";
import { say, step } from "./progress.mjs";
import { own as ownTool } from "./tools.mjs";

/**
 * True when every package of the lock file is installed in that version (optional ones may be absent); without
 * `dev`, those that only checks and tests need may be absent too.
 */
export function dependenciesCurrent(root, { dev = true } = {}) {
  const wanted = packagesOf(join(root, "package-lock.json"));
  const installed = packagesOf(join(root, "node_modules", ".package-lock.json"));
  if (!wanted || !installed) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    if (path === "" || (entry.dev && !dev)) return true;
    const have = installed[path];
    return have ? have.version === entry.version : entry.optional === true || entry.devOptional === true;
  });
}

function packagesOf(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8")).packages;
  } catch {
    return undefined;
  }
}

/** The environment for npm: not the node that is about to be replaced. */
export function npmEnv(env) {
  const path = (env.PATH ?? "").split(delimiter).filter((dir) => !dir.endsWith(`node_modules${sep}.bin`));
  return { ...env, PATH: path.join(delimiter) };
}

function remedyOf(output) {
  return saysDiskFull(output)
    ? "The disk is full: make room, for npm's cache as well (npm config get cache), and run again."
    : "It needs the package registry: check the network and run again.";
}

export function isWritable(dir) {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** `npm ci` where needed. Throws with the end of npm's output when it fails. */
export async function installDependencies(root, env, { dev = true } = {}) {
  if (dependenciesCurrent(root, { dev })) return;
  if (!isWritable(root))
    throw new Error(
      `${root} cannot be written, and its node_modules does not match package-lock.json: copy the checkout to where you may write.`,
    );
  const args = ["ci", "--no-audit", "--no-fund", ...(dev ? [] : ["--omit=dev"])];
  const { ok, output } = await step("npm ci", "npm", { args, cwd: root, env: npmEnv(env) });
  if (!ok) throw new Error(`npm ci failed:\n${output}\n${remedyOf(output)}`);
  if (!ownTool("jq", env))
    say("no jq 1.6 or later on PATH: install it with the package manager of your system");
}
