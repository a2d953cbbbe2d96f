/** Limits as `--delete-brake` has them: a number, a share, or both. */

/** The most that is allowed: a number, a share of the whole in percent, or both; with both, only what exceeds both is too much. */
export interface Limit {
  readonly count: number | undefined;
  readonly percent: number | undefined;
}

const COUNT_OR_SHARE = /^(\d{1,6})(%?)$/;

/** Reads `3`, `50%`, `3,50%`, or `off` (no limit); undefined when `text` is none of them. */
export function parseLimit(text: string): Limit | undefined {
  if (text === "off") return { count: undefined, percent: undefined };
  const limit: { count?: number; percent?: number } = {};
  for (const part of text.split(",")) {
    const [, digits, unit] = COUNT_OR_SHARE.exec(part.trim()) ?? [];
    if (digits === undefined) return undefined;
    const field = unit === "%" ? "percent" : "count";
    const isRepeated = limit[field] !== undefined;
    if (isRepeated) return undefined;
    limit[field] = Number(digits);
  }
  const { count, percent } = limit;
  return percent !== undefined && percent > 100 ? undefined : { count, percent };
}

/** Whether `part` of a `whole`, e.g. the releases to delete of all releases, is more than the limit allows. */
export function exceedsLimit({ count, percent }: Limit, part: number, whole: number): boolean {
  if (count === undefined && percent === undefined) return false;
  // A missing limit counts as exceeded, so that the other one decides.
  return part > (count ?? -1) && part * 100 > (percent ?? -1) * whole;
}
