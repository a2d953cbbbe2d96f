/** The forms that a hook's configuration may have, for both versions. */

import type { ObjectShape, Shape } from "./shape.ts";

const STRING = { kind: "string" } as const;
const BOOLEAN = { kind: "boolean" } as const;
const ORDER = { kind: "integer" } as const;
const STRINGS = { kind: "array", of: STRING } as const;
const SOME_STRINGS = { kind: "array", of: STRING, min: 1 } as const;

const LABEL_OPERATOR = { kind: "string", oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const FIELD_OPERATOR = { kind: "string", oneOf: ["=", "==", "Equals", "!=", "NotEquals"] } as const;
const EVENTS: Shape = { kind: "array", of: { kind: "string", oneOf: ["Added", "Modified", "Deleted"] } };

function object(fields: Record<string, Shape>, rest: Omit<ObjectShape, "kind" | "fields"> = {}): ObjectShape {
  return { kind: "object", fields, ...rest };
}

function items(of: Shape): Shape {
  return { kind: "array", of, min: 1 };
}

/**
 * `operation` is an older spelling of `operator`; that one of the two is there is checked where selectors are read.
 */
const LABEL_SELECTOR = object(
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

const LIFECYCLE = {
  onStartup: ORDER,
  beforeAll: ORDER,
  afterAll: ORDER,
  beforeHelm: ORDER,
  afterHelm: ORDER,
  beforeDeleteHelm: ORDER,
  afterDeleteHelm: ORDER,
} as const;

const EVENT_FIELDS = {
  name: STRING,
  allowFailure: BOOLEAN,
  queue: STRING,
  group: STRING,
  includeSnapshotsFrom: SOME_STRINGS,
} as const;

/** What a configuration of version 1 may hold. */
export const V1 = object(
  {
    configVersion: STRING,
    settings: object({ executionMinInterval: STRING, executionMinPeriod: STRING, executionBurst: ORDER }),
    ...LIFECYCLE,
    schedule: items(object({ ...EVENT_FIELDS, crontab: STRING }, { required: ["crontab"] })),
    kubernetes: items(
      object(
        {
          ...EVENT_FIELDS,
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
      ),
    ),
  },
  { min: 2 },
);

/** Version 0 (docs/HOOKS.md, "The old configuration"); unknown keys inside the items are tolerated. */
export const V0 = object(
  {
    ...LIFECYCLE,
    schedule: items(
      object({ name: STRING, crontab: STRING, allowFailure: BOOLEAN }, { required: ["crontab"], open: true }),
    ),
    onKubernetesEvent: items(
      object(
        {
          name: STRING,
          kind: STRING,
          event: STRINGS,
          selector: LABEL_SELECTOR,
          objectName: STRING,
          namespaceSelector: object({ matchNames: STRINGS, any: BOOLEAN }, { open: true }),
          jqFilter: STRING,
          allowFailure: BOOLEAN,
          disableDebug: BOOLEAN,
        },
        { required: ["kind"], open: true },
      ),
    ),
  },
  { min: 1 },
);
