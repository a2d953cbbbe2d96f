/** The way back that a person asks for (docs/RUNNING.md, "On call"): `module rollback NAME [REVISION]`. */

import type { Reconciliation } from "./decide.ts";
import { isUnfinished, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { BY_HAND, GOOD, isRejected, rejectedIn, rollBackTo, type Refusal } from "./rollback.ts";
import { recover } from "./upgrade.ts";

/** A revision to which a release cannot go back. The message names those that it can. */
class NoWayBackError extends Error {}

const WAS_IN_FORCE: readonly string[] = ["deployed", "superseded"];

/**
 * The revision that a person goes back to: the given one, else the newest that was in force before and was not rejected.
 * Throws NoWayBackError.
 */
export function wayBackOf(revisions: readonly ReleaseMeta[], wanted: number | undefined): ReleaseMeta {
  const [newest, ...older] = revisions;
  const usable = older.filter(({ status }) => WAS_IN_FORCE.includes(status));
  const found =
    wanted === undefined
      ? usable.find((meta) => !isRejected(meta))
      : usable.find(({ revision }) => revision === wanted);
  if (newest !== undefined && found !== undefined) return found;
  const what = wanted === undefined ? "no earlier revision" : `no revision ${wanted}`;
  const known = usable.map(({ revision }) => revision).join(", ");
  const remedy = known === "" ? "no earlier one is known" : `choose one of ${known}`;
  throw new NoWayBackError(`there is ${what} that was in force; ${remedy}`);
}

/**
 * What a person has rolled back stays so while chart and values are the same, but for what hooks change, whatever
 * `onFailure` says.
 */
export function refusalByHand(revisions: readonly ReleaseMeta[], given: string): Refusal | undefined {
  const rejected = rejectedIn(revisions);
  if (rejected?.labels[LABELS.rejected] !== BY_HAND || rejected.labels[LABELS.given] !== given)
    return undefined;
  const to = Number(rejected.labels[LABELS.rolledBackTo]);
  const good = revisions.find(({ revision }) => revision === to);
  if (good === undefined) return undefined;
  const [newest] = revisions;
  return { rejected, good, isOver: newest !== rejected && newest?.status === "deployed" };
}

/**
 * Goes back to a revision and holds it. What is in force is rejected first, by labels, so that an operator that is killed
 * meanwhile goes back at its next start. Throws NoWayBackError, HelmError, ApiError, ConnectionError.
 */
export async function rollBackByHand(
  reconciliation: Reconciliation,
  wanted: number | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const { store, managedBy } = tools;
  const { module, signal } = request;
  await store.refresh(module.name, signal);
  if (isUnfinished(store.get(module.name)?.status ?? "")) await recover(reconciliation);
  const good = wayBackOf(store.revisions(module.name), wanted);
  const clean = { [LABELS.rejected]: null, [LABELS.rolledBackTo]: null, [LABELS.tries]: null };
  await store.label(good, { ...clean, ...GOOD, [LABELS.managedBy]: managedBy }, signal);
  const rejected = store.get(module.name) ?? good;
  const held = { [LABELS.given]: reconciliation.given, [LABELS.good]: null };
  const why = { [LABELS.rejected]: BY_HAND, [LABELS.rolledBackTo]: String(good.revision) };
  await store.label(rejected, { ...held, ...why }, signal);
  await rollBackTo(reconciliation, { rejected, good });
}
