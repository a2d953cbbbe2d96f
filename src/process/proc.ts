/** Reads processes from /proc (proc(5)), which exists on Linux alone. */

import { readFileSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";

import { attempt } from "../lib/index.ts";

interface ProcessStat {
  /** One letter; `Z` and `X` = it has ended. */
  readonly state: string;
  readonly group: number;
  /** Start time in clock ticks since boot. */
  readonly start: string;
}

/** Pids of all processes that are visible. */
export async function pids(): Promise<number[]> {
  const names = await readdir("/proc").catch(() => []);
  return names.filter((name) => /^\d+$/.test(name)).map(Number);
}

/** State, group and start time of a process; undefined if it does not exist or is hidden. */
export async function statOf(pid: number): Promise<ProcessStat | undefined> {
  return parseStat(await readFile(`/proc/${pid}/stat`, "latin1").catch(() => ""));
}

/** As `statOf`, synchronously. */
export function statNow(pid: number | "self"): ProcessStat | undefined {
  return attempt(() => parseStat(readFileSync(`/proc/${pid}/stat`, "latin1")));
}

/**
 * Reads a line of /proc/<pid>/stat; undefined if it is empty. Begins after the last bracket, because the command in the second
 * field may contain spaces and brackets.
 */
function parseStat(text: string): ProcessStat | undefined {
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state = "", , group] = fields;
  const start = fields[19];
  return start === undefined ? undefined : { state, group: Number(group), start };
}
