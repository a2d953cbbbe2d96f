/** User ids of modules: hooks that run under an id of their own cannot read files of the operator or of other modules. */

import { readFileSync } from "node:fs";
import { getCompileCacheDir } from "node:module";

import { attempt, findPathProblemBesideUsers, oneLine } from "../../index.ts";
import { findProgram } from "../child.ts";
import { ScratchDir } from "../scratch.ts";
import type { ProcessRunner } from "./shared-dir.ts";

/** Ids begin here. They lie below 65536, because a user namespace maps no more. */
const FIRST_UID = 30_000;
const LAST_UID = 59_999;
/** From linux/capability.h: chown, dac_override, kill, setgid, setuid. */
const NEEDED_CAPABILITIES = [0, 1, 5, 6, 7];

/** Gives each module a user id for the life of the process. */
export class UserIds {
  readonly #ids = new Map<string, number>();

  /** The user id of a module, assigned at the first call. Throws after 30,000 modules. */
  getOrAssignId(module: string): number {
    const id = this.#ids.get(module) ?? FIRST_UID + this.#ids.size;
    if (id > LAST_UID) throw new Error(`more than ${LAST_UID - FIRST_UID + 1} modules have a user id`);
    this.#ids.set(module, id);
    return id;
  }
}

/** How the trial process is started; `env` is the environment of hooks. */
interface Probe {
  readonly env: Readonly<Record<string, string>>;
  readonly children: ProcessRunner;
}

/**
 * Tries with a process whether hooks can run under user ids of their own here. Returns why they cannot, or which of
 * `secrets` (paths of files) they could still read; undefined = they can, and cannot read any.
 */
export async function findUserIdProblem(
  tmpDir: string,
  secrets: readonly string[],
  probe: Probe,
): Promise<string | undefined> {
  const missingCapability = findMissingCapability();
  if (missingCapability !== undefined) return missingCapability;
  if (findProgram("setpriv", probe.env["PATH"]) === undefined) return "there is no setpriv on the PATH";
  const dirProblem = findReplaceableDir(tmpDir);
  if (dirProblem !== undefined) return dirProblem;
  try {
    return await probeIsolation(tmpDir, secrets, probe);
  } catch (error) {
    return oneLine(error);
  }
}

/** Why hooks could replace a directory that the operator uses; undefined if they cannot. In the compile cache of Node, they could replace its code. */
function findReplaceableDir(tmpDir: string): string | undefined {
  const dirs = [tmpDir, getCompileCacheDir()].filter((dir) => dir !== undefined);
  return dirs.map(findPathProblemBesideUsers).find((problem) => problem !== undefined);
}

/** An error text if the operator lacks a capability that it needs to start processes of other users. */
function findMissingCapability(): string | undefined {
  const status = attempt(() => readFileSync("/proc/self/status", "utf8")) ?? "";
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1];
  // CapEff is a hexadecimal mask with one bit for each capability.
  const mask = BigInt(`0x${effective ?? "0"}`);
  const hasAll = NEEDED_CAPABILITIES.every((bit) => (mask >> BigInt(bit)) % 2n === 1n);
  return hasAll
    ? undefined
    : "the operator does not run as root with the capabilities CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID";
}

/** Runs a process of another user, which must be able to read its own file and none of the secrets. Returns the problem; undefined = none. */
async function probeIsolation(
  tmpDir: string,
  secrets: readonly string[],
  { env, children }: Probe,
): Promise<string | undefined> {
  const scratch = await ScratchDir.open(tmpDir, "user-id", { user: { uid: LAST_UID, children } });
  try {
    const ownFile = await scratch.write("own", "own");
    // Ends with 3 if it cannot read its own file ($0), and prints the other files that it can read.
    const script = '[ -r "$0" ] || exit 3; for file; do [ ! -r "$file" ] || echo "$file"; done';
    const args = ["-c", script, ownFile, ...secrets, `/proc/${process.pid}/environ`];
    const request = { file: "/bin/sh", args, cwd: "/", env, uid: LAST_UID };
    const { outcome, stdout, message, exitCode } = await children.run(request);
    if (exitCode === 3) return `other users cannot reach files below ${tmpDir}`;
    if (outcome !== "succeeded") return `setpriv failed: ${message}`;
    const [readableFile] = stdout.trim().split("\n");
    return readableFile === "" ? undefined : `every user may read ${readableFile}`;
  } finally {
    await scratch.dispose();
  }
}
