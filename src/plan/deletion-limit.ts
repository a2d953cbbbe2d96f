/** The deletion limit: whether too many modules are removed within its window (docs/guides/running.md, "The deletion limit"). */

import { annotateCommand } from "../kube/index.ts";
import { listNames, digest, exceedsLimit, plainLine, type Limit } from "../lib/index.ts";
import type { DeletionLimitView, DeletionWindow, View } from "../state/index.ts";
import type { ModuleFacts } from "./discovery.ts";

/** Removals within this time are counted together. */
const WINDOW_MS = 600_000;

/** What is to be removed, and the facts for the limit. */
export interface Removal {
  readonly off: readonly ModuleFacts[];
  /** Releases of this operator without a module directory. */
  readonly orphans: readonly string[];
  /** Modules that are installed or on. */
  readonly present: Iterable<string>;
  /** Identifies one installation, so that a later one of the same name differs. */
  readonly identityOf: (name: string) => string;
  readonly limit: Limit;
  /** Monotonic time in ms. */
  readonly at: number;
}

/** The deletion limit after a discovery. */
interface Limited {
  readonly deletionLimit: DeletionLimitView | undefined;
  readonly deletions: DeletionWindow;
}

/**
 * Compares a removal, together with the removals of the last ten minutes, with `--delete-brake`. Above the limit it returns
 * what a user has to confirm, and whether they have. The limit refers to what was installed before the first of these
 * removals. A removal that has begun or is confirmed does not count. While this removal is blocked, earlier removals do not
 * expire: otherwise the blocked removal would start by itself ten minutes later.
 */
export function deletionLimitOf(removal: Removal, view: View): Limited {
  const { off, orphans, present, limit, at } = removal;
  const deleted = off.filter(({ begun }) => !begun).map(({ module }) => module.name);
  const names = [...deleted, ...orphans].toSorted();
  const isBlocked = view.deletionLimit?.confirmed === false;
  const removed = isBlocked ? view.deletions.removed : laterThan(view.deletions.removed, at - WINDOW_MS);
  const known = knownSince(view.deletions, [...present, ...names], at);
  const deletions = { removed, known };
  const counted = new Set([...removed.keys(), ...names]);
  const firstRemovalAt = Math.min(at, ...removed.values());
  const knownBefore = [...known].filter(([, firstSeen]) => firstSeen < firstRemovalAt).map(([name]) => name);
  const installed = new Set([...knownBefore, ...counted]).size;
  if (names.length === 0 || !exceedsLimit(limit, counted.size, installed))
    return { deletionLimit: undefined, deletions };
  const covers = names.map((name) => `${name} ${removal.identityOf(name)}`);
  const question = {
    modules: names,
    covers,
    removed: counted.size - names.length,
    installed,
    token: tokenOf(covers, view),
  };
  return { deletionLimit: { ...question, confirmed: isAnswered(question, view) }, deletions };
}

function laterThan(times: ReadonlyMap<string, number>, start: number): Map<string, number> {
  return new Map([...times].filter(([, at]) => at > start));
}

/** When each present module was first seen; those of the first discovery count as older than everything. */
function knownSince({ known }: DeletionWindow, present: readonly string[], at: number): Map<string, number> {
  const firstSeen = known.size === 0 ? -Infinity : at;
  return new Map(present.map((name) => [name, known.get(name) ?? firstSeen]));
}

const TOKEN_LENGTH = 12;

/**
 * A token for exactly these installations. It includes the value of the annotation when the question arises, so that an old
 * confirmation never answers a new question.
 */
function tokenOf(
  covers: readonly string[],
  { deletionLimit, confirmation }: Pick<View, "confirmation" | "deletionLimit">,
): string {
  const isOpen = deletionLimit?.covers.length === covers.length && isCovered(covers, deletionLimit);
  return isOpen ? deletionLimit.token : digest(...covers, confirmation ?? "").slice(3, 3 + TOKEN_LENGTH);
}

/** Whether the earlier question contained all these installations. */
function isCovered(covers: readonly string[], limit: DeletionLimitView): boolean {
  return covers.every((each) => limit.covers.includes(each));
}

/** A confirmation covers the rest of the removal that it started, and nothing after that. */
function isAnswered(
  { covers, token }: Pick<DeletionLimitView, "covers" | "token">,
  { confirmation, deletionLimit }: Pick<View, "confirmation" | "deletionLimit">,
): boolean {
  const continuesConfirmed = deletionLimit?.confirmed === true && isCovered(covers, deletionLimit);
  return continuesConfirmed || confirmation === token;
}

/** Whether a blocked removal has been confirmed since. */
export function isConfirmedNow(view: View): boolean {
  return (
    view.deletionLimit !== undefined && !view.deletionLimit.confirmed && isAnswered(view.deletionLimit, view)
  );
}

/** Annotation of the AddonOperator that confirms a removal. */
export const CONFIRM_DELETE = "addon-operator.io/confirm-delete";

const MOST_NAMED = 20;
const LONGEST_ANSWER = 20;

/** The command that confirms a blocked removal. */
export function confirmCommand(
  { token }: Pick<DeletionLimitView, "token">,
  { operator: { name, namespace } }: Pick<View, "operator">,
): string {
  return annotateCommand(`addonoperator/${name}`, namespace, { [CONFIRM_DELETE]: token });
}

/**
 * One sentence for people: what is blocked, why, what to do (by default, the command that confirms it), and a stale value
 * of the annotation.
 */
export function explainDeletionLimit(
  limit: DeletionLimitView,
  view: Pick<View, "confirmation" | "operator">,
  remedy = `switch them on again, or confirm: ${confirmCommand(limit, view)}`,
): string {
  const { modules, installed, removed, token } = limit;
  const { confirmation } = view;
  const count = `${modules.length + removed} of ${installed} modules`;
  const when = removed === 0 ? "at once" : `within 10 minutes (${removed} removed already)`;
  const stale =
    confirmation === undefined || confirmation === "" || confirmation === token
      ? ""
      : `; its present value ${plainLine(confirmation, LONGEST_ANSWER)} does not confirm this removal`;
  return (
    `not deleted: ${listNames(modules, MOST_NAMED)}: ${count} ${when}` +
    ` are more than --delete-brake allows; ${remedy}${stale}`
  );
}
