/** Values that break a schema, each by one change whose place is known. */

import { readFileSync } from "node:fs";

export interface Dice {
  readonly below: (limit: number) => number;
  readonly pick: <T>(from: readonly T[]) => T;
}

export function diceOf(roll: () => number): Dice {
  const below = (limit: number): number => Math.floor(roll() * limit);
  return { below, pick: <T>(from: readonly T[]): T => from[below(from.length)] as T };
}

export type Schema = {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly pattern?: string;
  readonly minimum?: number;
};

const addonSchema = JSON.parse(
  readFileSync(new URL("../../src/modules/addon.schema.json", import.meta.url), "utf8"),
) as Schema;

/** `addon.yaml` of a module, with a value for each key that does not change what happens. */
export const ADDON = {
  requires: { kubernetes: ">=1.20", objects: [{ apiVersion: "v1", kind: "ConfigMap", name: "seed" }] },
  helm: { timeout: "1m", wait: false, takeOwnership: false, apply: "auto" },
  health: {
    timeout: "1m",
    readinessProbe: true,
    ignore: [{ kind: "Job", name: "none" }],
    checks: [{ apiVersion: "example.com/v1", kind: "Backup", cel: "object.status.done" }],
  },
  drift: { ignore: [{ kind: "Deployment", paths: ["/spec/replicas"] }] },
  onFailure: "retry",
  retries: 3,
  valuesFrom: [{ kind: "ConfigMap", name: "none", key: "a", optional: true }],
  after: ["app"],
};

/** A value of another type than the schema's, or out of its range. */
function wrongFor({ type, enum: values, pattern, minimum }: Schema, { pick }: Dice): unknown {
  const others = [5, -0.5, true, "text", [1], { a: 1 }];
  const typeOf = (value: unknown): string => (Array.isArray(value) ? "array" : typeof value);
  const wrong: unknown[] = others.filter(
    (each) => typeOf(each) !== (type === "integer" ? "number" : (type ?? "string")),
  );
  if (values) return pick([...wrong, "no such word"]);
  if (pattern !== undefined) wrong.push("UPPER CASE!");
  if (minimum !== undefined) wrong.push(minimum - 1, minimum + 0.5);
  return pick(wrong);
}

/** A copy of a valid value with one change that its schema forbids, and the key where it is. */
export function violate(
  value: unknown,
  schema: Schema,
  dice: Dice,
): { readonly value: unknown; readonly key: string | undefined } {
  const { pick, below } = dice;
  if (Array.isArray(value) && schema.items && value.length > 0 && below(3) > 0) {
    const inner = violate(value[0], schema.items, dice);
    return { value: [inner.value, ...(value.slice(1) as unknown[])], key: inner.key };
  }
  const entries = Object.entries((value ?? {}) as object).filter(([key]) => schema.properties?.[key]);
  if (schema.properties && entries.length > 0) {
    if (below(8) === 0) return { value: { ...(value as object), nowhere: 1 }, key: "nowhere" };
    const [key, inner] = pick(entries) as [string, unknown];
    if (schema.required?.includes(key) && below(2) === 0) {
      const { [key]: _, ...others } = value as Record<string, unknown>;
      return { value: others, key };
    }
    const found = violate(inner, schema.properties[key] ?? {}, dice);
    return { value: { ...(value as object), [key]: found.value }, key: found.key ?? key };
  }
  return { value: wrongFor(schema, dice), key: undefined };
}

/** The content of an `addon.yaml` with one fault, and the key where it is. */
export function violateAddon(dice: Dice): ReturnType<typeof violate> {
  return violate(ADDON, addonSchema, dice);
}
