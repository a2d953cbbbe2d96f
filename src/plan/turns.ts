/**
 * Decides which modules may run now: their requirements are met (docs/reference/modules.md, "What a module requires"), and in
 * a converge it is their turn (docs/reference/lifecycle.md, "A queue for each module").
 */

import { formatUtc, isInRange, releaseNumbersOf } from "../lib/index.ts";
import { requiredKey, type Cause, type RequiredObject } from "../model/index.ts";
import { missingObjects, type ModuleView, type View } from "../state/index.ts";
import { activeModules } from "./active.ts";
import { missingValues, type MissingValues } from "./missing-values.ts";

/**
 * Whether a module may run: it is on, valid, and its files are there. While some are missing, a second read decides
 * whether it runs without them or is deleted.
 */
export function mayRun({
  enabled,
  problem,
  module,
}: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return enabled && problem === undefined && module.missing === undefined;
}

/**
 * Whether a module's next run may begin: not before a converge has applied the CRDs of its files, and has run its
 * `enabled` script with all values.
 */
export function mayBegin(module: ModuleView): boolean {
  return mayRun(module) && !module.awaitsCrds && (!module.awaitsScript || module.missingValues.length > 0);
}

/** A module that the current converge has still to run, with the cause of the converge. */
type PendingRun = ModuleView & { readonly turn: NonNullable<ModuleView["turn"]> };

function isPendingRun(module: ModuleView): module is PendingRun {
  return module.turn !== undefined && mayRun(module);
}

/**
 * Whether first runs of larger numbers wait for a module: until its first try has ended or takes too long, but not while it
 * waits itself for requirements or CRDs.
 */
function blocksOthers(module: ModuleView, view: View): boolean {
  const hasTried = module.phase === "ready" || module.retry !== undefined || module.isStuck;
  return !hasTried && isPendingRun(module) && mayBegin(module) && waitOf(module, view) === undefined;
}

/**
 * The modules that may begin their run in the current converge, and why; pure. Discovery gives each module a turn, which
 * ends when its run has ended or failed once. Modules that have run before, or that require something, begin at once. First
 * runs of equal numbers begin together, when those of smaller numbers are over, fail, or wait for something themselves. A
 * run that takes longer than `LONG_RUN_MS`, or is behind a failing hook in its queue, blocks no other. The titles in
 * `test/plan/turns.test.ts` list the cases.
 */
export function turnsDue(view: View): ReadonlyMap<string, Cause> {
  if (!turnsMayBegin(view)) return new Map();
  const open = activeModules(view).filter(isPendingRun);
  const number = Math.min(...open.filter((each) => blocksOthers(each, view)).map(orderOf));
  const due = open.filter(
    (each) => !each.turn.begun && mayBegin(each) && (ignoresOrder(each) || orderOf(each) <= number),
  );
  return new Map(due.map(({ name, turn }) => [name, turn.cause]));
}

function turnsMayBegin({ converge: { phase, isBlocked } }: View): boolean {
  return phase === "turns" || (phase === "modules" && isBlocked);
}

/** Whether all runs wait for their turns in the current converge. A blocked converge blocks no run. */
export function turnsAreAhead({ moduleQueues, converge: { phase, isBlocked } }: View): boolean {
  if (moduleQueues === "main" || isBlocked) return false;
  return phase === "beforeAll" || phase === "discovery" || phase === "modules";
}

/** Numbers order only first runs, and only those of modules without `requires`. */
function ignoresOrder({ phase, module }: ModuleView): boolean {
  return phase === "ready" || module.requires !== undefined;
}

function orderOf({ module }: ModuleView): number {
  return module.order;
}

/** Names of the modules for whose first run a module waits. */
export function runsBefore({ module }: ModuleView, view: View): string[] {
  const pendingPredecessor = activeModules(view).filter(
    (each) => orderOf(each) < module.order && blocksOthers(each, view),
  );
  return pendingPredecessor.map(({ name }) => name);
}

/** Names of the modules for which the current converge waits: they have neither run nor failed in it. */
export function turnsLeft(view: View): string[] {
  const left = activeModules(view).filter((each) => isPendingRun(each) && !each.isStuck);
  return left.map(({ name }) => name);
}

type UnmetReason = "DependencyNotReady" | "DependencyDisabled" | "DependencyMissing";

interface Unmet {
  /** What is required. */
  readonly name: string;
  readonly reason: UnmetReason;
  /** E.g. *is off*. */
  readonly message: string;
  /** Nothing in progress will meet it: it needs a fix or a retry. */
  readonly isLost: boolean;
}

/** What a skipped module waits for. */
export interface Wait {
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly on: string;
  readonly reason: UnmetReason | MissingValues["reason"] | "Pending";
  readonly message: string;
}

export interface Requirement {
  readonly of: "module" | "object" | "kubernetes";
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly name: string;
  /** The range of versions. */
  readonly range?: string;
  /** Undefined where it is met. */
  readonly unmet: Unmet | undefined;
}

/** All that a module requires: Kubernetes, modules, then objects, as `addon.yaml` names them. */
export function requirementsOf({ module }: Pick<ModuleView, "module">, view: View): Requirement[] {
  const { modules = {}, objects = [], kubernetes } = module.requires ?? {};
  return [
    ...(kubernetes === undefined ? [] : [kubernetesRequirement(kubernetes, view)]),
    ...Object.entries(modules).map(([name, range]) => ({
      of: "module" as const,
      name,
      range,
      unmet: unmetModule(name, range, view),
    })),
    ...objects.map((object) => ({
      of: "object" as const,
      name: objectName(object),
      unmet: unmetObject(object, view),
    })),
  ];
}

/**
 * The requirements that the status of an enabled module reports. For a module that runs already, a requirement that will be
 * met again by itself counts as met.
 */
export function reportedRequirements(module: ModuleView, view: View): readonly Requirement[] {
  if (!module.enabled || module.module.requires === undefined) return [];
  const runs = module.phase === "ready" && module.blockedSince === undefined;
  return requirementsOf(module, view).map((each) =>
    runs && each.unmet?.isLost === false ? { ...each, unmet: undefined } : each,
  );
}

/** Everything that keeps the module from running: missing values first, then unmet requirements. */
function unmetOf(module: ModuleView, view: View): (Unmet | MissingValues)[] {
  return [...missingValues(module), ...requirementsOf(module, view).flatMap(({ unmet }) => unmet ?? [])];
}

function objectName({ kind, namespace, name }: RequiredObject): string {
  return [namespace, kind, name].filter(Boolean).join("/");
}

function kubernetesRequirement(range: string, { serverVersion }: View): Requirement {
  const name = "Kubernetes";
  const version = serverVersion === undefined ? undefined : releaseNumbersOf(serverVersion);
  const found = { of: "kubernetes", name, range } as const;
  if (isInRange(version, range)) return { ...found, unmet: undefined };
  const isLost = serverVersion !== undefined;
  const message = isLost ? `is ${version ?? "without a version"}, not ${range}` : NOT_SEEN;
  return { ...found, unmet: { name, reason: "DependencyMissing", message, isLost } };
}

const NOT_SEEN = "has not been checked yet";

/** Why a required module does not meet the requirement; undefined if it does. */
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
  if (!isInRange(version, range))
    return unmet("DependencyMissing", `is ${version ?? "without a version"}, not ${range}`);
  const why = notReadyReason(found);
  return why && unmet("DependencyNotReady", why.message, why.isLost);
}

/** Why a module that is on is not Ready; undefined if it is Ready. */
function notReadyReason(module: ModuleView): Pick<Unmet, "message" | "isLost"> | undefined {
  const { problem, retry, blockedSince, unhealthy, unready: probe, suspended } = module;
  if (problem !== undefined) return { message: "needs a person", isLost: true };
  if (wasNeverInstalled(module)) return { message: "is suspended and not installed", isLost: true };
  if (!isDone(module)) return { message: "is not Ready", isLost: (retry ?? blockedSince) !== undefined };
  // The health of a suspended module is ignored, because nothing repairs it.
  if (suspended) return undefined;
  if (unhealthy !== undefined) return { message: "is not healthy", isLost: unhealthy.status === "False" };
  return probe && { message: "does not pass its readiness probe", isLost: probe.status === "False" };
}

/** Why a required object does not meet the requirement; undefined if it does. */
function unmetObject(object: RequiredObject, { objects }: View): Unmet | undefined {
  const unmet = { name: objectName(object), reason: "DependencyMissing" } as const;
  const found = objects.get(requiredKey(object));
  if (found === undefined) return { ...unmet, message: NOT_SEEN, isLost: false };
  return found.message === undefined ? undefined : { ...unmet, message: found.message, isLost: true };
}

/**
 * The installed version of a module. After a run it is the version of the chart that ran: the release may have an older one,
 * because a version that changes no object creates no revision. Before a run it is the release's, else the chart's.
 */
function versionOf({ phase, handled, release, module }: ModuleView): string | undefined {
  const ran = phase === "ready" ? handled.version : undefined;
  return ran ?? release?.chartVersion ?? module.chartVersion;
}

/** Whether a module was suspended before its first installation, so that its run succeeds without helm. */
function wasNeverInstalled({ suspended, release, module }: ModuleView): boolean {
  const isInstalled = release !== undefined && release.status !== "uninstalled";
  return suspended && !isInstalled && module.chart !== "none";
}

/** Whether a module's last run used its current configuration, and its release is still intact. */
function isDone(module: ModuleView): boolean {
  const { phase, activity, retry, blockedSince, refused, handled } = module;
  if (phase !== "ready" || activity !== "none" || (retry ?? blockedSince ?? refused) !== undefined)
    return false;
  return (
    handled.config === module.configDigest &&
    handled.token === module.requestedToken &&
    isReleaseIntact(module)
  );
}

/** Whether the release is as the last run left it. If the module is suspended, it counts as intact, because nothing repairs it. */
function isReleaseIntact(module: ModuleView): boolean {
  const { suspended, unread, releaseMoved } = module;
  return suspended || (missingObjects(module).length === 0 && unread === undefined && !releaseMoved);
}

/** The first module of `after` that is on and has not been tried yet; undefined if the module waits for none. */
function firstPending({ module }: ModuleView, { modules }: View): string | undefined {
  return module.after?.find((name) => {
    const other = modules.get(name);
    if (other === undefined || !other.enabled || other.problem !== undefined) return false;
    const { phase, retry, blockedSince, isStuck } = other;
    return phase !== "ready" && retry === undefined && blockedSince === undefined && !isStuck;
  });
}

/** What a module waits for before it may run; undefined where nothing blocks it. */
export function waitOf(module: ModuleView, view: View): Wait | undefined {
  const [first, ...more] = unmetOf(module, view);
  if (first !== undefined) {
    const rest = more.length === 0 ? "" : ` and ${more.length} more`;
    return { on: first.name, reason: first.reason, message: `${first.name}, which ${first.message}${rest}` };
  }
  const name = firstPending(module, view);
  if (name === undefined) return undefined;
  return { on: name, reason: "Pending", message: `${name}, which runs before it` };
}

/** All unmet requirements of a blocked module but the first, which `blockedBy` names. */
export function otherBlockers(module: ModuleView, view: View): string[] {
  if (blockedBy(module, view) === undefined) return [];
  return unmetOf(module, view)
    .slice(1)
    .map(({ name, message }) => `and for ${name}, which ${message}`);
}

/** What a skipped module waits for, and since when, in one sentence. */
export function blockedBy(module: ModuleView, view: View): Wait | undefined {
  if (module.blockedSince === undefined || module.problem !== undefined) return undefined;
  const wait = waitOf(module, view);
  if (wait === undefined) return undefined;
  return { ...wait, message: `waits for ${wait.message} (since ${formatUtc(module.blockedSince)})` };
}

/** The first requirement that is no longer met of a module that runs already, in one sentence. */
export function lostRequirement(module: ModuleView, view: View): Wait | undefined {
  if (!module.enabled || module.phase !== "ready") return undefined;
  const [lost] = unmetOf(module, view).filter(({ isLost }) => isLost);
  if (lost === undefined) return undefined;
  const { name, reason } = lost;
  return { on: name, reason, message: `it requires ${name}, which ${lost.message}` };
}
