// What `--world` finds in a directory: modules, and directories of hooks that belong to no module.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";

const PARTS = ["Chart.yaml", "templates", "hooks", "openapi", "enabled", "module.yaml", "addon.yaml", "crds"];
/** A repository's own folders that hold no modules. */
const SKIPPED = new Set([".git", "node_modules", "vendor", "images"]);
const IS_HOOK = /BINDING_CONTEXT_PATH|shell_lib|frameworks\/shell|hook::run|configVersion/;

/** `enabled-module` → `enabledModule`, as the key of its section. */
export const camelCase = (name) => name.replaceAll(/-(.)/g, (_, letter) => letter.toUpperCase());

/**
 * Units below `dir`: `{ kind: "module" | "hooks", dir, name, moduleName }`. A module holds at least two of the parts of
 * one, among them a chart or hooks; a directory of hooks holds a script that speaks of binding contexts.
 */
export function findUnits(dir) {
  if (isModule(dir)) return [moduleAt(dir)];
  const entries = readdirSync(dir, { withFileTypes: true });
  const isHooks = hooksIn(dir).length > 0;
  const below = entries.filter((entry) => entry.isDirectory() && !SKIPPED.has(entry.name));
  if (isHooks) return [{ kind: "hooks", dir, name: `${basename(join(dir, ".."))}/${basename(dir)}` }];
  return below.flatMap(({ name }) => findUnits(join(dir, name)));
}

function isModule(dir) {
  const parts = PARTS.filter((part) => existsSync(join(dir, part)));
  const isNumbered = /^\d+-/.test(basename(dir));
  const makesSomething = parts.some((part) => ["Chart.yaml", "templates", "hooks"].includes(part));
  return (
    makesSomething &&
    (isNumbered ||
      parts.some((part) => ["hooks", "openapi", "enabled", "module.yaml", "addon.yaml"].includes(part))) &&
    parts.length > (isNumbered ? 0 : 1)
  );
}

function moduleAt(dir) {
  const name =
    nameIn(join(dir, "module.yaml")) ?? nameIn(join(dir, "Chart.yaml")) ?? basename(dir).replace(/^\d+-/, "");
  // A checkout may be called after its owner, too: `owner+name`.
  const ownName = name.slice(name.lastIndexOf("+") + 1).toLowerCase();
  const moduleName = /^\d+-/.test(basename(dir)) ? basename(dir).replace(/^\d+-/, "") : ownName;
  return { kind: "module", dir, name: moduleName, moduleName };
}

function nameIn(file) {
  if (!existsSync(file)) return undefined;
  return /^name:\s*["']?([a-z0-9-]+)/m.exec(readFileSync(file, "utf8"))?.[1];
}

/** The hooks directly in a directory. */
export const hooksIn = (dir) =>
  readdirSync(dir, { withFileTypes: true })
    .filter((entry) => entry.isFile() && isHook(join(dir, entry.name)))
    .map(({ name }) => join(dir, name));

/** An executable beside hooks that is none, as a build script: the operator does not run it with --config. */
export const isOtherScript = (file) => {
  const { mode, isFile } = { mode: statSync(file).mode, isFile: statSync(file).isFile() };
  return isFile && (mode & 0o111) !== 0 && !isHook(file);
};

function isHook(file) {
  if (statSync(file).size > 200_000) return false;
  const text = readFileSync(file, "utf8");
  return text.startsWith("#!") && IS_HOOK.test(text);
}
