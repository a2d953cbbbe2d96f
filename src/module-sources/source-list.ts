/** The ModuleSources of the namespace as they are in the cluster, and which one provides a module. */

import type { WatchedObject } from "../kube/index.ts";
import { describeProblem, ProblemError } from "../model/index.ts";
import type { Signer } from "../registry/index.ts";
import type { IModuleSource } from "../status/index.ts";
import { readSpec } from "./source-spec.ts";
import type { RequestedModule } from "./locked-modules.ts";
import type { SourceSpec } from "./types.ts";

/** One ModuleSource. */
export interface Source {
  readonly name: string;
  readonly object: IModuleSource;
  /** Undefined while the spec is invalid and no earlier one was valid. */
  readonly spec: SourceSpec | undefined;
  /** What is wrong with the spec, in one line. */
  readonly problem: string | undefined;
}

/** All ModuleSources, the oldest first. Immutable. */
export class Sources {
  readonly #byName: ReadonlyMap<string, Source>;
  readonly #requested: ReadonlyMap<string, RequestedModule>;

  constructor(sources: readonly Source[] = []) {
    this.#byName = new Map(sources.toSorted(byAge).map((source) => [source.name, source]));
    const requested = new Map<string, RequestedModule>();
    for (const { name: source, spec } of this.#byName.values())
      for (const [name, request] of spec?.modules ?? [])
        if (!requested.has(name)) requested.set(name, { source, request });
    this.#requested = requested;
  }

  /** The sources with these objects. An invalid spec leaves the last valid one in force. */
  next(objects: readonly WatchedObject[]): Sources {
    return new Sources(
      objects.map((object) => readSource(object as unknown as IModuleSource, this.get(object.metadata.name))),
    );
  }

  get(name: string): Source | undefined {
    return this.#byName.get(name);
  }

  all(): Iterable<Source> {
    return this.#byName.values();
  }

  /** The modules that sources name, each with the oldest source that names it. */
  get requested(): ReadonlyMap<string, RequestedModule> {
    return this.#requested;
  }

  /** The modules that a source provides. */
  modulesOf(name: string): string[] {
    return [...this.#requested].filter(([, { source }]) => source === name).map(([module]) => module);
  }

  /** Whether a module that `source` provided may still be named by it: its spec cannot be read, or it is suspended. */
  mayStillName(source: string): boolean {
    const found = this.get(source);
    return found !== undefined && (found.spec === undefined || found.spec.suspend);
  }
}

/** The keys of `all` that count for a source. */
export function keysFor(all: readonly Signer[], spec: SourceSpec | undefined): readonly Signer[] {
  return spec?.keys === undefined ? all : all.filter(({ source }) => spec.keys?.includes(source));
}

function byAge({ object: a }: Source, { object: b }: Source): number {
  const [left, right] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp ?? ""} ${metadata.name}`);
  return (left ?? "") < (right ?? "") ? -1 : 1;
}

function readSource(object: IModuleSource, before: Source | undefined): Source {
  const { name, uid, generation } = object.metadata;
  const known = before?.object.metadata;
  if (before !== undefined && known?.uid === uid && known?.generation === generation)
    return { ...before, object };
  try {
    return { name, object, spec: readSpec(object), problem: undefined };
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    return { name, object, spec: before?.spec, problem: error.problems.map(describeProblem).join("; ") };
  }
}
