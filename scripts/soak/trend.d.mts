export type Sample = { minute: number; life: number } & Record<string, number>;

export interface Line {
  /** An hour, with its standard error. */
  slope: number;
  error: number;
  /** From the first to the last sample. */
  rise: number;
}

/** The line of least squares through `[minutes, value]`. */
export function fit(samples: [number, number][]): Line;

/** The trend of a figure in the longest life of an operator; undefined with too few samples. */
export function trend(
  samples: Sample[],
  figure: string,
  least: number,
): (Line & { samples: number; minutes: number; grows: boolean }) | undefined;

/** A row for each ten minutes: the median and the most of each figure. */
export function intervals(samples: Sample[], figures: string[]): string[][];
