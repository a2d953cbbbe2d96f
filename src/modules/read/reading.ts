/** One read of the directories that is under way. */

import type { Problem } from "../../model/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import { CONFIRM_MS, emptyMemory } from "../memory.ts";
import type { Memory } from "../memory.ts";

/** One read under way: what the last one left, and what this one finds. */
export interface Reading {
  readonly now: number;
  readonly unnumberedOrder: number;
  readonly strict: boolean;
  readonly archives: ChartArchives;
  /** There is no earlier read whose content could stay in force. */
  readonly first: boolean;
  readonly before: Memory;
  readonly after: Memory;
  readonly problems: Problem[];
  readonly refused: Problem[];
  readonly warnings: string[];
  readonly holds: string[];
}

export type ReadingStart = Pick<
  Reading,
  "now" | "unnumberedOrder" | "strict" | "first" | "before" | "archives"
>;

/** Begins a read. */
export function beginReading(start: ReadingStart): Reading {
  return { ...start, after: emptyMemory(), problems: [], refused: [], warnings: [], holds: [] };
}

/** Notes that each of `paths` is missing; true when all of them have been for long enough, in an earlier read too. */
export function confirmGone(reading: Reading, paths: readonly string[]): boolean {
  for (const path of paths) reading.after.missed.set(path, missedSince(reading, path));
  return paths.every((path) => reading.now - missedSince(reading, path) >= CONFIRM_MS);
}

/** When `path` was first missing: now, if the last read still saw it. */
export function missedSince(reading: Reading, path: string): number {
  return reading.before.missed.get(path) ?? reading.now;
}

/** When another read could confirm what is missing now; undefined when nothing is. */
export function recheckAt(reading: Reading): number | undefined {
  const due = [...reading.after.missed.values()].map((since) => since + CONFIRM_MS);
  const open = due.filter((at) => at > reading.now);
  return open.length === 0 ? undefined : Math.min(...open);
}
