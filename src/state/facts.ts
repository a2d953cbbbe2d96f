/** What others report to the state. */

import type { EnabledBy, Problem } from "../model/index.ts";
import type { ParsedConfig } from "../values/index.ts";
import type { ConfigCondition } from "./view.ts";

/** A decision of modules discovery about one module. */
export interface Decision {
  readonly enabled: boolean;
  readonly by: EnabledBy;
  readonly reason?: string | undefined;
  readonly problem?: Problem;
}

/** The state of the ConfigMap on the server. */
export interface ConfigObservation {
  readonly condition: ConfigCondition;
  readonly problems: readonly Problem[];
  readonly resourceVersion: string | undefined;
  /** New content to take into force; undefined keeps the last good one. */
  readonly content?: ParsedConfig;
  readonly overlay?: ParsedConfig | undefined;
}
