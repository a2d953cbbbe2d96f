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

/** The rules of kstatus for a custom resource, first hit wins (gitops-node-helm §1.2). */
export function kstatus(object: SeenObject): Kstatus {
  const { metadata, status } = object;
  if (metadata.deletionTimestamp !== undefined) return "Terminating";
  const observed = status?.observedGeneration;
  if (observed !== undefined && observed !== metadata.generation) return "InProgress";
  for (const { type, status: value } of status?.conditions ?? []) {
    if (type === "Reconciling" && value === "True") return "InProgress";
    if (type === "Stalled" && value === "True") return "Failed";
  }
  const ready = find(object, "Ready");
  return ready === undefined || ready.status === "True" ? "Current" : "InProgress";
}

/** What must hold of every status ever written; the answer lists violations. */
export function violations(object: SeenObject): string[] {
  const conditions = object.status?.conditions ?? [];
  // The default that the CRD gives an object which nobody has looked at yet.
  if (object.status?.observedGeneration === -1 && conditions.length === 0) return [];
  const ready = find(object, "Ready");
  const reconciling = find(object, "Reconciling");
  const stalled = find(object, "Stalled");
  const generation = object.metadata.generation ?? 0;
  return check([
    [ready === undefined, "Ready is missing"],
    [reconciling !== undefined && stalled !== undefined, "Reconciling and Stalled are both there"],
    [reconciling !== undefined && reconciling.status !== "True", "Reconciling is there but not True"],
    [stalled !== undefined && stalled.status !== "True", "Stalled is there but not True"],
    [stalled !== undefined && ready?.status !== "False", "Stalled, but Ready is not False"],
    [
      ready?.status === "Unknown" && reconciling === undefined,
      "Ready is Unknown, but nothing is Reconciling",
    ],
    [(object.status?.observedGeneration ?? 0) > generation, "observedGeneration is ahead of generation"],
    [conditions.some((c) => (c.observedGeneration ?? 0) > generation), "a condition is ahead of generation"],
    [conditions.some((c) => (c.observedGeneration ?? 0) < 1), "a condition has no observedGeneration"],
    [new Set(conditions.map((c) => c.type)).size !== conditions.length, "a condition is there twice"],
    [conditions.some((c) => /\n/.test(c.message ?? "")), "a message has more than one line"],
  ]);
}

/** Flux's conformance checks, for a status at rest: Ready, Disabled, Invalid (gitops-node-helm §1.2). */
export function conformance(object: SeenObject): string[] {
  const conditions = object.status?.conditions ?? [];
  const ready = find(object, "Ready");
  const negative = conditions.filter((c) => c.type === "Reconciling" || c.type === "Stalled");
  const observed = object.status?.observedGeneration;
  const isReady = ready?.status === "True";
  const generation = object.metadata.generation ?? 0;
  return check([
    [isReady && negative.length > 0, "FAIL0001: Ready with a negative condition"],
    [ready === undefined, "FAIL0002: no Ready"],
    [
      negative.some((c) => c.type === "Reconciling") && ready?.status !== "False",
      "FAIL0003: Reconciling, not False",
    ],
    [negative.some((c) => c.type === "Stalled") && ready?.status !== "False", "FAIL0004: Stalled, not False"],
    [negative.length > 1, "FAIL0005: Reconciling and Stalled"],
    [(observed ?? 0) > generation, "FAIL0006: observedGeneration ahead"],
    [isReady && (observed ?? 0) < generation, "FAIL0007: Ready, but observedGeneration behind"],
    [
      isReady && conditions.some((c) => (c.observedGeneration ?? 0) < generation),
      "FAIL0008: a condition behind",
    ],
    [
      isReady && conditions.some((c) => c.observedGeneration !== observed),
      "FAIL0009: a condition unlike the root",
    ],
    [negative.some((c) => c.status === "False"), "WARN0003/4: a negative condition that is False"],
    [conditions.some((c) => (c.observedGeneration ?? 0) < 1), "WARN0005: no observedGeneration"],
  ]);
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

function check(rules: readonly (readonly [boolean, string])[]): string[] {
  return rules.flatMap(([isBroken, text]) => (isBroken ? [text] : []));
}
