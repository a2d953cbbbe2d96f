import type { Clock } from "../../../src/lib/index.ts";
import type { Analyzer } from "../../../src/triggers/releases/followed-object.ts";
import { FollowedRelease } from "../../../src/triggers/releases/followed-release.ts";
import type { KindWatches } from "../../../src/triggers/releases/kind-watches.ts";

type Analyzers = ConstructorParameters<typeof FollowedRelease>[0]["analyzers"];

const nothing = (): void => {};
const no = (): boolean => false;
const never = (): number => Infinity;
const QUIET: Analyzers = {
  healing: { check: never, deleted: nothing, written: no },
  health: { check: never, begin: nothing, forget: nothing },
  drift: {
    check: never,
    begin: nothing,
    markChanged: nothing,
    written: no,
    deleted: nothing,
    putBack: nothing,
  },
};

/** A release that is followed by these analyzers alone. */
export function followedBy(
  tools: { readonly kinds: KindWatches; readonly clock: Clock },
  analyzers: Partial<Analyzers>,
): FollowedRelease {
  return new FollowedRelease({ ...tools, analyzers: { ...QUIET, ...analyzers } });
}

/** An analyzer of which only `check` does something. */
export function quiet<Name extends keyof Analyzers>(name: Name, check: Analyzer["check"]): Analyzers[Name] {
  return { ...QUIET[name], check };
}

/** What `FollowedRelease.follow` needs beside the objects. */
export const FOLLOWED = { revision: 1, counts: () => true, timeoutMs: 300_000 };
