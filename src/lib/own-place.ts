/** Which directories other users of the machine cannot change: for temporary files and for the debug socket. */

import { existsSync, lstatSync, readlinkSync, statSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";

const STICKY = 0o1000;
const GROUP_WRITES = 0o020;
const OTHERS_WRITE = 0o002;
/** As the kernel follows links. */
const MOST_LINKS = 40;
/** Exists in Pods; on a machine only root can make it. */
const POD = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Why what lies in a directory may be another user's by the time that it is used: the directory, one above it or a
 * link on the way belongs to another user, or others may replace what is in it. Undefined where that cannot happen;
 * parts that do not exist yet are no reason.
 */
export function faultOfPlace(dir: string): string | undefined {
  return process.getuid === undefined ? undefined : faultOnWay(dir, 0);
}

/** As `faultOfPlace`, and nobody else may add to the directory: names in it are known to others. */
export function faultOfOwnDir(dir: string): string | undefined {
  const fault = faultOfPlace(dir);
  const stats = fault === undefined ? statSync(dir, { throwIfNoEntry: false }) : undefined;
  if (stats === undefined || process.getuid === undefined || isVolume(stats)) return fault;
  if (stats.uid !== process.getuid()) return belongsTo(dir, stats);
  return othersWrite(stats) ? `others may write to ${dir} (chmod go-w)` : undefined;
}

function faultOnWay(path: string, links: number): string | undefined {
  const parent = dirname(path);
  const above = parent === path ? undefined : faultOnWay(parent, links);
  if (above !== undefined) return above;
  const stats = statsOf(path);
  if (stats === undefined) return undefined;
  if (!isTrusted(stats.uid)) return belongsTo(path, stats);
  if (stats.isSymbolicLink()) {
    if (links >= MOST_LINKS) return `${path} leads through too many links`;
    return faultOnWay(resolve(parent, readlinkSync(path)), links + 1);
  }
  // With the sticky bit only the owner of what lies there may replace it.
  if (!othersWrite(stats) || (stats.mode & STICKY) !== 0 || isVolume(stats)) return undefined;
  return `others may replace what lies in ${path}, which has no sticky bit (chmod +t, or chmod go-w)`;
}

function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    // What cannot be read shows when it is used.
    return undefined;
  }
}

/** This user and root. */
export function isTrusted(uid: number): boolean {
  return uid === 0 || uid === process.getuid?.();
}

function belongsTo(path: string, { uid }: Stats): string {
  return `${path} belongs to user ${uid}`;
}

/** The group of root, and the one that a user has alone by convention, count as their users. */
function othersWrite({ mode, gid }: Stats): boolean {
  const isOwnGroup = gid === 0 || (gid === process.getgid?.() && gid === process.getuid?.());
  return (mode & OTHERS_WRITE) !== 0 || ((mode & GROUP_WRITES) !== 0 && !isOwnGroup);
}

/** The kubelet makes volumes that everybody in the Pod may write to, and nobody else. */
function isVolume({ uid }: Stats): boolean {
  return uid === 0 && existsSync(POD);
}
