/** Runs a hook that uses the shell library, with nothing on the PATH but what the library may use. */

import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll } from "vitest";

import { Children } from "../../src/base/process/index.ts";

export const SHELL_DIR = fileURLToPath(new URL("../../shell", import.meta.url));
const LIBRARY = join(SHELL_DIR, "shell_lib.sh");

function found(name: string): string | undefined {
  const directories = (process.env["PATH"] ?? "").split(":");
  return directories.map((directory) => join(directory, name)).find((path) => existsSync(path));
}

/** `bare`: bash and jq are all there is. `busybox`: its tools too, as in an Alpine image. */
export const PATHS = found("busybox") === undefined ? ["bare"] : ["bare", "busybox"];

interface HookRun {
  /** Lines of stdout that are not empty. */
  readonly lines: string[];
  readonly code: number | undefined;
  readonly stderr: string;
  /** The hook's file, which tracebacks name. */
  readonly file: string;
}

interface ShellHook {
  /** Runs a hook made of these functions on this content of BINDING_CONTEXT_PATH: a text is written as it is. */
  (body: string, contexts: unknown, args?: readonly string[]): Promise<HookRun>;
}

interface ShellHookOptions {
  /** One of PATHS. */
  readonly path?: string;
  /** What stands before the body; the default sources the library. */
  readonly head?: string;
  /** What stands behind it. */
  readonly tail?: string;
}

/** Sets up and removes the directory of a test file or block. */
export function shellHook(options: ShellHookOptions = {}): ShellHook {
  const { head = 'source "${SHELL_LIB_PATH:-/shell_lib.sh}"', tail = 'hook::run "$@"' } = options;
  let dir = "";
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), "shell-lib-"));
    await makeBin(join(dir, "bin"), options.path === "busybox");
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  return async (body, contexts, args = []) => {
    const file = join(dir, "hook.sh");
    const contextFile = join(dir, "context.json");
    await writeFile(file, `#!/usr/bin/env bash\n${head}\n${body}\n${tail}\n`);
    await chmod(file, 0o755);
    await writeFile(contextFile, typeof contexts === "string" ? contexts : `${JSON.stringify(contexts)}\n`);
    const env = { PATH: join(dir, "bin"), SHELL_LIB_PATH: LIBRARY, BINDING_CONTEXT_PATH: contextFile };
    const result = await new Children().run({ file, args, cwd: dir, env, timeoutMs: 15_000 });
    return {
      lines: result.stdout.split("\n").filter(Boolean),
      code: result.exitCode,
      stderr: result.stderr,
      file,
    };
  };
}

async function makeBin(bin: string, busybox: boolean): Promise<void> {
  await mkdir(bin);
  const own = ["bash", "jq"];
  await Promise.all(own.map((name) => symlink(found(name) ?? `/no/${name}`, join(bin, name))));
  if (!busybox) return;
  const program = found("busybox") ?? "/no/busybox";
  const applets = await new Children().run({
    file: program,
    args: ["--list"],
    cwd: bin,
    env: {},
  });
  const there = new Set(await readdir(bin));
  const names = applets.stdout.split("\n").filter((name) => name !== "" && !there.has(name));
  await Promise.all(names.map((name) => symlink(program, join(bin, name))));
}
