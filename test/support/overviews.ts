import type { View } from "../../src/engine/state/index.ts";
import { type Overview } from "../../src/report/index.ts";
import { T0, finished, moduleView, viewOf, overviewOf } from "../report/views.ts";

/** Two modules that are Ready. */
export function calmOverview(): Overview {
  return overviewOf({ view: viewOf([moduleView("db"), moduleView("shop")]), queues: [] }, T0);
}

/** One module fails, one waits for it, one has drifted, one is off. */
export function ailingView(): View {
  const failed = finished({
    result: "Failed",
    step: "helm",
    attempts: 3,
    startedAt: T0 - 65_000,
    finishedAt: T0 - 60_000,
  });
  const db = moduleView("db", {
    lastRun: failed,
    retry: {
      reason: "HelmFailed",
      message: "helm upgrade: timeout: StatefulSet db/db is not ready",
      failures: 3,
      since: T0 - 120_000,
    },
  });
  const waiting = moduleView("web", {
    phase: "new",
    lastRun: undefined,
    release: undefined,
    blockedSince: T0 - 60_000,
  });
  const web = {
    ...waiting,
    module: { ...waiting.module, chartVersion: "2.0.0", requires: { modules: { db: "*" } } },
  };
  const fields = [{ field: "spec.replicas", manager: "kubectl", at: undefined, removed: false }];
  const changed = {
    object: "shop/Deployment/web",
    title: "Deployment shop/web",
    fields,
    isRepairDelayed: false,
  };
  const shop = moduleView("shop", { drift: { count: 2, objects: [changed] } });
  const off = moduleView("cache", { enabled: false, enabledBy: "none", release: undefined });
  return viewOf([db, web, shop, off]);
}

/** The same at a glance. */
export function ailingOverview(): Overview {
  return overviewOf({ view: ailingView(), queues: [] }, T0);
}
