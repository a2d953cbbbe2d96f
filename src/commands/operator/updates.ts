/** The part of `status` about newer content of modules that is not used yet, grouped by what it waits for. */

import { listNames } from "../../lib/index.ts";
import type { ModuleRow } from "../../status/index.ts";

type Update = NonNullable<NonNullable<ModuleRow["source"]>["next"]>;

/** In this order: what someone has to do comes first. */
const GROUPS: readonly (readonly [Update["waitsFor"], string])[] = [
  ["approval", "for approval"],
  ["older", "for approval, because they lead back"],
  ["rejected", "for other content: failed and rolled back"],
  ["refused", "for content with a valid signature"],
  ["blocked", "for content that fits values and requirements"],
  ["turn", "for another update to prove itself"],
  ["window", "for the next window"],
  ["age", "until they have been known for long enough"],
  ["withdrawn", "for the registry: it does not have what the source names"],
  ["registry", "unknown: the registry cannot be reached"],
];

const MOST_NAMED = 10;

/** A line for each group; none where nothing waits. */
export function updateLines(modules: readonly ModuleRow[]): string[] {
  const lines = GROUPS.flatMap(([waitsFor, title]) => {
    const names = modules.flatMap(({ name, source }) =>
      source?.next?.waitsFor === waitsFor ? [labelOf(name, source.next)] : [],
    );
    return names.length === 0 ? [] : [`  ${title}: ${listNames(names, MOST_NAMED)}`];
  });
  return lines.length === 0 ? [] : [`\nUpdates that wait (addon-operator source list):`, ...lines];
}

function labelOf(name: string, { version, until }: Update): string {
  const then = until === undefined ? "" : ` (${until})`;
  return version === undefined ? name : `${name} ${version}${then}`;
}
