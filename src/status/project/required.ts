/** What an AddonModule says of what its module requires (docs/MODULES.md, "What a module requires"). */

import type { Requirement } from "../../plan/index.ts";
import type { ModuleStatus, RequirementStatus } from "../models/kinds.ts";
import { defined, line, timestamp } from "./format.ts";

type Shown = Pick<ModuleStatus, "requires" | "requiresMet">;

const MOST_LISTED = 20;

/** What is not met first; each keeps its time of `before` while it stays met or not. */
export function projectRequires(
  all: readonly Requirement[] = [],
  before: Shown["requires"] = [],
  now: number,
): Shown {
  if (all.length === 0) return {};
  const met = all.filter(({ unmet }) => unmet === undefined);
  const listed = [...all.filter((each) => !met.includes(each)), ...met].slice(0, MOST_LISTED);
  const sinceOf = (each: Requirement): string | undefined =>
    before.find(({ of, name, met: was }) => of === each.of && name === each.name && was === isMet(each))
      ?.since;
  return {
    requires: listed.map((each) => ({ ...aspectsOf(each), since: sinceOf(each) ?? timestamp(now) })),
    requiresMet: `${met.length}/${all.length}`,
  };
}

function isMet({ unmet }: Requirement): boolean {
  return unmet === undefined;
}

function aspectsOf(each: Requirement): Omit<RequirementStatus, "since"> {
  const { of, name, range, unmet } = each;
  const why = unmet && { reason: unmet.reason, message: line(unmet.message) };
  return defined({ of, name: line(name), range, met: isMet(each), ...why });
}
