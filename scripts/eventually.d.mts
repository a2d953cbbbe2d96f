export interface Patience {
  timeoutMs?: number;
  intervalMs?: number;
  /** Appended to the failure, e.g. the log. */
  context?: () => string;
}
export declare function eventually<T>(
  check: () => T | Promise<T>,
  what: string,
  options?: Patience,
): Promise<Exclude<T, false>>;
