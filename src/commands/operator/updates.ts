/** The part of `status` about newer content of modules that is not used yet, grouped by what it waits for. */

import { listNames } from "../../lib/index.ts";
import type { ModuleRow } from "../../status/index.ts";

type Update = NonNullable<NonNullable<ModuleRow["source"]>["next"]>;

/** The reasons for which updates wait, in the order of the output: what a user has to do comes first. */
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

const MAX_NAMES = 10;

/** Lines about updates of modules that wait, one for each reason; empty if none waits. */
export function pendingUpdateLines(modules: readonly ModuleRow[]): string[] {
  const lines = GROUPS.flatMap(([waitsFor, title]) => {
    const names = modules.flatMap(({ name, source }) =>
      source?.next?.waitsFor === waitsFor ? [updateLabel(name, source.next)] : [],
    );
    return names.length === 0 ? [] : [`  ${title}: ${listNames(names, MAX_NAMES)}`];
  });
  return lines.length === 0 ? [] : [`\nUpdates that wait (addon-operator source list):`, ...lines];
}

/** The name of a module with the version that waits, and until when. */
function updateLabel(name: string, { version, until }: Update): string {
  const untilText = until === undefined ? "" : ` (${until})`;
  return version === undefined ? name : `${name} ${version}${untilText}`;
}
