import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { describe, expect, onTestFinished, test } from "vitest";

import { Children, ScratchDir, UserIds, findUserIdProblem } from "../../../../src/base/process/index.ts";

const env = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };
const children = new Children();
const tools = { env, children };
const fault = await probe([]);

/** A temp directory that others can pass, as `/tmp` of a container. */
function root(): string {
  const dir = mkdtempSync(join(tmpdir(), "user-ids-"));
  chmodSync(dir, 0o755);
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function probe(secrets: readonly string[]): Promise<string | undefined> {
  const dir = mkdtempSync(join(tmpdir(), "user-ids-"));
  chmodSync(dir, 0o755);
  try {
    return await findUserIdProblem(join(dir, "tmp"), secrets, tools);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

test("each module has an id of its own, below 65536", () => {
  const ids = new UserIds();
  expect([ids.getOrAssignId("a"), ids.getOrAssignId("b"), ids.getOrAssignId("a")]).toEqual([
    30_000, 30_001, 30_000,
  ]);
});

test("without setpriv, ids are not promised", async () => {
  expect(await findUserIdProblem(tmpdir(), [], { env: { PATH: "/nowhere" }, children })).toMatch(
    /setpriv|capabilities/,
  );
});

// Where the tests do not run as root, nothing of this can be tried.
describe.runIf(fault === undefined)("a process under a user id of its own", () => {
  test("a secret that every user may read is reported", async () => {
    const dir = root();
    const file = join(dir, "token");
    writeFileSync(file, "secret");
    chmodSync(file, 0o644);
    expect(await probe([file])).toBe(`every user may read ${file}`);
    chmodSync(file, 0o600);
    expect(await probe([file])).toBeUndefined();
  });

  test("a directory that others cannot pass is reported", async () => {
    const dir = root();
    chmodSync(dir, 0o700);
    expect(await findUserIdProblem(join(dir, "tmp"), [], tools)).toBe(
      `other users cannot reach files below ${dir}/tmp`,
    );
  });

  test("a volume in which others may replace directories gets the sticky bit, and another user's directory is reported", async () => {
    const dir = root();
    chmodSync(dir, 0o777);
    mkdirSync(join(dir, "tmp"), { mode: 0o700 });
    expect(await findUserIdProblem(join(dir, "tmp"), [], tools)).toBeUndefined();
    const move = async () => {
      const args = ["-c", `mv "$0/tmp" "$0/moved"`, dir];
      const { outcome } = await children.run({ file: "/bin/sh", args, cwd: "/", env, uid: 30_000 });
      return outcome;
    };
    expect(await move()).toBe("failed");
    chownSync(dir, 30_001, 30_001);
    expect(await findUserIdProblem(join(dir, "tmp"), [], tools)).toBe(`${dir} belongs to user 30001`);
    chmodSync(dir, 0o777);
    expect(await move()).toBe("succeeded");
  });

  test("a hostile hook reads nothing of the operator or of another module, and has no way to become root", async () => {
    const dir = join(root(), "tmp");
    mkdirSync(dir, { mode: 0o700 });
    writeFileSync(join(dir, "token"), "secret", { mode: 0o600 });
    const [own, other] = [
      await ScratchDir.open(dir, "a", { user: { uid: 30_000, children } }),
      await ScratchDir.open(dir, "b", { user: { uid: 30_001, children } }),
    ];
    const values = await other.write("values.json", "secret");
    const output = await own.write("metrics.json", "");
    const attempts = [
      `cat ${dir}/token`,
      `cat ${values}`,
      `cat /proc/${process.pid}/environ`,
      `cat /proc/${process.pid}/root/etc/hostname`,
      `ls ${dir}`,
      `ln -s ${dir}/token ${own.dir}/metrics.json.new && mv ${own.dir}/metrics.json.new ${output}`,
      `rm -f ${output}`,
      `kill -0 ${process.pid}`,
      `setpriv --reuid=0 true`,
      `chown 0 ${output}`,
    ];
    const script = `for try; do sh -c "$try" >/dev/null 2>&1 && echo "$try"; done; id -u; id -G; echo fine >/dev/stderr; echo x > ${output}`;
    const result = await children.run({
      file: "/bin/sh",
      args: ["-c", script, "sh", ...attempts],
      cwd: "/",
      env,
      uid: 30_000,
    });
    expect(result).toMatchObject({ outcome: "succeeded", stdout: "30000\n30000\n", stderr: "fine\n" });
    expect(readFileSync(output, "utf8")).toBe("x\n");
    await Promise.all([own.dispose(), other.dispose()]);
    expect([existsSync(own.dir), existsSync(other.dir)]).toEqual([false, false]);
  });

  test("what a hook leaves in its home is removed with its own rights", async () => {
    const dir = join(root(), "tmp");
    const kept = join(root(), "kept");
    mkdirSync(kept);
    writeFileSync(join(kept, "file"), "");
    const scratch = await ScratchDir.open(dir, "a", { user: { uid: 30_000, children } });
    const home = scratch.userHome ?? "";
    const script = `mkdir "$0/deep" && echo x > "$0/deep/file"`;
    await children.run({ file: "/bin/sh", args: ["-c", script, home], cwd: "/", env, uid: 30_000 });
    symlinkSync(kept, join(home, "link"));
    expect(statSync(join(home, "deep", "file")).uid).toBe(30_000);
    await scratch.dispose();
    expect([existsSync(scratch.dir), existsSync(join(kept, "file"))]).toEqual([false, true]);
  });

  test("what a hook leaves in the background goes on with its user id, and no other module can end it", async () => {
    const run = async (uid: number, script: string) =>
      children.run({ file: "/bin/sh", args: ["-c", script], cwd: "/", env, uid });
    const { stdout } = await run(30_003, "setsid sleep 30 >/dev/null 2>&1 & echo $!");
    const pid = stdout.trim();
    onTestFinished(() => void process.kill(Number(pid), "SIGKILL"));
    expect(readFileSync(`/proc/${pid}/status`, "utf8")).toMatch(/^Uid:\s+30003\s/m);
    expect((await run(30_004, `kill ${pid}`)).outcome).toBe("failed");
  });

  test("a script without a first line runs, too", async () => {
    const file = join(root(), "plain");
    writeFileSync(file, "id -u");
    chmodSync(file, 0o755);
    expect(await children.run({ file, args: [], cwd: "/", env, uid: 30_002 })).toMatchObject({
      stdout: "30002\n",
    });
  });
});
