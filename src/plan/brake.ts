/** The deletion limit: whether too many modules are removed within its window (docs/RUNNING.md, "The deletion limit"). */

import { digest, exceeds, plainLine, type Limit } from "../lib/index.ts";
import type { BrakeView, DeletionWindow, View } from "../state/index.ts";
import type { ModuleFacts } from "./discovery.ts";

/** Removals within this time count together. */
const WINDOW_MS = 600_000;

/** What is to be removed, and what it is measured by. */
interface Removal {
  readonly off: readonly ModuleFacts[];
  /** Releases without a module. */
  readonly orphans: readonly string[];
  /** Modules that are installed or on. */
  readonly present: Iterable<string>;
  /** Tells an installed module or release from a later one of the same name. */
  readonly identityOf: (name: string) => string;
  readonly limit: Limit;
  /** Monotonic time in ms. */
  readonly at: number;
}

/** The deletion limit after a discovery. */
interface Limited {
  readonly brake: BrakeView | undefined;
  readonly deletions: DeletionWindow;
}

/**
 * A removal of more than `--delete-brake` allows, together with the removals of the last ten minutes: what a person has to
 * confirm, and whether that has happened. Measured against what was installed before the first of these removals. Removals
 * that have begun, or that a person has confirmed, are not counted. While a removal is held, no earlier one expires: what is
 * held must not go by itself later.
 */
export function brakeOf(removal: Removal, view: View): Limited {
  const { off, orphans, present, limit, at } = removal;
  const taken = off.filter(({ begun }) => !begun).map(({ module }) => module.name);
  const names = [...taken, ...orphans].toSorted();
  const isHeld = view.brake?.confirmed === false;
  const removed = isHeld ? view.deletions.removed : since(view.deletions.removed, at - WINDOW_MS);
  const known = knownSince(view.deletions, [...present, ...names], at);
  const deletions = { removed, known };
  const counted = new Set([...removed.keys(), ...names]);
  const from = Math.min(at, ...removed.values());
  const before = [...known].filter(([, firstSeen]) => firstSeen < from).map(([name]) => name);
  const installed = new Set([...before, ...counted]).size;
  if (names.length === 0 || !exceeds(limit, counted.size, installed)) return { brake: undefined, deletions };
  const covers = names.map((name) => `${name} ${removal.identityOf(name)}`);
  const question = {
    modules: names,
    covers,
    removed: counted.size - names.length,
    installed,
    token: tokenOf(covers),
  };
  return { brake: { ...question, confirmed: isAnswered(question, view) }, deletions };
}

function since(times: ReadonlyMap<string, number>, start: number): Map<string, number> {
  return new Map([...times].filter(([, at]) => at > start));
}

/** What is there, and since when; what the first discovery finds was there before. Bounded by what is there. */
function knownSince({ known }: DeletionWindow, present: readonly string[], at: number): Map<string, number> {
  const first = known.size === 0 ? -Infinity : at;
  return new Map(present.map((name) => [name, known.get(name) ?? first]));
}

const TOKEN_LENGTH = 12;

/** Covers exactly these modules as they are installed now: what is installed again needs another confirmation. */
function tokenOf(covers: readonly string[]): string {
  return digest(...covers).slice(3, 3 + TOKEN_LENGTH);
}

/** A confirmation covers the rest of a removal that it has begun; done, it covers nothing any more. */
function isAnswered(
  { covers, token }: Pick<BrakeView, "covers" | "token">,
  { confirmation, brake }: Pick<View, "confirmation" | "brake">,
): boolean {
  const goesOn = brake?.confirmed === true && covers.every((each) => brake.covers.includes(each));
  return goesOn || confirmation === token;
}

/** Whether a held removal has been confirmed since. */
export function isConfirmedNow(view: View): boolean {
  return view.brake !== undefined && !view.brake.confirmed && isAnswered(view.brake, view);
}

/** Annotation of the AddonOperator that confirms a removal. */
export const CONFIRM_DELETE = "addon-operator.io/confirm-delete";

const MOST_NAMED = 20;
const LONGEST_ANSWER = 20;

/** What is held, why, and the command that confirms it, with what the annotation says now; one sentence for people. */
export function explainBrake(
  { modules, installed, removed, token }: BrakeView,
  { confirmation, operator: { name, namespace } }: Pick<View, "confirmation" | "operator">,
): string {
  const more = modules.length > MOST_NAMED ? ` and ${modules.length - MOST_NAMED} more` : "";
  const count = `${modules.length + removed} of ${installed} modules`;
  const when = removed === 0 ? "at once" : `within 10 minutes (${removed} removed already)`;
  const stale =
    confirmation === undefined || confirmation === "" || confirmation === token
      ? ""
      : `; its present value ${plainLine(confirmation, LONGEST_ANSWER)} does not confirm this removal`;
  return (
    `not deleted: ${modules.slice(0, MOST_NAMED).join(", ")}${more}: ${count} ${when}` +
    ` are more than --delete-brake allows; switch them on again, or confirm: kubectl annotate --overwrite` +
    ` -n ${namespace} addonoperator/${name} ${CONFIRM_DELETE}=${token}${stale}`
  );
}
