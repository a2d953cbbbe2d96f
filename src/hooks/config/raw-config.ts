/** The types of configurations that have the forms of config-shapes.ts. */

import type { WatchEvent } from "../../model/index.ts";

/** Configurations that fit the shapes of `config-shapes.ts`, as types. */
type LabelOperator = "In" | "NotIn" | "Exists" | "DoesNotExist";

export interface RawLabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator?: LabelOperator;
    operation?: LabelOperator;
    values?: string[];
  }[];
}

export interface RawFieldSelector {
  matchExpressions: { field: string; operator?: string; operation?: string; value: string }[];
}

interface RawEventBinding {
  name?: string;
  allowFailure?: boolean;
  queue?: string;
  group?: string;
  includeSnapshotsFrom?: string[];
}

export interface RawSchedule extends RawEventBinding {
  crontab: string;
}

export interface RawKubernetes extends RawEventBinding {
  apiVersion?: string;
  kind: string;
  executeHookOnEvent?: WatchEvent[];
  watchEvent?: WatchEvent[];
  executeHookOnSynchronization?: boolean;
  waitForSynchronization?: boolean;
  keepFullObjectsInMemory?: boolean;
  jqFilter?: string;
  nameSelector?: { matchNames: string[] };
  labelSelector?: RawLabelSelector;
  fieldSelector?: RawFieldSelector;
  namespace?: { nameSelector?: { matchNames: string[] }; labelSelector?: RawLabelSelector };
}

export interface RawKubernetesEvent {
  name?: string;
  kind: string;
  event?: string[];
  selector?: RawLabelSelector;
  objectName?: string;
  namespaceSelector?: { matchNames?: string[]; any?: boolean };
  jqFilter?: string;
  allowFailure?: boolean;
}

export interface RawSettings {
  executionMinInterval?: string;
  executionMinPeriod?: string;
  executionBurst?: number;
}

export interface RawConfig {
  settings?: RawSettings;
  schedule?: RawSchedule[];
  kubernetes?: RawKubernetes[];
  onKubernetesEvent?: RawKubernetesEvent[];
}
