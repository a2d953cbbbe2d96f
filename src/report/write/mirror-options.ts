/** The settings of the status mirror. */

import type { KubeAccess } from "../../kube/index.ts";
import type { KnownSecrets } from "../../base/index.ts";
import type { Tracer } from "../../base/trace/index.ts";
import type { Annotations, WatchedConfig } from "../../config/index.ts";
import type { StatusValues } from "../project/displayed-values.ts";
import type { IdentityOf } from "../project/projector.ts";
import type { HelmRelease } from "./own-objects.ts";
import type { ObjectId } from "./mirrored.ts";

/** What a `StatusMirror` needs from outside, and whom it notifies. */
export interface MirrorOptions extends KubeAccess {
  /** Name of the AddonOperator: the ConfigMap's. */
  readonly operatorName: string;
  /** Removes secrets from every text. */
  readonly secrets: KnownSecrets;
  readonly tracer?: Pick<Tracer, "traceStatusWrite"> | undefined;
  readonly statusValues: StatusValues;
  /** Release of the operator's own chart, for the ownership marks of an AddonOperator created here. */
  readonly helmRelease?: HelmRelease | undefined;
  readonly report: StatusReport;
  /** Handles the annotations of each object. */
  readonly annotations: Pick<Annotations, "handleAnnotations">;
  /**
   * Reads the ConfigMap again (quorum read) and records it when the AddonOperator's spec has changed: only then may the status have the
   * new `observedGeneration`.
   */
  readonly config: Pick<WatchedConfig, "refresh">;
  /** Describe the account that a module impersonates; without them, all modules use the operator's service account. */
  readonly actors?: { readonly describeIdentity: IdentityOf };
}

/** Reports what the mirror has written and read. */
export interface StatusReport {
  statusWritten(kind: ObjectId["kind"], result: "written" | "failed"): void;
  /** The status of a module has these durations of runs, which a restarted operator does not know. */
  runSecondsRead(module: string, runSeconds: readonly unknown[]): void;
}
