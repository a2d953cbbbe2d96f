/** The series of queues, and of the API server with its watches. */

import type { Labels, SeriesRegistry } from "./registry.ts";

/** A queue as it is now. */
interface QueueSample {
  readonly queue: string;
  readonly length: number;
  readonly head?: {
    readonly type: string;
    readonly module?: string | undefined;
    readonly hook?: string | undefined;
  };
}

/** How long a task has waited for its turn, and for whom it works. */
interface WaitSample {
  readonly module?: string | undefined;
  readonly hook?: string | undefined;
  readonly binding?: string | undefined;
  readonly queue: string;
  readonly seconds: number;
}

/** The series of queues. */
export class QueueSeries {
  readonly #registry: SeriesRegistry;

  constructor(registry: SeriesRegistry) {
    this.#registry = registry;
  }

  /** All queues as they are now; gauges of queues that are not named are dropped. */
  stand(samples: readonly QueueSample[]): void {
    this.#registry.clear("queueLength");
    this.#registry.clear("queueHead");
    for (const { queue, length, head } of samples) {
      this.#registry.set("queueLength", { queue }, length);
      if (head === undefined) continue;
      const { type, module = "", hook = "" } = head;
      this.#registry.set("queueHead", { queue, module, task_type: type, hook }, 1);
    }
  }

  waited({ module = "", hook = "", binding = "", queue, seconds }: WaitSample): void {
    this.#registry.add("taskWait", { module, hook, binding, queue }, seconds);
  }

  acted({ queue, action, seconds }: { queue: string; action: string; seconds: number }): void {
    this.#registry.observe("queueAction", { queue_name: queue, queue_action: action }, seconds);
  }
}

/** A binding of a hook; `module` is undefined for a global hook. */
interface BindingLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
}
type KubeLabels = BindingLabels & { readonly kind: string };

/** A finished request. `code` is the HTTP status, or `<error>`; `url` has no names in it. */
interface RequestSample {
  readonly code: string;
  readonly method: string;
  readonly host: string;
  readonly url: string;
  readonly component: "main" | "object_patcher";
  readonly seconds: number;
}

const WATCH_ERRORS = ["expired", "eof", "unexpected-eof", "fail", "nil"];

/** The series of the API server and of watches. */
export class KubeSeries {
  readonly #registry: SeriesRegistry;

  constructor(registry: SeriesRegistry) {
    this.#registry = registry;
    for (const type of WATCH_ERRORS) registry.touch("watchErrors", { error_type: type });
  }

  /** Numbers of objects kept for all bindings now. */
  snapshots(samples: readonly (BindingLabels & { readonly objects: number })[]): void {
    this.#registry.clear("snapshotObjects");
    for (const { objects, ...labels } of samples)
      this.#registry.set("snapshotObjects", place(labels), objects);
  }

  filtered(labels: KubeLabels, seconds: number): void {
    this.#registry.observe("filterDuration", { ...place(labels), kind: labels.kind }, seconds);
  }

  event(labels: KubeLabels, seconds: number): void {
    this.#registry.observe("eventDuration", { ...place(labels), kind: labels.kind }, seconds);
  }

  requested({ code, method, host, url, component, seconds }: RequestSample): void {
    this.#registry.add("apiResult", { code, method, host, component });
    this.#registry.observe("apiLatency", { verb: method, url, component }, seconds);
  }

  /** `expired`, `eof`, `unexpected-eof`, `fail` or `nil`. */
  watchFailed(errorType: string): void {
    this.#registry.add("watchErrors", { error_type: errorType });
  }

  bindingMissing(binding: string): void {
    this.#registry.add("bindingMissing", { binding });
  }

  watchRestarted(gvr: string, namespace: string): void {
    this.#registry.add("informerDead", { gvr, namespace });
  }
}

function place({ module, hook, binding, queue }: BindingLabels): Labels {
  return { module: module ?? "", hook, binding, queue };
}
