// Where each binary is: named by the user, or in the cache. Looks only; `setup.mjs` gets what is missing.
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve, sep } from "node:path";
import { cacheDir, root, toolNames } from "./versions.mjs";

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

/**
 * Where the tools are, without getting any: `{ found: {name: path}, missing: [name] }`.
 * Order: `TEST_ASSET_<TOOL>` (a path, or a name on PATH), `KUBEBUILDER_ASSETS`, the cache.
 * Throws when the user names something that is not there.
 */
export function locate(env = process.env) {
  const found = {};
  for (const tool of toolNames) {
    const path = named(tool, env) ?? inDir(env.KUBEBUILDER_ASSETS, tool) ?? inDir(cacheDir(env), tool);
    if (path) found[tool] = path;
  }
  return { found, missing: toolNames.filter((tool) => !(tool in found)) };
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

/** Every tool's path by name; throws when one is missing, saying what to run. */
export function tools(env = process.env) {
  const { found, missing } = locate(env);
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
