/** Selectors in a hook's configuration, and how they become those of the API. */

import type { LabelSelector } from "../../model/index.ts";
import type { Complain } from "../kind.ts";
import { STRING, STRINGS, object } from "../shape.ts";
import type { Fits } from "../shape.ts";

const LABEL_OPERATOR = { kind: "string", oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const FIELD_OPERATOR = { kind: "string", oneOf: ["=", "==", "Equals", "!=", "NotEquals"] } as const;

/** `operation` is an older spelling of `operator`; that there is one of the two is checked below. */
const LABEL_EXPRESSION = object(
  { key: STRING, operator: LABEL_OPERATOR, operation: LABEL_OPERATOR, values: STRINGS },
  { required: ["key"] },
);
const FIELD_EXPRESSION = object(
  { field: STRING, operator: FIELD_OPERATOR, operation: FIELD_OPERATOR, value: STRING },
  { required: ["field", "value"] },
);
export const LABEL_SELECTOR = object(
  { matchLabels: { kind: "map", of: STRING }, matchExpressions: { kind: "array", of: LABEL_EXPRESSION } },
  { min: 1 },
);
export const FIELD_SELECTOR = object(
  { matchExpressions: { kind: "array", of: FIELD_EXPRESSION } },
  { required: ["matchExpressions"] },
);
export const NAME_SELECTOR = object({ matchNames: STRINGS }, { required: ["matchNames"] });

const LABEL_KEY =
  /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

interface ConfigPath {
  readonly path: string;
  readonly complain: Complain;
}

/** A label selector in the API's form; both spellings of `operator` are accepted. */
export function labelSelector(
  raw: Fits<typeof LABEL_SELECTOR> | undefined,
  place: ConfigPath,
): LabelSelector | undefined {
  if (raw === undefined) return undefined;
  for (const [key, value] of Object.entries(raw.matchLabels ?? {})) {
    checkKey(key, { ...place, path: `${place.path}.matchLabels` });
    checkValue(value, { ...place, path: `${place.path}.matchLabels.${key}` });
  }
  const matchExpressions = raw.matchExpressions?.map((expression, index) =>
    labelExpression(expression, { ...place, path: `${place.path}.matchExpressions[${index}]` }),
  );
  return {
    ...(raw.matchLabels === undefined ? {} : { matchLabels: raw.matchLabels }),
    ...(matchExpressions === undefined ? {} : { matchExpressions }),
  };
}

type Expression = NonNullable<LabelSelector["matchExpressions"]>[number];

function labelExpression(raw: Fits<typeof LABEL_EXPRESSION>, place: ConfigPath): Expression {
  const operator = raw.operator ?? raw.operation;
  const values = raw.values ?? [];
  checkKey(raw.key, { ...place, path: `${place.path}.key` });
  for (const value of values) checkValue(value, { ...place, path: `${place.path}.values` });
  checkOperator(operator, values.length, place);
  return { key: raw.key, operator: operator ?? "Exists", ...(values.length > 0 ? { values } : {}) };
}

function checkOperator(operator: string | undefined, values: number, { path, complain }: ConfigPath): void {
  if (operator === undefined) return complain(`${path}.operator is required`);
  const wanted = takesValues(operator);
  if (wanted && values === 0) complain(`${path}.values must not be empty for operator ${operator}`);
  if (!wanted && values > 0) complain(`${path}.values must be empty for operator ${operator}`);
}

function takesValues(operator: string): boolean {
  return operator === "In" || operator === "NotIn";
}

function checkKey(key: string, { path, complain }: ConfigPath): void {
  if (!LABEL_KEY.test(key)) complain(`${path} is invalid: ${JSON.stringify(key)} is no label key`);
}

function checkValue(value: string, { path, complain }: ConfigPath): void {
  if (!LABEL_VALUE.test(value)) complain(`${path} is invalid: ${JSON.stringify(value)} is no label value`);
}

/** A field selector in the API's syntax, with its values escaped. */
export function fieldSelector(
  raw: Fits<typeof FIELD_SELECTOR> | undefined,
  { path, complain }: ConfigPath,
): string | undefined {
  if (raw === undefined || raw.matchExpressions.length === 0) return undefined;
  return raw.matchExpressions
    .map((expression, index) => {
      const operator = expression.operator ?? expression.operation;
      if (operator === undefined) complain(`${path}.matchExpressions[${index}].operator is required`);
      const sign = operator === "!=" || operator === "NotEquals" ? "!=" : "=";
      return `${expression.field}${sign}${expression.value.replaceAll(/[\\,=]/g, String.raw`\$&`)}`;
    })
    .join(",");
}

/** An empty list of names selects all. */
export function someOf(names: string[] | undefined): string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}
