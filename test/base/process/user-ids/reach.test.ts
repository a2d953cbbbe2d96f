import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect, onTestFinished, test } from "vitest";

import { Children, findAccessObstacle, findUserIdProblem } from "../../../../src/base/process/index.ts";

const env = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };
const children = new Children();

/** A directory `modules` with a script, below one that others can pass. */
function place(): { dir: string; modules: string; script: string } {
  const dir = mkdtempSync(join(tmpdir(), "reach-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const modules = join(dir, "modules");
  const script = join(modules, "hook.sh");
  mkdirSync(modules);
  writeFileSync(script, "#!/bin/sh\necho started\n");
  for (const path of [dir, modules, script]) chmodSync(path, 0o755);
  return { dir, modules, script };
}

test("the directory or file that keeps others out is named with its mode and the remedy", () => {
  const { dir, modules, script } = place();
  expect(findAccessObstacle(script)).toBeUndefined();
  chmodSync(script, 0o711);
  expect(findAccessObstacle(script)).toBe(`${script} has mode 0711 (chmod o+rx ${script})`);
  // Its names need not be readable.
  chmodSync(modules, 0o711);
  expect(findAccessObstacle(modules)).toBeUndefined();
  chmodSync(modules, 0o750);
  expect(findAccessObstacle(script)).toBe(`${modules} has mode 0750 (chmod o+x ${modules})`);
  chmodSync(dir, 0o700);
  expect(findAccessObstacle(script)).toBe(`${dir} has mode 0700 (chmod o+x ${dir})`);
  expect(findAccessObstacle(join(dir, "nothing"))).toBeUndefined();
});

test("the way behind a link counts", () => {
  const [{ dir, modules }, { dir: open }] = [place(), place()];
  const link = join(open, "link");
  symlinkSync(modules, link);
  chmodSync(dir, 0o700);
  expect(findAccessObstacle(link)).toBe(`${dir} has mode 0700 (chmod o+x ${dir})`);
});

/** Why other user ids cannot be tried here. */
async function findFault(): Promise<string | undefined> {
  const dir = mkdtempSync(join(tmpdir(), "reach-"));
  chmodSync(dir, 0o755);
  try {
    return await findUserIdProblem(join(dir, "tmp"), [], { env, children });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const fault = await findFault();

// Where the tests do not run as root, nothing of this can be tried.
test.runIf(fault === undefined)(
  "a hook that its user id cannot reach fails with the place and the remedy",
  async () => {
    const { modules, script } = place();
    const run = () => children.run({ file: script, args: [], cwd: "/", env, uid: 30_000 });
    expect(await run()).toMatchObject({ outcome: "succeeded", stdout: "started\n" });
    chmodSync(modules, 0o700);
    const message = `cannot start ${script} under user id 30000: ${modules} has mode 0700 (chmod o+x ${modules})`;
    expect(await run()).toMatchObject({ outcome: "failed", message });
    chmodSync(modules, 0o755);
    chmodSync(script, 0o711);
    expect((await run()).message).toContain(`${script} has mode 0711 (chmod o+rx ${script})`);
    // Its own exit code is its own.
    writeFileSync(script, "#!/bin/sh\necho no >&2\nexit 126\n");
    chmodSync(script, 0o755);
    expect((await run()).message).toBe("exit code 126: no");
  },
);
