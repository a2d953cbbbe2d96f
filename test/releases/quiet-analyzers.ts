import type { Clock } from "../../src/base/index.ts";
import type { Analyzer } from "../../src/releases/object-state.ts";
import { WatchedRelease } from "../../src/releases/watched-release.ts";
import type { KindWatches } from "../../src/releases/kind-watches.ts";

type Analyzers = ConstructorParameters<typeof WatchedRelease>[0]["analyzers"];

const nothing = (): void => {};
const no = (): boolean => false;
const never = (): number => Infinity;
const QUIET: Analyzers = {
  selfHeal: { check: never, handleDeleted: nothing, handleWritten: no },
  health: { check: never, startRevision: nothing, stopPodWatch: nothing },
  drift: {
    check: never,
    startRevision: nothing,
    markChanged: nothing,
    handleWritten: no,
    handleDeleted: nothing,
    handleEtcdRestored: nothing,
  },
};

/** A release that is followed by these analyzers alone. */
export function followedBy(
  tools: { readonly kinds: KindWatches; readonly clock: Clock },
  analyzers: Partial<Analyzers>,
): WatchedRelease {
  return new WatchedRelease({ ...tools, analyzers: { ...QUIET, ...analyzers } });
}

/** An analyzer of which only `check` does something. */
export function quiet<Name extends keyof Analyzers>(name: Name, check: Analyzer["check"]): Analyzers[Name] {
  return { ...QUIET[name], check };
}

/** Arguments of `WatchedRelease.watchRevision` beside the objects. */
export const FOLLOWED = { revision: 1, countsForHealth: () => true, timeoutMs: 300_000 };
