import type { Jq, Shell } from "./found.mjs";

export interface Row {
  readonly kubernetes: string;
  readonly helm: "helm" | "helm3";
  readonly jq: Jq;
  readonly sh: Shell;
}
export function rowsOf(what: {
  kubernetes: readonly string[];
  jqs: readonly Jq[];
  shells: readonly Shell[];
}): Row[];
export function optionsOf(
  args: readonly string[],
  compatible: { oldest: string; previous: string; newest: string },
): { kubernetes: string[]; rows: number[]; files: string[] };
/** In place of a version: the newest one after those that are supported. */
export declare const NEXT: "next";
export function findNext(published: readonly string[], newest: string): string | undefined;
export function compareVersions(a: string, b: string): number;
