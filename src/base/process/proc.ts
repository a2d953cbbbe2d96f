/** Reads processes from /proc (proc(5)), which exists on Linux alone. */

import { readFileSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";

import { attempt } from "../index.ts";

interface ProcessStat {
  /** It has ended, and its parent has not collected it yet (a zombie). */
  readonly hasEnded: boolean;
  readonly processGroup: number;
  /** Start time in clock ticks since boot. */
  readonly startTime: string;
}

/** Pids of all processes that are visible. */
export async function listPids(): Promise<number[]> {
  const names = await readdir("/proc").catch(() => []);
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}

/** State, group and start time of a process; undefined if it does not exist or is hidden. */
export async function readStat(pid: number): Promise<ProcessStat | undefined> {
  return parseStat(await readFile(`/proc/${pid}/stat`, "latin1").catch(() => ""));
}

/** As `readStat`, but synchronous: for code that must not yield to the event loop. */
export function readStatSync(pid: number | "self"): ProcessStat | undefined {
  return attempt(() => parseStat(readFileSync(`/proc/${pid}/stat`, "latin1")));
}

/** The field `starttime`, counted from the field after the command. */
const STARTTIME_INDEX = 19;

/**
 * Parses a line of /proc/<pid>/stat; undefined if it is empty. Begins after the last bracket, because the command in the second
 * field may contain spaces and brackets.
 */
function parseStat(text: string): ProcessStat | undefined {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state = "", , group] = fields; // Between them is the pid of the parent.
  const startTime = fields[STARTTIME_INDEX];
  if (startTime === undefined) return undefined;
  const hasEnded = state === "Z" || state === "X"; // A zombie, or dead.
  return { hasEnded, processGroup: Number(group), startTime };
}
