// What is measured: the bundle of a checkout with the environment of its image.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root } from "../setup/versions.mjs";

/** What the Dockerfile of the checkout `dir` sets for the operator alone. */
export function imageEnvironment(dir) {
  const text = readFileSync(join(dir, "Dockerfile"), "utf8").replaceAll("\\\n", " ");
  const assigned = [...text.matchAll(/^ENV (.*)$/gm)].flatMap(([, line]) => [
    ...line.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g),
  ]);
  const all = Object.fromEntries(assigned.map(([, name, quoted, plain]) => [name, quoted ?? plain]));
  const names = all.ADDON_OPERATOR_OWN_VARIABLES?.split(",") ?? [];
  return Object.fromEntries(["ADDON_OPERATOR_OWN_VARIABLES", ...names].map((name) => [name, all[name]]));
}

/** The program in the checkout `dir`, built before, as its launcher runs it. */
export function programOf(dir) {
  return { bundle: join(dir, "dist", "addon-operator"), env: imageEnvironment(dir) };
}

/** Builds the commit `rev` in a temporary worktree, which `remove` removes. */
export function buildRevision(rev) {
  const dir = join(mkdtempSync(join(tmpdir(), "bench-revision-")), "checkout");
  const remove = () => {
    git("worktree", "remove", "--force", dir);
    rmSync(join(dir, ".."), { recursive: true, force: true });
  };
  git("worktree", "add", "--quiet", "--detach", dir, rev);
  try {
    providePackages(dir);
    run(process.execPath, ["scripts/build.mjs"], dir);
    return { ...programOf(dir), remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Packages of this checkout, unless the commit has others. */
function providePackages(dir) {
  const lock = (at) => readFileSync(join(at, "package-lock.json"), "utf8");
  if (lock(dir) === lock(root)) symlinkSync(join(root, "node_modules"), join(dir, "node_modules"));
  else run("npm", ["ci", "--no-audit", "--no-fund"], dir);
}

const git = (...args) => run("git", args, root);

/** Output goes to stderr: stdout is for figures. */
function run(file, args, cwd) {
  execFileSync(file, args, { cwd, stdio: ["ignore", 2, 2] });
}
