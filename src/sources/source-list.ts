/** The ModuleSources of the namespace as they are in the cluster, and which one provides a module. */

import type { WatchedObject } from "../kube/index.ts";
import { oneLine } from "../base/index.ts";
import { describeProblem, ProblemError } from "../base/model/index.ts";
import type { IModuleSource } from "../report/index.ts";
import { parseSourceSpec } from "./source-spec.ts";
import type { RequestedModule } from "./locked-modules.ts";
import type { SourceSpec } from "./types.ts";

/** One ModuleSource. */
export interface SourceEntry {
  readonly name: string;
  readonly object: IModuleSource;
  /** Undefined while the spec is invalid and no earlier one was valid. */
  readonly spec: SourceSpec | undefined;
  /** What is wrong with the spec, in one line. */
  readonly problem: string | undefined;
}

/** All ModuleSources, the oldest first. Immutable. */
export class SourceList {
  readonly #byName: ReadonlyMap<string, SourceEntry>;
  readonly #requested: ReadonlyMap<string, RequestedModule>;

  constructor(sources: readonly SourceEntry[] = []) {
    this.#byName = new Map(sources.toSorted(compareByAge).map((source) => [source.name, source]));
    // If several sources name a module, the oldest one provides it.
    const requested = new Map<string, RequestedModule>();
    for (const { name: source, spec } of this.#byName.values())
      for (const [name, request] of spec?.modules ?? [])
        if (!requested.has(name)) requested.set(name, { source, request });
    this.#requested = requested;
  }

  /** A new list with these objects. If a spec is invalid, the last valid spec of that source stays in force. */
  withObjects(objects: readonly WatchedObject[]): SourceList {
    return new SourceList(
      objects.map((object) => readSource(object as unknown as IModuleSource, this.get(object.metadata.name))),
    );
  }

  get(name: string): SourceEntry | undefined {
    return this.#byName.get(name);
  }

  all(): Iterable<SourceEntry> {
    return this.#byName.values();
  }

  /** The modules that sources name, each with the oldest source that names it. */
  get requested(): ReadonlyMap<string, RequestedModule> {
    return this.#requested;
  }

  /** The modules that a source provides. */
  listModules(name: string): string[] {
    return [...this.#requested].filter(([, { source }]) => source === name).map(([module]) => module);
  }

  /**
   * Whether a source may still provide a module that it does not name now: its spec is invalid, or it is suspended. Then
   * no module of it is removed.
   */
  mayStillProvide(source: string): boolean {
    const found = this.get(source);
    return found !== undefined && (found.spec === undefined || found.spec.suspend);
  }
}

/** Identifies the spec of a source. A source that a user deletes and creates again (`uid`) has another one. */
export function identifySpec({ metadata: { uid, generation } }: IModuleSource): string {
  return `${uid} ${generation}`;
}

/** Sorts the older source first, because it wins if two sources name a module; by name if both are equally old. */
function compareByAge({ object: a }: SourceEntry, { object: b }: SourceEntry): number {
  const [left, right] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp ?? ""} ${metadata.name}`);
  return (left ?? "") < (right ?? "") ? -1 : 1;
}

/**
 * Reads one ModuleSource. Parses the spec only if it has changed. If the spec is invalid, `problem` says why, and the spec of
 * `before` stays in force.
 */
function readSource(object: IModuleSource, before: SourceEntry | undefined): SourceEntry {
  const { name } = object.metadata;
  if (before !== undefined && identifySpec(before.object) === identifySpec(object))
    return { ...before, object };
  try {
    return { name, object, spec: parseSourceSpec(object), problem: undefined };
  } catch (error) {
    return { name, object, spec: before?.spec, problem: describeSpecError(name, error) };
  }
}

/** Describes why a spec cannot be used. A value that the CRD refuses, which a user may have changed, can make any error: the other sources stay in force. */
function describeSpecError(name: string, error: unknown): string {
  if (error instanceof ProblemError) return error.problems.map(describeProblem).join("; ");
  return describeProblem({
    file: `ModuleSource ${name}`,
    key: "spec",
    message: `has a value of a type that its CRD forbids: ${oneLine(error)}`,
    remedy: "correct it, and apply the CRDs of this version",
  });
}
