/**
 * The deletion limit (`--delete-brake`): a user must confirm a removal of too many modules within ten minutes (docs/guides/running.md). A move of
 * a release to another namespace counts as a removal. A move that deletes data needs a confirmation even below the limit.
 */

import { annotateCommand } from "../../kube/index.ts";
import { listNames, confirmationToken, exceedsLimit, plainLine, type Limit } from "../../base/index.ts";
import type { DeletionLimitView, DeletionWindow, View } from "../state/index.ts";
import { keepNamespace, type ModuleFacts } from "./discovery.ts";
import { deletesData, describeMove, toHeldMove, type MovingModule } from "./moves.ts";

/** Removals within this time are counted together. */
const WINDOW_MS = 600_000;

/** A removal that discovery is about to start, and the facts to compare it with the limit. */
export interface Removal {
  readonly modulesOff: readonly ModuleFacts[];
  /** Releases of this operator without a module directory. */
  readonly orphans: readonly string[];
  readonly moving: readonly MovingModule[];
  /** Modules that are installed or on. */
  readonly presentModules: Iterable<string>;
  /** Identifies one installation, so that a later one of the same name differs. */
  readonly installationIdOf: (name: string) => string;
  readonly limit: Limit;
  /** Monotonic time in ms. */
  readonly at: number;
}

/**
 * Compares a removal, together with the removals of the last ten minutes, with `--delete-brake`. Above the limit it returns
 * what a user has to confirm, and whether they have. The limit refers to what was installed before the first of these
 * removals. A removal that has begun or is confirmed does not count. While this removal is blocked, earlier removals do not
 * expire: otherwise the blocked removal would start by itself ten minutes later.
 */
export function applyDeletionLimit(removal: Removal, view: View): Pick<View, "deletionLimit" | "deletions"> {
  const { modulesOff, orphans, moving, presentModules, limit, at: now } = removal;
  const deleted = modulesOff.filter(({ isRemovalBegun }) => !isRemovalBegun).map(({ module }) => module.name);
  const moves = moving.map(toHeldMove);
  const namesToRemove = [...deleted, ...orphans, ...moves.map(({ name }) => name)].toSorted();
  const isBlocked = view.deletionLimit?.confirmed === false && view.deletionLimit.isExceeded;
  const { removed } = view.deletions;
  const removedRecently = isBlocked
    ? removed
    : new Map([...removed].filter(([, removedAt]) => removedAt > now - WINDOW_MS));
  const knownSince = recordFirstSeen(view.deletions, [...presentModules, ...namesToRemove], now);
  const deletions = { removed: removedRecently, known: knownSince };
  const allRemovals = new Set([...removedRecently.keys(), ...namesToRemove]);
  const firstRemovalAt = Math.min(now, ...removedRecently.values());
  // Modules that appeared after the first removal do not raise the limit.
  const knownBefore = [...knownSince].filter(([, firstSeen]) => firstSeen < firstRemovalAt);
  const installed = new Set([...knownBefore.map(([name]) => name), ...allRemovals]).size;
  const isExceeded = exceedsLimit(limit, allRemovals.size, installed);
  const heldMoves = isExceeded ? moves : moves.filter(deletesData);
  const modules = isExceeded ? namesToRemove : heldMoves.map(({ name }) => name).toSorted();
  if (modules.length === 0) return { deletionLimit: undefined, deletions };
  const targets = new Map(heldMoves.map(({ name, to }) => [name, ` to ${to}`]));
  const covers = modules.map((name) => `${name} ${removal.installationIdOf(name)}${targets.get(name) ?? ""}`);
  const limitView = {
    modules,
    covers,
    moves: heldMoves,
    isExceeded,
    removed: allRemovals.size - namesToRemove.length,
    installed,
    token: getRemovalToken(covers, view),
  };
  return { deletionLimit: { ...limitView, confirmed: isRemovalConfirmed(limitView, view) }, deletions };
}

/** The time at which each present module was first seen, by name. Modules of the first discovery (`known` is empty) count as older than any removal. */
function recordFirstSeen(
  { known }: DeletionWindow,
  presentModules: readonly string[],
  now: number,
): Map<string, number> {
  const firstSeen = known.size === 0 ? -Infinity : now;
  return new Map(presentModules.map((name) => [name, known.get(name) ?? firstSeen]));
}

/**
 * The token that a user must write into the annotation to confirm the removal of exactly these installations (`covers`: names with
 * installation ids). A token stays while the same removal is blocked. A new one depends on the present value of the annotation
 * (`confirmation`), so that an old confirmation never confirms a new removal.
 */
function getRemovalToken(
  covers: readonly string[],
  { deletionLimit, confirmation }: Pick<View, "confirmation" | "deletionLimit">,
): string {
  const isSameRemoval =
    deletionLimit?.covers.length === covers.length && isCoveredByLimit(covers, deletionLimit);
  return isSameRemoval ? deletionLimit.token : confirmationToken(...covers, confirmation ?? "");
}

/** Whether the removal that was blocked before contained all these installations. */
function isCoveredByLimit(covers: readonly string[], limit: DeletionLimitView): boolean {
  return covers.every((each) => limit.covers.includes(each));
}

/**
 * Whether a user has confirmed the removal: the annotation has its token. A confirmed removal may take several converges: what is left
 * of it stays confirmed, although its token is another one. Later removals need a new confirmation.
 */
function isRemovalConfirmed(
  { covers, token }: Pick<DeletionLimitView, "covers" | "token">,
  { confirmation, deletionLimit }: Pick<View, "confirmation" | "deletionLimit">,
): boolean {
  const continuesConfirmed = deletionLimit?.confirmed === true && isCoveredByLimit(covers, deletionLimit);
  return continuesConfirmed || confirmation === token;
}

/** Whether a user has confirmed the removal that the last discovery blocked; false if it blocked none. */
export function isBlockedRemovalConfirmed(view: View): boolean {
  const { deletionLimit } = view;
  if (deletionLimit === undefined || deletionLimit.confirmed) return false;
  return isRemovalConfirmed(deletionLimit, view);
}

/** Annotation of the AddonOperator that confirms a removal. */
export const CONFIRM_DELETE = "addon-operator.io/confirm-delete";

const MAX_NAMES = 20;
const MAX_MOVES = 5;
const MAX_TOKEN_CHARS = 20;

/** The kubectl command with which a user confirms a blocked removal. */
export function formatConfirmCommand(
  { token }: Pick<DeletionLimitView, "token">,
  { operator: { name, namespace } }: Pick<View, "operator">,
): string {
  return annotateCommand(`addonoperator/${name}`, namespace, { [CONFIRM_DELETE]: token });
}

/** How a user keeps what is blocked: enables modules that are off, and restores the namespaces of releases that would move. */
function explainKeeping({ modules, moves }: DeletionLimitView): string {
  const [first] = moves;
  if (first === undefined) return "enable them again";
  const restore = moves.length === 1 ? keepNamespace(first) : "restore their namespaces";
  return moves.length === modules.length ? restore : `enable them again, ${restore}`;
}

/** Names what is blocked, e.g. `not deleted: a, b; not moved: c from namespace x to y`. */
function describeHeldRemovals({ modules, moves }: DeletionLimitView): string {
  const moving = new Set(moves.map(({ name }) => name));
  const deletes = modules.filter((name) => !moving.has(name));
  const described = moves.map((move) => `${move.name} ${describeMove(move)}`);
  return [
    ...(deletes.length > 0 ? [`not deleted: ${listNames(deletes, MAX_NAMES)}`] : []),
    ...(moves.length > 0 ? [`not moved: ${listNames(described, MAX_MOVES)}`] : []),
  ].join("; ");
}

/** One sentence for people: what is blocked, why, what to do (by default, the command that confirms it), and a stale value of the annotation. */
export function explainDeletionLimit(
  limit: DeletionLimitView,
  view: Pick<View, "confirmation" | "operator">,
  remedy = `${explainKeeping(limit)}, or confirm: ${formatConfirmCommand(limit, view)}`,
): string {
  const { modules, installed, removed, token, isExceeded } = limit;
  const { confirmation } = view;
  const count = `${modules.length + removed} of ${installed} modules`;
  const period = removed === 0 ? "at once" : `within 10 minutes (${removed} removed already)`;
  const why = isExceeded ? `: ${count} ${period} are more than --delete-brake allows` : "";
  const text = `${describeHeldRemovals(limit)}${why}; ${remedy}`;
  if (confirmation === undefined || confirmation === "" || confirmation === token) return text;
  const staleValue = plainLine(confirmation, MAX_TOKEN_CHARS);
  return `${text}; its present value ${staleValue} does not confirm this removal`;
}
