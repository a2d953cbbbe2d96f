/** The brake: whether a change removes too many modules at once (docs/RUNNING.md, "The brake"). */

import { exceeds } from "../lib/index.ts";
import type { Limit } from "../lib/index.ts";
import type { BrakeView, View } from "../state/index.ts";

/** What a reload is about to remove. */
export interface Removals {
  /** Modules, and releases without a module, that are to be removed, in order. */
  readonly names: readonly string[];
  /** How many modules are installed or enabled, those to be removed included. */
  readonly installed: number;
}

/**
 * A removal of more than `--delete-brake` allows: what a person has to confirm, and whether that has happened.
 * Decided only from what is installed and what is wanted, so neither a restart nor another reload gets round it.
 */
export function brake(
  limit: Limit,
  { names, installed }: Removals,
  view: Pick<View, "brake" | "confirmation" | "config">,
): BrakeView | undefined {
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
