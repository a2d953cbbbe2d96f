/**
 * Keeps the metrics of hooks of different teams apart: names, types and groups of a module with an account are independent of those of all other hooks,
 * so that no team can make hooks of another one fail, or remove their series (docs/guides/tenancy.md, "Metrics and queues of hooks").
 */

import type { MetricOperation } from "../../hooks/index.ts";
import type { Accounts } from "../../kube/index.ts";
import { attempt } from "../../base/index.ts";
import type { State } from "../../engine/state/index.ts";
import { HookMetrics, renderFamilies, type HookMetricOwner } from "./hook-metrics.ts";
import { hasHook } from "./inventory.ts";

interface ScopesOptions {
  readonly metricsPrefix: string;
  readonly state: Pick<State, "hooksOf">;
  readonly accounts: Pick<Accounts, "getKnownAccount">;
}

/** The scope of global hooks and of modules without an account. No module has this name. */
const SHARED = "";

/** How many series one scope may have: more would exhaust the memory, and `/metrics/hooks` would not answer in time. */
const MAX_SERIES = { ofModule: 50_000, shared: 100_000 };

/** The metrics of all hooks, at `/metrics/hooks`. */
export class HookMetricScopes {
  readonly #options: ScopesOptions;
  readonly #scopes = new Map<string, HookMetrics>();

  constructor(options: ScopesOptions) {
    this.#options = options;
  }

  /** Applies all operations of one run of a hook, or none of them (throws HookMetricError). */
  apply(operations: readonly MetricOperation[], owner: HookMetricOwner): void {
    const { metricsPrefix, state, accounts } = this.#options;
    const { module } = owner;
    const hasAccount = module !== undefined && attempt(() => accounts.getKnownAccount(module)) !== undefined;
    const scope = hasAccount ? module : SHARED;
    const maxSeries = hasAccount ? MAX_SERIES.ofModule : MAX_SERIES.shared;
    const metrics =
      this.#scopes.get(scope) ?? new HookMetrics(metricsPrefix, (other) => hasHook(state, other), maxSeries);
    metrics.apply(operations, owner);
    this.#scopes.set(scope, metrics);
  }

  /** The text that Prometheus reads, without the metrics of hooks that are deleted. */
  renderText(): string {
    const families = [...this.#scopes].flatMap(([scope, metrics]) => {
      const ofScope = metrics.listFamilies();
      if (ofScope.length === 0) this.#scopes.delete(scope);
      return ofScope;
    });
    return renderFamilies(families);
  }
}
