/**
 * Decides which modules may run now: what they require is there (docs/MODULES.md, "What a module requires"), and in a
 * reload it is their turn (docs/LIFECYCLE.md, "A queue for each module").
 */

import { inRange, numbersOf } from "../lib/index.ts";
import { requiredKey, type Cause, type RequiredObject } from "../model/index.ts";
import { missingObjects, type ModuleView, type View } from "../state/index.ts";

/**
 * Whether a module may run: it is on, needs no person, and its files are there. While some are missing, a second read
 * decides whether it runs without them or is gone.
 */
export function mayRun({
  enabled,
  problem,
  module,
}: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return enabled && problem === undefined && module.gone === undefined;
}

/** Whether its next run may begin, if there is one: not before the CRDs of its files, which a reload sees to. */
export function mayBegin(module: ModuleView): boolean {
  return mayRun(module) && !module.awaitsCrds;
}

/** A module that the reload has still to run, with the reason for the reload. */
type Open = ModuleView & { readonly turn: NonNullable<ModuleView["turn"]> };

function isOpen(module: ModuleView): module is Open {
  return module.turn !== undefined && mayRun(module);
}

/**
 * Whether first runs of larger numbers wait for it: before its first try has ended, unless that takes too long, and not
 * while it waits itself, for what it requires or its CRDs.
 */
function holdsUp(module: ModuleView, view: View): boolean {
  const hasTried = module.phase === "ready" || module.retry !== undefined || module.isStuck;
  return !hasTried && isOpen(module) && mayBegin(module) && waitOf(module, view) === undefined;
}

/**
 * The modules that may begin their run in the reload under way, and why; pure. Discovery gives each its turn, which is
 * over when the run has ended or has failed once. It keeps nobody waiting while a hook that fails is before it in its
 * queue, nor once it has taken `TURN_LIMIT_MS`.
 *
 * | the module's turn                                               | it begins             |
 * | --------------------------------------------------------------- | --------------------- |
 * | removals of the reload are under way, and none has failed       | not yet               |
 * | its run is under way                                            | no second time        |
 * | its CRDs are still to be applied                                | not yet               |
 * | it has run before                                               | at once               |
 * | first run, and it requires something                            | at once: what it requires is looked at then |
 * | first run, and each of a smaller number has run or failed before | at once, side by side |
 * | first run, and one of a smaller number waits for what it requires, or for its CRDs | the same: it holds up nobody |
 * | first run, and one of a smaller number takes too long           | the same              |
 * | first run, and another first run of a smaller number is ahead or under way | not yet    |
 */
export function turnsDue(view: View): ReadonlyMap<string, Cause> {
  if (!turnsMayBegin(view)) return new Map();
  const open = [...view.modules.values()].filter(isOpen);
  const number = Math.min(...open.filter((each) => holdsUp(each, view)).map(orderOf));
  const due = open.filter(
    (each) => !each.turn.begun && mayBegin(each) && (isFree(each) || orderOf(each) <= number),
  );
  return new Map(due.map(({ name, turn }) => [name, turn.cause]));
}

function turnsMayBegin({ reload: { phase, heldUp } }: View): boolean {
  return phase === "turns" || (phase === "modules" && heldUp);
}

/** Whether all runs wait for their turns in the reload under way. What holds up the reload holds up no run. */
export function turnsAreAhead({ moduleQueues, reload: { phase, heldUp } }: View): boolean {
  if (moduleQueues === "main" || heldUp) return false;
  return phase === "beforeAll" || phase === "discovery" || phase === "modules";
}

/** Numbers order first runs alone, and only those of modules that do not say what they wait for. */
function isFree({ phase, module }: ModuleView): boolean {
  return phase === "ready" || module.requires !== undefined;
}

/** Its number. */
export function orderOf({ module }: ModuleView): number {
  return module.order;
}

/** Modules whose turn keeps a module from its first run. */
export function turnsBefore({ module }: ModuleView, view: View): string[] {
  const before = [...view.modules.values()].filter(
    (each) => orderOf(each) < module.order && holdsUp(each, view),
  );
  return before.map(({ name }) => name);
}

/** A turn that takes longer than this keeps nobody waiting any more. */
export const TURN_LIMIT_MS = 5 * 60_000;

/** Modules that have neither run in the reload under way nor failed in it, and are waited for. */
export function turnsLeft({ modules }: View): string[] {
  const left = [...modules.values()].filter((each) => isOpen(each) && !each.isStuck);
  return left.map(({ name }) => name);
}

/** Why a requirement is not met. */
type UnmetReason = "DependencyNotReady" | "DependencyDisabled" | "DependencyMissing";

/** A requirement that is not met. */
interface Unmet {
  /** What is required. */
  readonly name: string;
  readonly reason: UnmetReason;
  /** What is wrong with it, e.g. *is off*. */
  readonly message: string;
  /** It does not come by itself: nothing is at work that brings it. */
  readonly isLost: boolean;
}

/** What a module that is passed over waits for. */
export interface Wait {
  /** The module, or whatever it is. */
  readonly on: string;
  readonly reason: UnmetReason | "Pending";
  readonly message: string;
}

/** Something that a module requires. */
export interface Requirement {
  readonly of: "module" | "object" | "kubernetes";
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly name: string;
  /** Of versions. */
  readonly range?: string;
  /** What is wrong with it. */
  readonly unmet: Unmet | undefined;
}

/** All that a module requires: Kubernetes, modules, then objects, as `addon.yaml` names them. */
export function requirementsOf({ module }: Pick<ModuleView, "module">, view: View): Requirement[] {
  const { modules = {}, objects = [], kubernetes } = module.requires ?? {};
  return [
    ...(kubernetes === undefined ? [] : [kubernetesOf(kubernetes, view)]),
    ...Object.entries(modules).map(([name, range]) => ({
      of: "module" as const,
      name,
      range,
      unmet: unmetModule(name, range, view),
    })),
    ...objects.map((object) => ({
      of: "object" as const,
      name: nameOf(object),
      unmet: unmetObject(object, view),
    })),
  ];
}

/**
 * What is told of them while the module is on: of one that runs already, a requirement that something is at work on is
 * not lost.
 */
export function toldRequirements(module: ModuleView, view: View): readonly Requirement[] {
  if (!module.enabled || module.module.requires === undefined) return [];
  const runs = module.phase === "ready" && module.heldSince === undefined;
  return requirementsOf(module, view).map((each) =>
    runs && each.unmet?.isLost === false ? { ...each, unmet: undefined } : each,
  );
}

function unmetOf(module: Pick<ModuleView, "module">, view: View): Unmet[] {
  return requirementsOf(module, view).flatMap(({ unmet }) => unmet ?? []);
}

function nameOf({ kind, namespace, name }: RequiredObject): string {
  return [namespace, kind, name].filter(Boolean).join("/");
}

function kubernetesOf(range: string, { serverVersion }: View): Requirement {
  const name = "Kubernetes";
  const version = serverVersion === undefined ? undefined : numbersOf(serverVersion);
  const found = { of: "kubernetes", name, range } as const;
  if (inRange(version, range)) return { ...found, unmet: undefined };
  const isLost = serverVersion !== undefined;
  const message = isLost ? `is ${version ?? "without a version"}, not ${range}` : NOT_SEEN;
  return { ...found, unmet: { name, reason: "DependencyMissing", message, isLost } };
}

const NOT_SEEN = "was not looked at yet";

function unmetModule(name: string, range: string, { modules }: View): Unmet | undefined {
  const unmet = (reason: UnmetReason, message: string, isLost = true): Unmet => ({
    name,
    reason,
    message,
    isLost,
  });
  const found = modules.get(name);
  if (found === undefined) return unmet("DependencyMissing", "is no module");
  if (!found.enabled)
    return unmet("DependencyDisabled", found.problem === undefined ? "is off" : "is off and needs a person");
  const version = versionOf(found);
  if (!inRange(version, range))
    return unmet("DependencyMissing", `is ${version ?? "without a version"}, not ${range}`);
  const why = unready(found);
  return why && unmet("DependencyNotReady", why.message, why.isLost);
}

/** Why a module that is on is not Ready; undefined where it is. */
function unready(module: ModuleView): Pick<Unmet, "message" | "isLost"> | undefined {
  const { problem, retry, heldSince, ailing, unready: probe, suspended } = module;
  if (problem !== undefined) return { message: "needs a person", isLost: true };
  if (neverCame(module)) return { message: "is suspended and not installed", isLost: true };
  if (!isDone(module)) return { message: "is not Ready", isLost: (retry ?? heldSince) !== undefined };
  // Nothing is brought back while it is suspended.
  if (suspended) return undefined;
  if (ailing !== undefined) return { message: "is not healthy", isLost: ailing.status === "False" };
  return probe && { message: "does not pass its readiness probe", isLost: probe.status === "False" };
}

function unmetObject(object: RequiredObject, { objects }: View): Unmet | undefined {
  const unmet = { name: nameOf(object), reason: "DependencyMissing" } as const;
  const found = objects.get(requiredKey(object));
  if (found === undefined) return { ...unmet, message: NOT_SEEN, isLost: false };
  return found.message === undefined ? undefined : { ...unmet, message: found.message, isLost: true };
}

/**
 * The version that is in place: of the chart that ran last, since a new version that changes no object makes no new
 * revision; before a run the release's, and before the first installation the one that comes.
 */
function versionOf({ phase, handled, release, module }: ModuleView): string | undefined {
  const ran = phase === "ready" ? handled.version : undefined;
  return ran ?? release?.chartVersion ?? module.chartVersion;
}

/** Whether it was suspended before its first installation: its run ends well without helm. */
function neverCame({ suspended, release, module }: ModuleView): boolean {
  const isInstalled = release !== undefined && release.status !== "uninstalled";
  return suspended && !isInstalled && module.chart !== "none";
}

/** Whether all that was asked of a module is done, and still there. */
function isDone(module: ModuleView): boolean {
  const { phase, activity, retry, heldSince, refused, handled } = module;
  if (phase !== "ready" || activity !== "none" || (retry ?? heldSince ?? refused) !== undefined) return false;
  return handled.config === module.configDigest && handled.token === module.requestedToken && isWhole(module);
}

/** Whether its release is as its run left it. Nothing is brought back while it is suspended. */
function isWhole(module: ModuleView): boolean {
  const { suspended, unread, releaseMoved } = module;
  return suspended || (missingObjects(module).length === 0 && unread === undefined && !releaseMoved);
}

/** A module of `after` that is on and has not been tried yet. */
function before({ module }: ModuleView, { modules }: View): string | undefined {
  return module.after?.find((name) => {
    const other = modules.get(name);
    if (other === undefined || !other.enabled || other.problem !== undefined) return false;
    const { phase, retry, heldSince, isStuck } = other;
    return phase !== "ready" && retry === undefined && heldSince === undefined && !isStuck;
  });
}

/** What a module waits for before it may run; undefined when nothing keeps it. */
export function waitOf(module: ModuleView, view: View): Wait | undefined {
  const [first, ...more] = unmetOf(module, view);
  if (first !== undefined) {
    const rest = more.length === 0 ? "" : ` and ${more.length} more`;
    return { on: first.name, reason: first.reason, message: `${first.name}, which ${first.message}${rest}` };
  }
  const name = before(module, view);
  if (name === undefined) return undefined;
  return { on: name, reason: "Pending", message: `${name}, which runs before it` };
}

/** All requirements that keep a module waiting, beyond the first that `heldBy` names. */
export function otherHolds(module: ModuleView, view: View): string[] {
  if (heldBy(module, view) === undefined) return [];
  return unmetOf(module, view)
    .slice(1)
    .map(({ name, message }) => `and for ${name}, which ${message}`);
}

/** What a module that was passed over waits for, and since when, in one sentence. */
export function heldBy(module: ModuleView, view: View): Wait | undefined {
  if (module.heldSince === undefined || module.problem !== undefined) return undefined;
  const wait = waitOf(module, view);
  if (wait === undefined) return undefined;
  const since = new Date(module.heldSince).toISOString().slice(0, 19);
  return { ...wait, message: `waits for ${wait.message} (since ${since}Z)` };
}

/** What a module that runs already has lost of what it requires, in one sentence. */
export function lostBy(module: ModuleView, view: View): Wait | undefined {
  if (!module.enabled || module.phase !== "ready") return undefined;
  const [lost] = unmetOf(module, view).filter(({ isLost }) => isLost);
  if (lost === undefined) return undefined;
  const { name, reason } = lost;
  return { on: name, reason, message: `it requires ${name}, which ${lost.message}` };
}
