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
  compatible: { oldest: string; newest: string },
): { kubernetes: string[]; rows: number[]; files: string[] };
export function compareVersions(a: string, b: string): number;
