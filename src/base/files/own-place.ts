/** Checks that no other user of the machine can change a directory. Where files have no owners (Windows: no `process.getuid`), checks nothing. */

import { chmodSync, existsSync, lstatSync, readlinkSync, statSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";

import { attempt } from "../errors.ts";

const STICKY_BIT = 0o1000;
const GROUP_WRITE_BIT = 0o020;
const OTHERS_WRITE_BIT = 0o002;
/** The kernel's limit of links in a path. */
const MAX_LINKS = 40;
/** Its existence proves that the process runs in a Pod: elsewhere only root can create it. */
const POD_CREDENTIALS_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Why another user could replace the content of a directory before it is used: the directory, a parent or a link in its
 * path belongs to another user, or is writable for others without a sticky bit. Undefined if that cannot happen. Ignores parts that
 * do not exist. Accepts volumes of the Pod, which are writable for all but which only containers of the Pod see.
 */
export function findPathProblem(dir: string): string | undefined {
  return process.getuid === undefined
    ? undefined
    : findProblemOnPath(dir, 0, (_, stats) => isPodVolume(stats));
}

/**
 * As `findPathProblem`, for a container in which processes of other users run too: does not accept volumes of the Pod, because these
 * processes can write to them. Instead of refusing a directory of this user that lacks the sticky bit, sets the bit.
 */
export function findPathProblemBesideUsers(dir: string): string | undefined {
  return process.getuid === undefined ? undefined : findProblemOnPath(dir, 0, addStickyBit);
}

/** Decides whether a directory is accepted although others may write to it and it has no sticky bit. */
type AcceptDir = (path: string, stats: Stats) => boolean;

/** Accepts a directory of this user after setting its sticky bit, so that other users cannot replace files in it. */
function addStickyBit(path: string, { uid, mode }: Stats): boolean {
  if (uid !== process.getuid?.()) return false;
  try {
    chmodSync(path, (mode & 0o7777) | STICKY_BIT);
    return true;
  } catch {
    return false;
  }
}

/** As `findPathProblem`; also refuses a directory in which others can create files, because the names of files in it are predictable. */
export function findPrivateDirProblem(dir: string): string | undefined {
  const problem = findPathProblem(dir);
  if (problem !== undefined || process.getuid === undefined) return problem;
  const stats = statSync(dir, { throwIfNoEntry: false });
  const isMissing = stats === undefined;
  if (isMissing || isPodVolume(stats)) return undefined;
  if (stats.uid !== process.getuid()) return describeOwner(dir, stats);
  return canOthersWrite(stats) ? `others may write to ${dir} (chmod go-w)` : undefined;
}

/** Whether a path is a directory, and no link to one, that belongs to this user, and to which no other user may write. */
export function isPrivateDirectory(path: string): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isDirectory()) return false;
  return process.geteuid === undefined || (stats.uid === process.geteuid() && (stats.mode & 0o022) === 0);
}

/**
 * Checks each directory and link from the root down to `path`, and where links lead. `links` counts the links followed so far.
 * `acceptDir` decides about a directory to which others may write and which lacks the sticky bit. Returns the first problem.
 */
function findProblemOnPath(path: string, links: number, acceptDir: AcceptDir): string | undefined {
  const parent = dirname(path);
  const parentProblem = parent === path ? undefined : findProblemOnPath(parent, links, acceptDir);
  if (parentProblem !== undefined) return parentProblem;
  // A path that is missing or unreadable is no problem of this check: its use fails with a better message.
  const stats = attempt(() => lstatSync(path));
  if (stats === undefined) return undefined;
  if (!isTrustedUser(stats.uid)) return describeOwner(path, stats);
  if (stats.isSymbolicLink()) {
    if (links >= MAX_LINKS) return `${path} leads through too many links`;
    return findProblemOnPath(resolve(parent, readlinkSync(path)), links + 1, acceptDir);
  }
  // With the sticky bit only the owner of a file may replace it.
  if (!canOthersWrite(stats) || (stats.mode & STICKY_BIT) !== 0 || acceptDir(path, stats)) return undefined;
  return `others may replace what lies in ${path}, which has no sticky bit (chmod +t, or chmod go-w)`;
}

/** Whether a uid is this user or root. */
export function isTrustedUser(uid: number): boolean {
  return uid === 0 || uid === process.getuid?.();
}

function describeOwner(path: string, { uid }: Stats): string {
  return `${path} belongs to user ${uid}`;
}

/** Whether other users may write. Root's group and the user's private group (with the id of the user) count as trusted. */
function canOthersWrite({ mode, gid }: Stats): boolean {
  const isTrustedGroup = gid === 0 || (gid === process.getgid?.() && gid === process.getuid?.());
  return (mode & OTHERS_WRITE_BIT) !== 0 || ((mode & GROUP_WRITE_BIT) !== 0 && !isTrustedGroup);
}

/** Whether a directory is taken for a volume of the kubelet, which only containers of the Pod can write to: root owns it, in a Pod. */
function isPodVolume({ uid }: Stats): boolean {
  return uid === 0 && existsSync(POD_CREDENTIALS_DIR);
}
