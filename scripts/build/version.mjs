// What a build calls itself: the version alone only for a build of its release tag.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * The version of a build of the checkout `root`: `1.2.3` of an unchanged checkout of the tag v1.2.3, else
 * `1.2.3-dev+COMMIT`, and `1.2.3-dev` without git. Where there is no repository, as in an image build, the variables
 * BUILD_VERSION and BUILD_REVISION say what is built.
 */
export function buildVersion(root, env = process.env) {
  if (env.BUILD_VERSION) return env.BUILD_VERSION;
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const tag = `v${version}`;
  if (git(root, "describe", "--tags", "--exact-match", "--match", tag, "--dirty") === tag) return version;
  const commit = env.BUILD_REVISION || git(root, "describe", "--always", "--exclude=*", "--dirty");
  return commit ? `${version}-dev+${commit}` : `${version}-dev`;
}

/** What git prints; undefined where it fails, or where the repository is another one, around `root`. */
function git(root, ...args) {
  const ask = (...words) =>
    execFileSync("git", ["-C", root, ...words], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  try {
    return ask("rev-parse", "--show-prefix") === "" ? ask(...args) : undefined;
  } catch {
    return undefined;
  }
}
