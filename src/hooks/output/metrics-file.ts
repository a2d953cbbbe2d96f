/** Reads the metrics file of a hook (docs/reference/hooks.md, "Metrics"). */

import { oneLine } from "../../base/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/model/index.ts";
import { throwOutputError, readOptionalText, parseJsonStream, type StreamItem } from "./output-files.ts";

interface Series {
  readonly name: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly group: string | undefined;
}

/** One line of a metrics file. */
export type MetricOperation =
  | (Series & { readonly action: "add" | "set" })
  | (Series & { readonly action: "observe"; readonly buckets: readonly number[] })
  | { readonly action: "expire"; readonly group: string | undefined; readonly name: string | undefined };

const ACTIONS = ["add", "set", "observe", "expire"] as const;
type Action = (typeof ACTIONS)[number];

/** Replaces `{PREFIX}` in names: the prefix of the operator's own metrics. */
const METRIC_NAME = /^(?:\{PREFIX\})?[a-zA-Z_:][a-zA-Z0-9_:]*$/;
/** Most characters of the name of a metric or a label, and of a group. */
const MAX_NAME_LENGTH = 256;
/** Most characters of the value of a label. */
const MAX_LABEL_LENGTH = 2000;
const LABEL_NAME = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Reads and checks a metrics file. All operations that write a metric must have one action. Throws OutputError. */
export function parseMetrics(text: string): MetricOperation[] {
  const operations = parseJsonStream(text).map(readOperationAt);
  const actionsByMetric = new Map<string, string>();
  for (const operation of operations) {
    if (operation.action === "expire") continue;
    const { name, action } = operation;
    const firstAction = actionsByMetric.get(name) ?? action;
    if (action !== firstAction)
      throwOutputError(`metric ${name} is used with '${firstAction}' and with '${action}'`);
    actionsByMetric.set(name, action);
  }
  return operations;
}

/** Reads one operation; errors name its position in the file. */
function readOperationAt({ value, position }: StreamItem): MetricOperation {
  try {
    return readOperation(value);
  } catch (error) {
    return throwOutputError(`${position}: ${oneLine(error)}`);
  }
}

/** Reads one operation: `add` and `set` write a counter or gauge, `observe` a histogram, `expire` removes series. */
function readOperation(value: JsonObject): MetricOperation {
  const { action, amount } = readAction(value);
  const group = readOptionalText(value, "group");
  if (group !== undefined) checkLength("'group'", group, MAX_NAME_LENGTH);
  if (action === "expire") return { action, group, name: readOptionalName(value) };
  const series = { ...readSeries(value, amount), group };
  if (action === "add" && series.value < 0) throwOutputError("'value' must not be negative for action 'add'");
  return action === "observe" ? { ...series, action, buckets: readBuckets(value) } : { ...series, action };
}

/** The action of an operation and its value. `{"add": 1}` and `{"set": 1}` are short forms of action and value. */
function readAction(value: JsonObject): { action: Action; amount: Json | undefined } {
  const actionKeys = [value.action, value.add, value.set].filter(
    (each) => each !== undefined && each !== null,
  );
  if (actionKeys.length === 0) throwOutputError("'action' is required: one of add, set, observe, expire");
  if (actionKeys.length > 1) throwOutputError("give only one of 'action', 'add' and 'set'");
  // 0 is an amount, too.
  if (typeof value.add === "number" || value.add) return { action: "add", amount: value.add };
  if (typeof value.set === "number" || value.set) return { action: "set", amount: value.set };
  const action = ACTIONS.find((each) => each === value.action);
  return {
    action: action ?? throwOutputError(`'action' must be one of ${ACTIONS.join(", ")}`),
    amount: value.value,
  };
}

/** Name, value and labels of an operation that writes a series. */
function readSeries(value: JsonObject, amount: Json | undefined): Omit<Series, "group"> {
  const name = readOptionalName(value) ?? throwOutputError("'name' is required");
  if (amount === undefined || amount === null) return throwOutputError(`metric ${name}: 'value' is required`);
  if (typeof amount !== "number") return throwOutputError(`metric ${name}: 'value' must be a number`);
  return { name, value: amount, labels: readLabels(value.labels ?? {}) };
}

/** The metric name, which may be missing. */
function readOptionalName(value: JsonObject): string | undefined {
  const name = readOptionalText(value, "name");
  if (name !== undefined) checkLength("'name'", name, MAX_NAME_LENGTH);
  if (name !== undefined && !METRIC_NAME.test(name))
    throwOutputError("'name' is no metric name (letters, digits, _ and :)");
  return name;
}

function readLabels(labels: Json): Record<string, string> {
  if (!isJsonObject(labels)) return throwOutputError("'labels' must be an object");
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => {
      checkLength("a name in 'labels'", name, MAX_NAME_LENGTH);
      if (!LABEL_NAME.test(name))
        throwOutputError("a name in 'labels' is no label name (letters, digits and _)");
      if (typeof value !== "string") return throwOutputError(`label ${name} must be a string`);
      checkLength(`label ${name}`, value, MAX_LABEL_LENGTH);
      return [name, value];
    }),
  );
}

/** Throws OutputError for a text with more than `limit` characters. */
function checkLength(what: string, text: string, limit: number): void {
  if (text.length > limit) throwOutputError(`${what} has more than ${limit} characters`);
}

/** The bucket bounds of an `observe`: numbers that ascend. */
function readBuckets({ buckets }: JsonObject): number[] {
  if (!Array.isArray(buckets) || buckets.length === 0)
    return throwOutputError("'buckets' is required for action 'observe'");
  const numbers = buckets.map((bucket) =>
    typeof bucket === "number" ? bucket : throwOutputError("'buckets' must be numbers"),
  );
  const ascending = numbers.every((bucket, index) => index === 0 || bucket > (numbers[index - 1] ?? bucket));
  return ascending ? numbers : throwOutputError("'buckets' must ascend");
}
