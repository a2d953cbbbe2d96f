/** The forms of items of `kubernetes`, and items that have them as types. */

import type { WatchEvent } from "../../model/index.ts";
import { BOOLEAN, ITEM_FIELDS, STRING, STRINGS } from "../item.ts";
import type { RawItem } from "../item.ts";
import { object } from "../shape.ts";
import type { Shape } from "../shape.ts";

const LABEL_OPERATOR = { kind: "string", oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const FIELD_OPERATOR = { kind: "string", oneOf: ["=", "==", "Equals", "!=", "NotEquals"] } as const;
const EVENTS: Shape = { kind: "array", of: { kind: "string", oneOf: ["Added", "Modified", "Deleted"] } };

/**
 * `operation` is an older spelling of `operator`; that one of the two is there is checked where selectors are read.
 */
export const LABEL_SELECTOR = object(
  {
    matchLabels: { kind: "map", of: STRING },
    matchExpressions: {
      kind: "array",
      of: object(
        { key: STRING, operator: LABEL_OPERATOR, operation: LABEL_OPERATOR, values: STRINGS },
        { required: ["key"] },
      ),
    },
  },
  { min: 1 },
);
const FIELD_SELECTOR = object(
  {
    matchExpressions: {
      kind: "array",
      of: object(
        { field: STRING, operator: FIELD_OPERATOR, operation: FIELD_OPERATOR, value: STRING },
        { required: ["field", "value"] },
      ),
    },
  },
  { required: ["matchExpressions"] },
);
const NAME_SELECTOR = object({ matchNames: STRINGS }, { required: ["matchNames"] });

/** An item of `kubernetes`. */
export const KUBERNETES = object(
  {
    ...ITEM_FIELDS,
    apiVersion: STRING,
    kind: STRING,
    executeHookOnEvent: EVENTS,
    watchEvent: EVENTS,
    executeHookOnSynchronization: BOOLEAN,
    waitForSynchronization: BOOLEAN,
    keepFullObjectsInMemory: BOOLEAN,
    jqFilter: STRING,
    resynchronizationPeriod: STRING,
    nameSelector: NAME_SELECTOR,
    labelSelector: LABEL_SELECTOR,
    fieldSelector: FIELD_SELECTOR,
    namespace: object({ nameSelector: NAME_SELECTOR, labelSelector: LABEL_SELECTOR }, { min: 1 }),
  },
  { required: ["kind"] },
);

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

export interface RawKubernetes extends RawItem {
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
