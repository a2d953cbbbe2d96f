import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import { StableTempDir, ScratchDir, ScratchError, ensureTempDir } from "../../../src/base/process/index.ts";
import { findPrivateDirProblem, findPathProblem } from "../../../src/base/files/own-place.ts";
import { giveAway } from "../../support/give-away.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "own-place-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function dir(name: string, mode = 0o755): string {
  const path = join(root, name);
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

describe("a temp directory", () => {
  test.each([
    ["that is private", 0o700],
    ["that others may read", 0o755],
  ])("%s is used", (_, mode) => {
    expect(findPrivateDirProblem(dir("mine", mode))).toBeUndefined();
  });

  test.each([
    ["that everybody may write to", 0o777],
    ["that everybody may write to, sticky as it is", 0o1777],
  ])("%s is refused", (_, mode) => {
    expect(findPrivateDirProblem(dir("open", mode))).toMatch(
      /^others may (write to|replace what lies in) .*open/,
    );
  });

  test("that is missing is used, below a parent that is sticky", () => {
    expect(findPrivateDirProblem(join(dir("sticky", 0o1777), "mine"))).toBeUndefined();
    expect(findPrivateDirProblem(join(dir("loose", 0o777), "mine"))).toMatch(
      /loose, which has no sticky bit/,
    );
  });

  test("of another user is refused, by whatever writes there", async () => {
    const theirs = dir("theirs", 0o755);
    giveAway(theirs);
    const refused =
      /^cannot use the temp directory .*theirs \(--tmp-dir\): .* belongs to user \d+; name a directory/;
    await expect(ScratchDir.open(theirs, "hook")).rejects.toThrow(refused);
    await expect(new StableTempDir(theirs, "kube").write("config", "token")).rejects.toThrow(refused);
    expect(() => ensureTempDir(theirs, "helm-home")).toThrow(ScratchError);
    expect(readdirSync(theirs)).toEqual([]);
  });

  test("below a directory of another user is refused", () => {
    const theirs = dir("theirs");
    mkdirSync(join(theirs, "mine"));
    giveAway(theirs);
    expect(findPrivateDirProblem(join(theirs, "mine"))).toMatch(/belongs to user/);
  });

  test("that a link leads to counts as where it leads, and links in circles end", () => {
    symlinkSync(dir("open", 0o777), join(root, "link"));
    expect(findPathProblem(join(root, "link", "mine"))).toMatch(/open, which has no sticky bit/);
    symlinkSync(dir("mine", 0o700), join(root, "fine"));
    expect(findPrivateDirProblem(join(root, "fine"))).toBeUndefined();
    symlinkSync(dir("shared", 0o1777), join(root, "to-shared"));
    expect(findPrivateDirProblem(join(root, "to-shared"))).toMatch(/others may write to .*to-shared/);
    symlinkSync("circle", join(root, "circle"));
    expect(findPathProblem(join(root, "circle"))).toMatch(/too many links/);
  });
});

test("a temp directory that was emptied is filled again", async () => {
  const [tmp, lasting] = [join(root, "tmp"), new StableTempDir(join(root, "tmp"), "kube")];
  for (const round of ["one", "two"]) {
    await lasting.write("config", round);
    const scratch = await ScratchDir.open(tmp, "hook");
    await scratch.write("values.json", round);
    ensureTempDir(tmp, "helm-home");
    expect(readdirSync(tmp)).toHaveLength(3);
    rmSync(tmp, { recursive: true });
  }
});
