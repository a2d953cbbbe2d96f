/** What is asked of a module's release, and what comes of it. */

import type { HealthVerdict } from "../health/index.ts";
import type { Json, JsonObject, Module } from "../model/index.ts";
import type { OnWait } from "./binary/hook-watch.ts";
import type { Release } from "./release/observed-releases.ts";

/** The outcome of a helm step. */
export interface ReleaseOutcome {
  /** `restored`: the release was right, and missing objects were put back. */
  readonly action: "unchanged" | "labelled" | "restored" | "installed" | "upgraded" | "rolledBack";
  /** Why these inputs are not in force, and what is; undefined where they are. */
  readonly refused?: string | undefined;
  /** It is to be rejected, but nothing good is there to go back to. */
  readonly hasNoWayBack?: boolean;
  readonly release: Release | undefined;
  /** A release that a dead helm had left unfinished was recovered first. */
  readonly recovered: boolean;
}

/** What a module's release is made from. */
export interface HelmInput {
  readonly module: Pick<
    Module,
    "name" | "valuesKey" | "chartDir" | "chart" | "helm" | "onFailure" | "retries"
  >;
  /** JSON with `global` and the module's section. */
  readonly values: string;
  /** Digest of what people say of them: without what hooks change. */
  readonly given?: () => string;
}

export interface ReconcileRequest extends HelmInput {
  /** Missing objects of the release, as `nameOf` names them, with their namespaces. */
  readonly absent?: readonly string[];
  /** A person asks for the run: what was rejected is tried again. */
  readonly isAsked?: boolean;
  /** Where health counts: the release is not healthy yet, or in time; then it is rejected, unless it was good before. */
  readonly ailing?: Pick<HealthVerdict, "status" | "message"> | undefined;
  readonly signal: AbortSignal;
  /** Called with the chart's hook that a long run of helm waits for, and with undefined when it is over. */
  readonly onWait?: OnWait;
}

/** The CRDs of a module. */
export interface CrdRequest {
  /** Those of sub-charts that are on among them. */
  readonly files: readonly string[];
  /** The breaking change that a person has confirmed, by its token. */
  readonly confirmed?: string | undefined;
}

/** What a difference is made of. */
export interface DiffRequest extends ReconcileRequest {
  readonly crds: CrdRequest;
  /** What of an object is shown. */
  readonly shown: (object: JsonObject) => Json;
}
