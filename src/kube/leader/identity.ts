/** The identity of the holder of a Lease. */

import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

import { attempt } from "../../base/index.ts";
import { readStatSync } from "../../base/process/index.ts";

/** Identifies one process as holder of a Lease. Unknown parts are empty. */
export interface LeaderIdentity {
  /** Pod or host name. */
  readonly name: string;
  readonly pid: string;
  /** Start of the process in clock ticks since boot. */
  readonly start: string;
  readonly bootId: string;
  /** Inode of the PID namespace. */
  readonly pidNamespace: string;
}

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** Reads the identity of this process; `pod` is the name of its Pod. */
export function readOwnIdentity(pod?: string): LeaderIdentity {
  return {
    name: pod || hostname(),
    pid: String(process.pid),
    start: readStartTime("self") ?? "",
    bootId: attempt(() => readFileSync(BOOT_ID, "utf8"))?.trim() ?? "",
    // The link is `pid:[4026531836]`.
    pidNamespace: /\d+/.exec(attempt(() => readlinkSync("/proc/self/ns/pid")) ?? "")?.[0] ?? "",
  };
}

/** Formats an identity as the `holderIdentity` of a Lease: `name/pid/start/bootId/pidNamespace`. */
export function formatIdentity(identity: LeaderIdentity): string {
  const { name, pid, start, bootId, pidNamespace } = identity;
  return [name, pid, start, bootId, pidNamespace].join("/");
}

/** Parses a `holderIdentity` that `formatIdentity` wrote; undefined for holders of another form. */
export function parseIdentity(text: string): LeaderIdentity | undefined {
  const [name, pid, start, bootId, pidNamespace, ...more] = text.split("/");
  if (name === undefined || pid === undefined || start === undefined) return undefined;
  if (bootId === undefined || pidNamespace === undefined || more.length > 0) return undefined;
  return { name, pid, start, bootId, pidNamespace };
}

/**
 * Whether the process of `holder` has certainly ended, so that a restarted operator need not wait until its Lease expires: it was started in
 * the same boot and PID namespace as this process (`own`), and its pid is free, a zombie, or reused.
 */
export function hasHolderEnded(holder: string, own: LeaderIdentity): boolean {
  const other = parseIdentity(holder);
  if (other === undefined || other.start === "" || !/^[1-9]\d*$/.test(other.pid)) return false;
  // Without boot and namespace of this process, a pid could be that of another machine or container.
  if (own.bootId === "" || own.pidNamespace === "") return false;
  if (other.bootId !== own.bootId || other.pidNamespace !== own.pidNamespace) return false;
  if (isPidFree(Number(other.pid))) return true;
  const start = readStartTime(Number(other.pid));
  return start !== undefined && start !== other.start;
}

/** Whether no process has this pid. `/proc` may hide processes of other users; signal 0 finds them. */
function isPidFree(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

/** Reads the start time of a process; "zombie" if it has ended and was not reaped; undefined if it cannot be read. */
function readStartTime(pid: number | "self"): string | undefined {
  const stat = readStatSync(pid);
  return stat?.hasEnded ? "zombie" : stat?.startTime;
}
