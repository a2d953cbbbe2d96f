/** Records requests and watches in their series. */

import type { Labels, SeriesRegistry } from "../registry.ts";

/** A binding of a hook; `module` is undefined for a global hook. */
interface KubeLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
  readonly kind: string;
}

/** A finished request. `code` is the HTTP status, or `<error>`; `url` has no names in it. */
interface RequestSample {
  readonly code: string;
  readonly method: string;
  readonly host: string;
  readonly url: string;
  readonly component: "main" | "object_patcher";
  readonly seconds: number;
}

/** What is recorded about the API server. */
export interface KubeRecorder {
  /** Numbers of objects kept for all bindings now. */
  snapshots(samples: readonly (Omit<KubeLabels, "kind"> & { readonly objects: number })[]): void;
  filtered(labels: KubeLabels, seconds: number): void;
  event(labels: KubeLabels, seconds: number): void;
  requested(request: RequestSample): void;
  /** `expired`, `eof`, `unexpected-eof`, `fail` or `nil`. */
  watchFailed(errorType: string): void;
  bindingMissing(binding: string): void;
  watchRestarted(gvr: string, namespace: string): void;
}

const WATCH_ERRORS = ["expired", "eof", "unexpected-eof", "fail", "nil"];

/** The series of the API server and of watches. */
export function kubeRecorder(registry: SeriesRegistry): KubeRecorder {
  for (const type of WATCH_ERRORS) registry.touch("watchErrors", { error_type: type });
  return {
    snapshots(samples) {
      registry.clear("snapshotObjects");
      for (const { objects, ...labels } of samples) registry.set("snapshotObjects", place(labels), objects);
    },
    filtered: (labels, seconds) => registry.observe("filterDuration", binding(labels), seconds),
    event: (labels, seconds) => registry.observe("eventDuration", binding(labels), seconds),
    requested({ code, method, host, url, component, seconds }) {
      registry.add("apiResult", { code, method, host, component });
      registry.observe("apiLatency", { verb: method, url, component }, seconds);
    },
    watchFailed: (errorType) => registry.add("watchErrors", { error_type: errorType }),
    bindingMissing: (binding) => registry.add("bindingMissing", { binding }),
    watchRestarted: (gvr, namespace) => registry.add("informerDead", { gvr, namespace }),
  };
}

function binding(labels: KubeLabels): Labels {
  return { ...place(labels), kind: labels.kind };
}

function place({ module, hook, binding, queue }: Omit<KubeLabels, "kind">): Labels {
  return { module: module ?? "", hook, binding, queue };
}
