/** Checks that other users of the machine cannot change a directory, for temporary files and the debug socket. */

import { chmodSync, existsSync, lstatSync, readlinkSync, statSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";

import { attempt } from "../errors.ts";

const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;
/** The kernel's limit of links in a path. */
const MOST_LINKS = 40;
/** Exists in Pods; elsewhere only root can create it. */
const POD = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Why another user could replace the content of a directory before it is used: the directory, a parent or a link in its
 * path belongs to another user, or is writable for others. Undefined if that cannot happen; missing parts are ignored.
 */
export function problemOfPlace(dir: string): string | undefined {
  return process.getuid === undefined ? undefined : problemOnWay(dir, 0, (_, stats) => isVolume(stats));
}

/**
 * As `problemOfPlace`, where processes of other users run in the same container: volumes are no exception. Sets the sticky bit
 * of directories of this user that lack it, such as a volume of the kubelet.
 */
export function problemBesideUsers(dir: string): string | undefined {
  return process.getuid === undefined ? undefined : problemOnWay(dir, 0, addStickyBit);
}

/** Whether a directory without sticky bit that others may write to is accepted. */
type Exception = (path: string, stats: Stats) => boolean;

function addStickyBit(path: string, { uid, mode }: Stats): boolean {
  if (uid !== process.getuid?.()) return false;
  try {
    chmodSync(path, (mode & 0o7777) | STICKY);
    return true;
  } catch {
    return false;
  }
}

/** As `problemOfPlace`; also refuses a directory in which others can create files, because its file names are predictable. */
export function problemOfOwnDir(dir: string): string | undefined {
  const problem = problemOfPlace(dir);
  const stats = problem === undefined ? statSync(dir, { throwIfNoEntry: false }) : undefined;
  if (stats === undefined || process.getuid === undefined || isVolume(stats)) return problem;
  if (stats.uid !== process.getuid()) return belongsTo(dir, stats);
  return othersWrite(stats) ? `others may write to ${dir} (chmod go-w)` : undefined;
}

function problemOnWay(path: string, links: number, isException: Exception): string | undefined {
  const parent = dirname(path);
  const above = parent === path ? undefined : problemOnWay(parent, links, isException);
  if (above !== undefined) return above;
  // An unreadable path fails when it is used.
  const stats = attempt(() => lstatSync(path));
  if (stats === undefined) return undefined;
  if (!isTrusted(stats.uid)) return belongsTo(path, stats);
  if (stats.isSymbolicLink()) {
    if (links >= MOST_LINKS) return `${path} leads through too many links`;
    return problemOnWay(resolve(parent, readlinkSync(path)), links + 1, isException);
  }
  // With the sticky bit only the owner of a file may replace it.
  if (!othersWrite(stats) || (stats.mode & STICKY) !== 0 || isException(path, stats)) return undefined;
  return `others may replace what lies in ${path}, which has no sticky bit (chmod +t, or chmod go-w)`;
}

/** Whether a uid is this user or root. */
export function isTrusted(uid: number): boolean {
  return uid === 0 || uid === process.getuid?.();
}

function belongsTo(path: string, { uid }: Stats): string {
  return `${path} belongs to user ${uid}`;
}

/** Whether other users may write. Root's group and the user's private group count as trusted. */
function othersWrite({ mode, gid }: Stats): boolean {
  const isOwnGroup = gid === 0 || (gid === process.getgid?.() && gid === process.getuid?.());
  return (mode & OTHERS_WRITE) !== 0 || ((mode & GROUP_WRITES) !== 0 && !isOwnGroup);
}

/** Whether it is a volume by the kubelet, which only containers of the Pod can write to. */
function isVolume({ uid }: Stats): boolean {
  return uid === 0 && existsSync(POD);
}
