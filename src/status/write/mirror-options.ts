/** The settings of the status mirror. */

import type { KubeAccess, NamedMeta } from "../../kube/index.ts";
import type { KnownSecrets } from "../../lib/index.ts";
import type { Tracer } from "../../trace/index.ts";
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
  /** Called after each write with its result. */
  readonly onWrite?: (kind: ObjectId["kind"], result: "written" | "failed") => void;
  /** Called with the annotations of each object, and the token of the handled request in its status; `module` is undefined for the AddonOperator. */
  readonly onAnnotations: (
    module: string | undefined,
    annotations: NamedMeta["annotations"],
    handledToken: string | undefined,
  ) => void;
  /** The account that a module impersonates; without it, all modules use the operator's service account. */
  readonly identityOf?: IdentityOf;
  /** Called once per module with the run durations in its status, which a restarted operator does not know. */
  readonly onRunSeconds: (module: string, runSeconds: readonly unknown[]) => void;
  /**
   * Called when the AddonOperator's spec has changed. Resolves when the ConfigMap has been read again (quorum read) and
   * recorded: only then may the status have the new `observedGeneration`.
   */
  readonly onSpecChanged: () => Promise<void>;
}
