// The released versions whose pages the site keeps. Each has them at /vX.Y/, from the newest tag of that version.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { rcompare, satisfies, valid } from "semver";

/** Older tags have no site. */
const WITH_SITE = ">=0.3.0";

/** The versions of these tags, the newest first, each as `{ name: "0.3", tag: "v0.3.1" }`. */
export function releasesOf(tags) {
  const released = tags.filter((tag) => tag.startsWith("v") && valid(tag) && satisfies(tag, WITH_SITE));
  const newest = new Map();
  for (const tag of released.toSorted(rcompare)) {
    const name = tag.split(".").slice(0, 2).join(".").slice(1);
    if (!newest.has(name)) newest.set(name, tag);
  }
  return [...newest].map(([name, tag]) => ({ name, tag }));
}

/** The releases of the repository in `root`. A copy without Git has none. */
export function listReleases(root) {
  try {
    const git = ["-C", root, "tag", "--list", "v*"];
    return releasesOf(execFileSync("git", git, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).split("\n"));
  } catch {
    return [];
  }
}

/** Writes the files of a tag that the site is made of into `dir`. */
export function extractPages(root, tag, dir) {
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  const files = ["docs", "page/pictures", "CHANGELOG.md"];
  const input = execFileSync("git", ["-C", root, "archive", tag, ...files], { maxBuffer: 2 ** 28 });
  execFileSync("tar", ["-x", "-C", dir], { input });
}
