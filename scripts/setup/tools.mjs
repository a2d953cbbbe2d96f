// Where each binary is: named by the user, in the cache, or on PATH. Looks only; `setup.mjs` gets what is missing.
import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve, sep } from "node:path";
import { cacheDir, root, toolNames, versions } from "./versions.mjs";

/**
 * A tool on PATH is used when it is of the same major version and not of an older minor one; kubectl may be one older.
 * The controller manager is not among them: it may not be newer than the API server.
 */
const ownTools = {
  etcd: { oldest: versions.etcd, names: ["etcd"], args: ["--version"] },
  "kube-apiserver": { oldest: versions.kubernetes, names: ["kube-apiserver"], args: ["--version"] },
  kubectl: { oldest: oneMinorLess(versions.kubernetes), names: ["kubectl"], args: ["version", "--client"] },
  helm: { oldest: versions.helm, names: ["helm"], args: ["version", "--short"] },
  helm3: { oldest: versions.helm3, names: ["helm3", "helm"], args: ["version", "--short"] },
  jq: { oldest: "1.6", names: ["jq"], args: ["--version"] },
};

function oneMinorLess(version) {
  const [major, minor] = version.split(".");
  return `${major}.${minor - 1}`;
}

/** What a program on PATH says of its version, by its path: asking takes a tenth of a second. */
const reported = new Map();

/** Variable that names one tool: the names the Kubernetes test tooling uses, and ours beside them. */
export function variableOf(tool) {
  return `TEST_ASSET_${tool.toUpperCase().replaceAll("-", "_")}`;
}

export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The first executable of that name on PATH, or undefined. */
export function onPath(name, env = process.env) {
  const dirs = (env.PATH ?? "").split(delimiter).filter((dir) => dir !== "");
  return dirs.map((dir) => resolve(dir, name)).find(isExecutable);
}

/** The tool on PATH when it is new enough; undefined otherwise, and with OWN_TOOLS=false. */
export function own(tool, env = process.env) {
  if (env.OWN_TOOLS === "false" || !(tool in ownTools)) return undefined;
  const { oldest, names, args } = ownTools[tool];
  const paths = names.map((name) => onPath(name, env)).filter((path) => path !== undefined);
  return paths.find((path) => newEnough(versionOf(path, args, env), oldest));
}

function versionOf(path, args, env) {
  if (!reported.has(path)) {
    const { stdout } = spawnSync(path, args, { env, encoding: "utf8", timeout: 5000 });
    reported.set(path, /\d+\.\d+/.exec(stdout ?? "")?.[0]);
  }
  return reported.get(path);
}

function newEnough(version = "", oldest) {
  const [major, minor] = version.split(".").map(Number);
  const [sameMajor, leastMinor] = oldest.split(".").map(Number);
  return major === sameMajor && minor >= leastMinor;
}

/**
 * Where the tools are, without getting any: `{ found: {name: path}, missing: [name] }`.
 * Order: `TEST_ASSET_<TOOL>` (a path, or a name on PATH), `KUBEBUILDER_ASSETS`, the cache, and what is on PATH and new
 * enough. Throws when the user names something that is not there.
 */
export function locate(env = process.env, names = toolNames) {
  const found = {};
  for (const tool of names) {
    const path =
      named(tool, env) ?? inDir(env.KUBEBUILDER_ASSETS, tool) ?? inDir(cacheDir(env), tool) ?? own(tool, env);
    if (path) found[tool] = path;
  }
  return { found, missing: names.filter((tool) => !(tool in found)) };
}

function named(tool, env) {
  const value = env[variableOf(tool)];
  if (!value) return undefined;
  const path = isAbsolute(value) || value.includes(sep) ? resolve(value) : onPath(value, env);
  if (path && isExecutable(path)) return path;
  throw new Error(
    `${variableOf(tool)}=${value}: no such executable. Correct it, or unset it to use the cache.`,
  );
}

function inDir(dir, tool) {
  const path = dir && join(resolve(dir), tool);
  return path && isExecutable(path) ? path : undefined;
}

/** Each tool's path by its name; throws when one is missing, saying what to run. */
export function tools(env = process.env, names = toolNames) {
  const { found, missing } = locate(env, names);
  if (missing.length > 0) throw new Error(`missing: ${missing.join(", ")}. Run "npm run setup" first.`);
  return found;
}

/** The same as environment: what another script or shell needs to use the same binaries. */
export function toolsEnv(found) {
  return Object.fromEntries(Object.entries(found).map(([tool, path]) => [variableOf(tool), path]));
}

/** A Node of version 24 or later: this one, or the one among the dependencies. Throws when there is none. */
export function modernNode() {
  if (Number(process.versions.node.split(".")[0]) >= 24) return process.execPath;
  const own = join(root, "node_modules", ".bin", "node");
  if (isExecutable(own)) return own;
  throw new Error(
    `Node ${process.versions.node} is too old and the dependencies hold no newer one: install Node 24.`,
  );
}
