export interface Summary {
  median: number;
  least: number;
  most: number;
}

export interface Compared {
  before: Summary;
  after: Summary;
  /** 0.1 is ten per cent more; undefined where the median before is 0. */
  change: number | undefined;
  clear: boolean;
}

export interface Row {
  scenario: string;
  what: string;
  value?: number | undefined;
  unit: string;
}

/** Compares the values of one figure. */
export function compared(before: readonly number[], after: readonly number[]): Compared;

/** One comparison for each figure that both sides have, in the order of the first run. */
export function compareRounds(
  rounds: readonly { before: readonly Row[]; after: readonly Row[] }[],
): (Pick<Row, "scenario" | "what" | "unit"> & Compared)[];
