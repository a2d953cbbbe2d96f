export interface Recorded {
  readonly text: string;
  /** Milliseconds since the beginning. */
  readonly at: number;
}
export function svgOf(recording: readonly Recorded[], title: string): string;
export function linesOf(svg: string): string[];
export function sameEachTime(lines: readonly string[]): string[];
export function tourIn(lines: readonly string[]): string[];
