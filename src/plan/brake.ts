/** The brake: whether a change removes too many modules at once (docs/RUNNING.md, "The brake"). */

import { exceeds, type Limit } from "../lib/index.ts";
import type { BrakeView, View } from "../state/index.ts";
import type { ModuleFacts } from "./discovery.ts";

/** What is to be removed, and what it is measured by. */
interface Removal {
  readonly off: readonly ModuleFacts[];
  /** Releases without a module. */
  readonly orphans: readonly string[];
  /** Modules that are installed or on. */
  readonly present: Iterable<string>;
  readonly limit: Limit;
}

/**
 * A removal of more than `--delete-brake` allows: what a person has to confirm, and whether that has happened. Removals
 * that have begun are not counted. Decided only from what is installed and what is wanted, so neither a restart nor
 * another reload gets round it.
 */
export function brakeOf({ off, orphans, present, limit }: Removal, view: View): BrakeView | undefined {
  const taken = off.filter(({ begun }) => !begun).map(({ module }) => module.name);
  const names = [...taken, ...orphans].toSorted();
  const installed = new Set([...present, ...names]).size;
  if (!exceeds(limit, names.length, installed)) return undefined;
  const asked = view.brake;
  // A hook's own write to the ConfigMap must not invalidate the version that a person is about to confirm.
  const isAsked = asked !== undefined && names.every((name) => asked.modules.includes(name));
  const resourceVersion = isAsked ? asked.resourceVersion : (view.config.resourceVersion ?? "");
  const question = { modules: names, installed, resourceVersion };
  return { ...question, confirmed: isAnswered(question, view) };
}

function isAnswered(
  { resourceVersion }: Pick<BrakeView, "resourceVersion">,
  { confirmation, config }: Pick<View, "confirmation" | "config">,
): boolean {
  if (confirmation === undefined || confirmation === "") return false;
  return confirmation === resourceVersion || confirmation === config.resourceVersion;
}

/** Whether a held removal has been confirmed since. */
export function isConfirmedNow(view: View): boolean {
  return view.brake !== undefined && !view.brake.confirmed && isAnswered(view.brake, view);
}

/** Annotation of the AddonOperator that confirms a removal. */
export const CONFIRM_DELETE = "addon-operator.io/confirm-delete";

const MOST_NAMED = 20;

/** What is held, why, and how to go on; one sentence for people. */
export function explainBrake({ modules, installed, resourceVersion }: BrakeView): string {
  const more = modules.length > MOST_NAMED ? ` and ${modules.length - MOST_NAMED} more` : "";
  return (
    `not deleted: ${modules.slice(0, MOST_NAMED).join(", ")}${more}: ${modules.length} of ${installed} modules at once` +
    ` are more than --delete-brake allows; switch them on again, or annotate the AddonOperator with` +
    ` ${CONFIRM_DELETE}=${resourceVersion}`
  );
}
