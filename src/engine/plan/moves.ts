/**
 * Decides which releases may move to the namespaces that their modules name. A move deletes the old objects, so protection, the deletion limit
 * and a missing ConfigMap block it like a removal, and the loss of data needs a confirmation (docs/guides/tenancy.md, "Move a release").
 */

import type { ReleaseMove } from "../../helm/index.ts";
import { listNames } from "../../base/index.ts";
import { problemOf, type HeldMove, type DeletionLimitView } from "../state/index.ts";
import type { ModuleFacts } from "./discovery.ts";

/** A module whose release is going to move. */
export interface MovingModule extends ModuleFacts {
  readonly move: ReleaseMove;
}

/** The modules whose next run would move their release. A module with a problem, such as a protected one, does not run. */
export function listMovingModules(modules: readonly ModuleFacts[]): MovingModule[] {
  const isMoving = (facts: ModuleFacts): facts is MovingModule =>
    facts.move !== undefined && facts.record.enabled && problemOf(facts.record) === undefined;
  return modules.filter(isMoving);
}

/** The move as the deletion limit displays it. */
export function toHeldMove({ module, move }: MovingModule): HeldMove {
  return { name: module.name, ...move };
}

/** Whether the move deletes data, or may, because the objects of the release are unknown. */
export function deletesData({ dataObjects }: Pick<ReleaseMove, "dataObjects">): boolean {
  return dataObjects === undefined || dataObjects.length > 0;
}

/** Splits the moves by the deletion limit, or by `blockedBecause`, the reason why nothing at all may be removed. */
export function splitMoves(
  moving: readonly MovingModule[],
  limit: DeletionLimitView | undefined,
  blockedBecause: string | undefined,
) {
  const isHeld = ({ module }: MovingModule): boolean =>
    blockedBecause !== undefined || (limit?.confirmed === false && limit.modules.includes(module.name));
  const allowed = moving.filter((each) => !isHeld(each));
  return {
    allowedMoves: new Map(allowed.map(({ module, move }) => [module.name, move.to])),
    heldMoves: moving.filter(isHeld),
  };
}

const MAX_DATA_OBJECTS = 3;

/** E.g. `from namespace a to b, which deletes the data in PersistentVolumeClaim/data`. */
export function describeMove({ from, to, dataObjects }: ReleaseMove): string {
  const path = `from namespace ${from} to ${to}`;
  if (dataObjects === undefined)
    return `${path}, which may delete data: the record of the release cannot be read`;
  if (dataObjects.length === 0) return path;
  return `${path}, which deletes the data in ${listNames(dataObjects, MAX_DATA_OBJECTS)}`;
}
