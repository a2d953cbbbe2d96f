/** Decides whether a reload of all modules is owed, and whether the one under way is out of date. */

import type { Cause } from "../model/index.ts";
import type { Coverage, ModuleView, View } from "../state/index.ts";
import { isConfirmedNow } from "./brake.ts";

const CONFIG: Cause = { text: "ConfigMap changed", place: "front" };
const GLOBALS: Cause = { text: "global values changed", place: "back" };
const REQUESTED: Cause = { text: "requested", place: "front" };
const CONFIRMED: Cause = { text: "a removal was confirmed", place: "front" };

/** Whether globals or flags of the ConfigMap differ from those that the last reload used. */
export function configOvertaken(view: View): boolean {
  const { covered } = view.converge;
  return covered !== undefined && covered.config !== view.coverage.config;
}

/**
 * Whether the reload under way is out of date: the ConfigMap that it used is not in force any more, or it makes no
 * progress and somebody asks for another one, having mended something.
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

/** Whether a reload is owed while none runs: rules 9, 11, 13 and 16 of docs/LIFECYCLE.md, and requests by token. */
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

/** The reload that carries out the confirmed removal. */
function confirmed(view: View): Cause | undefined {
  return isConfirmedNow(view) ? CONFIRMED : undefined;
}

function secondLook(view: View): Cause | undefined {
  return view.secondLook ? { text: "second look at the directories", place: "back" } : undefined;
}

/** Modules that are disabled or Invalid have nothing to run: discovery answers their requests. */
function requested(view: View): Cause | undefined {
  const resting = [...view.modules.values()].filter((each) => !each.enabled || each.problem !== undefined);
  return isAsked(view) || resting.some(isModuleAsked) ? REQUESTED : undefined;
}

/** A token that was not answered yet. */
function isAsked({ requestedToken, handledToken }: View): boolean {
  return requestedToken !== undefined && requestedToken !== handledToken;
}

/** The same of a module. */
export function isModuleAsked({ requestedToken, handled }: ModuleView): boolean {
  return requestedToken !== undefined && requestedToken !== handled.token;
}

/** The section of an Invalid module was edited: it may be valid now. */
function problemMoved(view: View): Cause | undefined {
  const moved = [...view.modules.values()].some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handled.section,
  );
  return moved ? CONFIG : undefined;
}

/** Always at the front, whatever hooks changed since: an edit must not wait behind a failing task. */
function configMoved(view: View): Cause | undefined {
  return configOvertaken(view) ? CONFIG : undefined;
}

function globalsMoved(view: View, { globals }: Coverage): Cause | undefined {
  const moved = globals !== undefined && globals !== view.coverage.globals;
  return moved ? (view.globalCause ?? GLOBALS) : undefined;
}
