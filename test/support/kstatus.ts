import { isModel, schemaViolations } from "./models.ts";

/** What kstatus makes of an object: what Flux, `kubectl wait` recipes and others go by. */
export type Kstatus = "Terminating" | "InProgress" | "Failed" | "Current";

interface SeenCondition {
  readonly type: string;
  readonly status: string;
  readonly observedGeneration?: number;
  readonly reason?: string;
  readonly message?: string;
}

/** As much of an object as the rules look at. */
export interface SeenObject {
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly resourceVersion?: string;
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly state?: string;
    readonly conditions?: readonly SeenCondition[];
  };
}

/** The rules of kstatus for a custom resource, first hit wins. */
export function kstatus(object: SeenObject): Kstatus {
  const { metadata, status = {} } = object;
  if (metadata.deletionTimestamp !== undefined) return "Terminating";
  const observed = status.observedGeneration;
  if (observed !== undefined && observed !== metadata.generation) return "InProgress";
  const first = status.conditions?.find(({ type, status: value }) => value === "True" && type in NEGATIVE);
  if (first !== undefined) return NEGATIVE[first.type] ?? "InProgress";
  return [undefined, "True"].includes(find(object, "Ready")?.status) ? "Current" : "InProgress";
}

/** Conditions that decide by themselves, in the order they stand in. */
const NEGATIVE: Readonly<Record<string, Kstatus>> = { Reconciling: "InProgress", Stalled: "Failed" };

/** What the rules below look at. */
interface Facts {
  readonly conditions: readonly SeenCondition[];
  readonly ready: string | undefined;
  readonly reconciling: string | undefined;
  readonly stalled: string | undefined;
  readonly generation: number;
  readonly observed: number;
  /** observedGeneration of each condition. */
  readonly seen: readonly number[];
}

type Rule = readonly [text: string, isBroken: (facts: Facts) => boolean];

const ALWAYS: readonly Rule[] = [
  ["Ready is missing", (f) => f.ready === undefined],
  ["Reconciling and Stalled are both there", (f) => f.reconciling !== undefined && f.stalled !== undefined],
  ["Reconciling is there but not True", (f) => ![undefined, "True"].includes(f.reconciling)],
  ["Stalled is there but not True", (f) => ![undefined, "True"].includes(f.stalled)],
  ["Stalled, but Ready is not False", (f) => f.stalled !== undefined && f.ready !== "False"],
  [
    "Ready is Unknown without Reconciling",
    // Of a suspended module, objects can be in progress although the operator does nothing.
    (f) =>
      f.ready === "Unknown" &&
      f.reconciling === undefined &&
      !f.conditions.some(({ type, status }) => type === "Suspended" && status === "True"),
  ],
  ["observedGeneration is ahead of generation", (f) => f.observed > f.generation],
  ["a condition is ahead of generation", (f) => f.seen.some((seen) => seen > f.generation)],
  ["a condition has no observedGeneration", (f) => f.seen.some((seen) => seen < 1)],
  ["a condition is there twice", (f) => new Set(f.conditions.map((c) => c.type)).size < f.conditions.length],
  ["a message has more than one line", (f) => f.conditions.some((c) => c.message?.includes("\n") === true)],
];

const AT_REST_RULES: readonly Rule[] = [
  ["FAIL0001: Ready with a negative condition", (f) => f.ready === "True" && isNegative(f)],
  ["FAIL0002: no Ready", (f) => f.ready === undefined],
  ["FAIL0003: Reconciling, but Ready not False", (f) => f.reconciling !== undefined && f.ready !== "False"],
  ["FAIL0004: Stalled, but Ready not False", (f) => f.stalled !== undefined && f.ready !== "False"],
  ["FAIL0005: Reconciling and Stalled", (f) => f.reconciling !== undefined && f.stalled !== undefined],
  ["FAIL0006: observedGeneration ahead", (f) => f.observed > f.generation],
  ["FAIL0007: Ready, but observedGeneration behind", (f) => f.ready === "True" && f.observed < f.generation],
  [
    "FAIL0008: Ready, but a condition behind",
    (f) => f.ready === "True" && f.seen.some((s) => s < f.generation),
  ],
  [
    "FAIL0009: a condition unlike the root",
    (f) => f.ready === "True" && f.seen.some((s) => s !== f.observed),
  ],
  ["WARN0003: Reconciling is False", (f) => f.reconciling === "False"],
  ["WARN0004: Stalled is False", (f) => f.stalled === "False"],
  ["WARN0005: a condition without observedGeneration", (f) => f.seen.some((seen) => seen < 1)],
];

function isNegative(facts: Facts): boolean {
  return facts.reconciling !== undefined || facts.stalled !== undefined;
}

/** What must hold of every status ever written; the answer lists violations, also of the CRD. */
export function violations(object: SeenObject): string[] {
  // The default that the CRD gives an object which nobody has looked at yet.
  if (object.status?.observedGeneration === -1 && object.status.conditions === undefined) return [];
  return [...(isModel(object) ? schemaViolations(object) : []), ...broken(ALWAYS, object)];
}

/** Flux's conformance checks, for a status at rest: Ready, Disabled, Invalid. */
export function conformance(object: SeenObject): string[] {
  return broken(AT_REST_RULES, object);
}

function broken(rules: readonly Rule[], object: SeenObject): string[] {
  const conditions = object.status?.conditions ?? [];
  const facts: Facts = {
    conditions,
    ready: find(object, "Ready")?.status,
    reconciling: find(object, "Reconciling")?.status,
    stalled: find(object, "Stalled")?.status,
    generation: object.metadata.generation ?? 0,
    observed: object.status?.observedGeneration ?? 0,
    seen: conditions.map((condition) => condition.observedGeneration ?? 0),
  };
  return rules.filter(([, isBroken]) => isBroken(facts)).map(([text]) => text);
}

const AT_REST = new Set(["Ready", "Disabled", "Invalid"]);

/** Takes every version of every object that was seen, and throws on the first violation. */
export class StatusOracle {
  readonly seen: SeenObject[] = [];

  /** One version of one object, as a watch or an answer gave it. */
  record(object: SeenObject): void {
    this.seen.push(object);
    const isAtRest = AT_REST.has(object.status?.state ?? "");
    const found = [...violations(object), ...(isAtRest && !isOld(object) ? conformance(object) : [])];
    if (found.length === 0) return;
    const { kind = "object", metadata, status } = object;
    throw new Error(`${kind} ${metadata.name}: ${found.join("; ")}\n${JSON.stringify({ metadata, status })}`);
  }
}

/** The spec has moved and the status follows in a moment: such an object is not at rest. */
function isOld({ metadata, status }: SeenObject): boolean {
  return (status?.observedGeneration ?? 0) < (metadata.generation ?? 0);
}

function find(object: SeenObject, type: string): SeenCondition | undefined {
  return object.status?.conditions?.find((condition) => condition.type === type);
}
