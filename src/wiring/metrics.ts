import type { MetricOperation } from "../hooks/index.ts";

/** Metrics made by hooks. */
export interface HookMetricsPort {
  /** Applies all operations or throws and applies none. */
  apply(
    from: { readonly hook: string; readonly module: string | undefined },
    operations: readonly MetricOperation[],
  ): void;
}
