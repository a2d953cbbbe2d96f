/** Whether a reload of all modules is owed, and why: the rows of the table in `owed.ts` that lead to one. */

import type { Cause } from "../model/index.ts";
import type { Coverage, View } from "../state/index.ts";
import { isConfirmedNow } from "./brake.ts";

const CONFIG: Cause = { kind: "config" };
/** Globals or flags, where nobody knows better. */
export const GLOBALS: Cause = { kind: "globals" };
const REQUESTED: Cause = { kind: "requested" };
const CONFIRMED: Cause = { kind: "confirmed" };
const FILES: Cause = { kind: "files" };

/** Whether globals or flags of the ConfigMap differ from those that the last reload used. */
export function configOvertaken({ reload: { covered }, coverage }: View): boolean {
  return covered !== undefined && covered.globalConfig !== coverage.globalConfig;
}

/**
 * Whether the reload under way is out of date: the ConfigMap that it used is not in force any more, or it makes no
 * progress, or is left to modules alone, and somebody asks for another one, having mended something.
 */
export function restartOwed(view: View): Cause | undefined {
  if (view.reload.phase === "idle") return undefined;
  if (configOvertaken(view)) return CONFIG;
  const isHeldUp =
    view.reload.phase === "turns" || [...view.modules.values()].some((each) => each.retry !== undefined);
  if (!isHeldUp) return undefined;
  return (isAsked(view.requestedToken, view.handledToken) ? REQUESTED : confirmed(view)) ?? filesMoved(view);
}

/** Whether a reload is owed while none runs. */
export function reloadOwed(view: View): Cause | undefined {
  const { covered } = view.reload;
  if (covered === undefined) return { kind: "start-up" };
  // An edit is at the front, whatever hooks changed since: it must not wait behind a failing task.
  const config = configOvertaken(view) ? CONFIG : undefined;
  return (
    requested(view) ??
    confirmed(view) ??
    mended(view) ??
    config ??
    filesMoved(view) ??
    globalsMoved(view, covered) ??
    missed(view)
  );
}

/** Modules that are disabled or Invalid have nothing to run: discovery answers their requests. */
function requested(view: View): Cause | undefined {
  const resting = [...view.modules.values()].filter((each) => !each.enabled || each.problem !== undefined);
  const asked = resting.some((each) => isAsked(each.requestedToken, each.handled.token));
  return asked || isAsked(view.requestedToken, view.handledToken) ? REQUESTED : undefined;
}

/** A token that was not answered yet. */
export function isAsked(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** The reload that carries out the confirmed removal. */
function confirmed(view: View): Cause | undefined {
  return isConfirmedNow(view) ? CONFIRMED : undefined;
}

/** The section of an Invalid module was edited: it may be valid now. */
function mended({ modules }: View): Cause | undefined {
  const moved = [...modules.values()].some(
    (each) => each.enabled && each.problem !== undefined && each.sectionDigest !== each.handled.section,
  );
  return moved ? CONFIG : undefined;
}

/** Files of single modules are read by themselves where no reload does it, or has done it a moment ago. */
export function readsAlone({ movedFiles, reload: { phase } }: View): boolean {
  return movedFiles !== "all" && movedFiles.size > 0 && (phase === "idle" || phase === "turns");
}

function filesMoved(view: View): Cause | undefined {
  const { movedFiles } = view;
  const hasMoved = movedFiles === "all" || movedFiles.size > 0;
  return hasMoved && !readsAlone(view) ? FILES : undefined;
}

function globalsMoved(view: View, { globals }: Coverage): Cause | undefined {
  const moved = globals !== undefined && globals !== view.coverage.globals;
  return moved ? (view.globalCause ?? GLOBALS) : undefined;
}

function missed({ secondLook }: View): Cause | undefined {
  return secondLook ? { kind: "second-look" } : undefined;
}
