// The files of the shell library, the options it sets, and what it reports of a failure.
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, test } from "vitest";

import { PATHS, SHELL_DIR, shellHook } from "../support/shell-hook.ts";

describe.each(PATHS)("/shell_lib.sh (PATH: %s)", (path) => {
  const hook = shellHook({ path });

  test("sets options", async () => {
    const got = await hook("shopt -p inherit_errexit failglob; echo $SHELLOPTS; trap -p ERR", []);
    expect(got.lines.slice(0, 2)).toEqual(["shopt -s inherit_errexit", "shopt -s failglob"]);
    expect(got.lines[2]?.split(":")).toEqual(
      expect.arrayContaining(["errexit", "errtrace", "nounset", "pipefail"]),
    );
    expect(got.lines[3]).toBe("trap -- 'backtrace' ERR");
  });

  test.each([
    ['echo "$nope"; echo never', { code: 1, lines: [], stderr: /nope: unbound variable/ }],
    ["echo /no/*.x; echo never", { code: 1, lines: [], stderr: /no match: \/no\/\*\.x/ }],
    ['local x=$(false; echo s); echo "x=$x"', { code: 0, lines: ["x="], stderr: /^$/ }],
    ["for a in $(false); do :; done; echo after", { code: 0, lines: ["after"], stderr: /^$/ }],
    ["mapfile -t x < <(false); echo after", { code: 0, lines: ["after"], stderr: /^$/ }],
    ["exit 3", { code: 3, lines: [], stderr: /^$/ }],
    ["y=$(false); echo never", { code: 1, lines: [], stderr: /Exiting with status 1/ }],
    ["set +e; false; echo on", { code: 0, lines: ["on"], stderr: /^$/ }],
    ["if false; then :; fi; false || echo on", { code: 0, lines: ["on"], stderr: /^$/ }],
  ])("%s", async (command, { stderr, ...result }) => {
    const got = await hook(`__main__() { ${command}; }`, [{ binding: "x" }]);
    expect(got).toMatchObject({ ...result, stderr: expect.stringMatching(stderr) });
  });

  test("a failure is reported with the calls that led to it, the outermost first", async () => {
    const got = await hook('inner() {\n  (exit 9)\n}\n__main__() {\n    inner "a b" %s\n}', [{}]);
    const frames = [
      `  File "${got.file}", line 9, in main\n    hook::run "$@"`,
      String.raw`  File "${SHELL_DIR}/frameworks/shell/hook.sh", line N, in hook::run` +
        `\n    hook::_handle "$line"`,
      String.raw`  File "${SHELL_DIR}/frameworks/shell/hook.sh", line N, in hook::_handle` +
        `\n    ("$name")`,
      `  File "${got.file}", line 7, in __main__\n    inner "a b" %s`,
      `  File "${got.file}", line 4, in inner\n    (exit 9)`,
    ];
    const stderr = got.stderr.replaceAll(/(hook\.sh", line) \d+, in hook/g, "$1 N, in hook");
    expect(stderr).toBe(`Traceback (most recent call last):\n${frames.join("\n")}\nExiting with status 9\n`);
    expect(got.code).toBe(9);
  });

  test.each([
    ["in a substitution", "x=$(deep)"],
    ["in a pipe", "deep | deep"],
    ["in a subshell", "(deep)"],
  ])("a failure %s is reported once, with the function and the line of the hook", async (_, command) => {
    const got = await hook(`deep() { false; }\n__main__() {\n  ${command}\n  echo never\n}`, [{}]);
    expect(got).toMatchObject({ code: 1, lines: [] });
    expect(got.stderr.split("Traceback")).toHaveLength(2);
    expect(got.stderr).toContain(`  File "${got.file}", line 5, in __main__\n    ${command}\n`);
  });

  test.each(["return 4", "[[ a == b ]] && echo no"])("a function that ends with %s is named", async (end) => {
    const got = await hook(`__main__() {\n  ${end}\n}`, [{}]);
    expect(got.stderr.split("Traceback")).toHaveLength(2);
    expect(got.stderr).toMatch(/\n {2}File "\S+", line \d+, in __main__\nExiting with status \d\n$/);
    expect(got.stderr).toContain(`  File "${got.file}", line 3, in __main__\n`);
  });

  test.each([
    ["code outside of functions", "x=$(false)", "main"],
    ["__config__", "__config__() { local x=$(false); y=$(false); }", "__config__"],
  ])("so is one in %s", async (_, body, name) => {
    const got = await hook(body, [{}], name === "main" ? [] : ["--config"]);
    expect(got.code).toBe(1);
    expect(got.stderr.match(/in \S+\n {4}.*\nExiting/g)).toEqual([expect.stringContaining(`in ${name}\n`)]);
  });
});

describe("/frameworks/shell/*.sh without /shell_lib.sh", () => {
  const hook = shellHook({
    head: 'for file in "${SHELL_LIB_PATH%/*}"/frameworks/shell/*.sh; do source "$file"; done',
  });

  test("set no option; a failed function ends the hook", async () => {
    const body =
      'echo "options $- $(shopt -p inherit_errexit failglob | tr -d x 2>/dev/null)"; trap -p\n__main__() { echo "$nope$(context::get binding)"; false; echo on; return 4; }';
    const got = await hook(body, [{ binding: "a" }, { binding: "b" }]);
    expect(got).toMatchObject({
      lines: [expect.stringMatching(/^options [^eEu]* $/), "a", "on"],
      code: 4,
      stderr: "",
    });
  });

  test("work with options of the hook's own", async () => {
    const got = await hook("set -eu; shopt -s failglob\n__main__() { context::has x.0 || echo no; }", [{}]);
    expect(got).toMatchObject({ lines: ["no"], code: 0, stderr: "" });
  });
});

test("files of one's own below frameworks/shell are sourced, at any depth; a link to the library finds them", () => {
  const root = mkdtempSync(join(tmpdir(), "shell-lib-"));
  cpSync(SHELL_DIR, join(root, "lib dir"), { recursive: true });
  mkdirSync(join(root, "lib dir/frameworks/shell/own/deep"), { recursive: true });
  writeFileSync(join(root, "lib dir/frameworks/shell/own/deep/more.SH"), "more() { echo more; }\n");
  symlinkSync(join("lib dir", "shell_lib.sh"), join(root, "link.sh"));
  const file = join(root, "hook.sh");
  for (const library of ["link.sh", "lib dir/shell_lib.sh", "./link.sh"]) {
    writeFileSync(
      file,
      `#!/usr/bin/env bash\ncd '${root}'\nsource '${library}'\nmore\ndeclare -F hook::run\n`,
    );
    chmodSync(file, 0o755);
    expect(spawnSync(file, { encoding: "utf8" })).toMatchObject({ stdout: "more\nhook::run\n", stderr: "" });
  }
});
