export interface Result {
  readonly kubernetes: string;
  readonly helm: string;
  readonly jq: string;
  readonly sh: string;
  readonly tests: string;
  readonly passed: number;
  readonly failed: number;
  readonly day: string;
}
export function withResults(page: string, results: readonly Result[]): string;
export function rowsIn(page: string): string[];
