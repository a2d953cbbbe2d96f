/** What the sources of facts report besides the events of the state. */

import type { DriftedObject } from "../kube/drift/index.ts";
import type { Health } from "../kube/health/index.ts";

/** How the directories are watched, for metrics. */
export interface WatchHealth {
  /** Directories with a kernel watch. */
  readonly watchCount: number;
  /** The kernel has no watches left: the directories are polled. */
  readonly isPolling: boolean;
}

/** Reports what happened; its methods are cheap and never throw. */
export interface TriggerReport {
  /** The ConfigMap has become invalid or is missing. */
  configUnusable(reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string): void;
  /** A watch of the operator's own objects fails; undefined = it works again. */
  ownWatchChanged(what: string, error: Error | undefined): void;
  dirsScanned(health: WatchHealth): void;
  objectMissing(module: string, object: string): void;
  objectDrifted(module: string, object: DriftedObject, isRepaired: boolean): void;
  /** The health of a release has changed; undefined = the release is not watched any more. */
  healthChanged(module: string, health: Health | undefined): void;
}
