import type { Cause, Coverage, View } from "../state/index.ts";
import { isConfirmedNow } from "./brake.ts";

/** Five reloads in a row that afterAll hooks asked for themselves are a livelock. */
export const MAX_ROUNDS = 5;

const CONFIG: Cause = { text: "ConfigMap changed", place: "front" };
const GLOBALS: Cause = { text: "global values changed", place: "back" };
const REQUESTED: Cause = { text: "requested", place: "front" };
const CONFIRMED: Cause = { text: "a removal was confirmed", place: "front" };

/** Whether globals or flags of the ConfigMap are no longer those that the last reload took into account. */
export function configOvertaken(view: View): boolean {
  const { covered } = view.converge;
  return covered !== undefined && covered.config !== view.coverage.config;
}

/**
 * Whether the reload under way is void: it took a ConfigMap into account that is no longer in force, or it does not
 * get on and somebody asks for another one, having mended something.
 */
export function restartOwed(view: View): Cause | undefined {
  if (view.converge.phase === "idle") return undefined;
  if (configOvertaken(view)) return CONFIG;
  if (!isHeldUp(view)) return undefined;
  if (isAsked(view)) return REQUESTED;
  return confirmed(view);
}

function isHeldUp({ modules }: View): boolean {
  return [...modules.values()].some((each) => each.retry !== undefined);
}

/** Whether a reload is owed while none runs: rules 9, 11, 13 and 16, and a request by token. */
export function reloadOwed(view: View): Cause | undefined {
  const { covered } = view.converge;
  if (covered === undefined) return { text: "start-up", place: "front" };
  return (
    requested(view) ??
    confirmed(view) ??
    problemMoved(view) ??
    configMoved(view) ??
    globalsMoved(view, covered) ??
    secondLook(view)
  );
}

/** The reload that is owed takes the confirmed removal up. */
function confirmed(view: View): Cause | undefined {
  return isConfirmedNow(view) ? CONFIRMED : undefined;
}

function secondLook(view: View): Cause | undefined {
  return view.secondLook ? { text: "second look at the directories", place: "back" } : undefined;
}

/** Modules that are off or need a person have nothing to run: a request to them is answered by discovery. */
function requested(view: View): Cause | undefined {
  const resting = [...view.modules.values()].filter((each) => !each.enabled || each.problem !== undefined);
  return [view, ...resting].some(isAsked) ? REQUESTED : undefined;
}

/** A token that was not answered yet. */
function isAsked({ requestedToken, handledToken }: Pick<View, "requestedToken" | "handledToken">): boolean {
  return requestedToken !== undefined && requestedToken !== handledToken;
}

/** The section of a module that needs a person was edited: it may be right now. */
function problemMoved(view: View): Cause | undefined {
  const moved = [...view.modules.values()].some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handledSectionDigest,
  );
  return moved ? CONFIG : undefined;
}

/** Always at the front, whatever hooks changed since: a failing head must not keep an edit waiting. */
function configMoved(view: View): Cause | undefined {
  return configOvertaken(view) ? CONFIG : undefined;
}

function globalsMoved(view: View, { globals }: Coverage): Cause | undefined {
  const moved = globals !== undefined && globals !== view.coverage.globals;
  return moved ? (view.globalCause ?? GLOBALS) : undefined;
}
