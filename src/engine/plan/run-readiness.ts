/**
 * Decides whether a module may run now: it is on, and what it requires (`requires` in its addon.yaml: modules, objects, a Kubernetes version) is
 * there (docs/reference/modules.md, "What a module requires"). An unmet requirement `needsIntervention` if it will not be met by itself.
 */

import { formatUtc, isInRange, releaseNumbersOf } from "../../base/index.ts";
import { requiredKey, type Module, type RequiredObject } from "../../base/model/index.ts";
import { getReleaseVersion, listMissingObjects, type ModuleView, type View } from "../state/index.ts";

/** Whether a module may run: it is on, valid, and its files are there. If files are missing, a second read decides whether it runs without them. */
export function isRunnable(view: Pick<ModuleView, "enabled" | "problem" | "module">): boolean {
  return view.enabled && view.problem === undefined && view.module.unconfirmedMissing === undefined;
}

/** Whether a module's next run may begin: not before a converge has applied the CRDs of its files, and has run its `enabled` script with all values. */
export function canStartRun(module: ModuleView): boolean {
  if (!isRunnable(module) || module.awaitsCrds) return false;
  // While values are missing, the script cannot run, and the run itself reports what is missing.
  return !module.awaitsScript || module.missingValues.length > 0;
}

/** What keeps a module's run from starting. */
export interface RunBlocker {
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly awaitedName: string;
  readonly reason: UnmetReason | "ValuesMissing" | "Pending";
  readonly message: string;
}

/** The first module named in `after` in `addon.yaml` that is on and was not tried yet; undefined if the module waits for none of them. */
function findPendingPredecessor({ module }: ModuleView, { modules }: View): string | undefined {
  return module.after?.find((name) => {
    const other = modules.get(name);
    if (other === undefined || !other.enabled || other.problem !== undefined) return false;
    const { phase, retry, blockedSince, isStuck } = other;
    return phase !== "ready" && retry === undefined && blockedSince === undefined && !isStuck;
  });
}

/** What keeps the module's run from starting: a missing Secret or ConfigMap, an unmet requirement, or a module named in `after`. Undefined if nothing does. */
export function findRunBlocker(module: ModuleView, view: View): RunBlocker | undefined {
  const [first, ...more] = listUnmetRequirements(module, listRequirements(module, view));
  if (first !== undefined) {
    const count = more.length === 0 ? "" : ` and ${more.length} more`;
    const message = `${first.name}, which ${first.message}${count}`;
    return { awaitedName: first.name, reason: first.reason, message };
  }
  const name = findPendingPredecessor(module, view);
  if (name === undefined) return undefined;
  return { awaitedName: name, reason: "Pending", message: `${name}, which runs before it` };
}

/** As `findRunBlocker`, for a module whose run was due but blocked (`blockedSince`). Undefined for any other module. */
export function findDueRunBlocker(module: ModuleView, view: View): RunBlocker | undefined {
  if (module.blockedSince === undefined || module.problem !== undefined) return undefined;
  return findRunBlocker(module, view);
}

/** What the explanation of a module says of its requirements. The messages are sentences for users. */
interface ExplainedRequirements {
  /** After the module's first run, a requirement that will be met again by itself counts as met: e.g. the required module is only being upgraded. */
  readonly requirements: readonly Requirement[];
  /** What a blocked run waits for, and since when. */
  readonly runBlocker: RunBlocker | undefined;
  /** Sentences about everything else that a blocked run waits for. */
  readonly otherBlockers: readonly string[];
  /** The first requirement that was met when the module ran, and now needs a user's intervention. */
  readonly lostRequirement: RunBlocker | undefined;
}

/** Explains what an enabled module requires, what of that keeps its due run from starting, and what it has lost since it ran. */
export function explainRequirements(module: ModuleView, view: View): ExplainedRequirements {
  const { enabled, phase, blockedSince } = module;
  const all = listRequirements(module, view);
  const unmet = listUnmetRequirements(module, all);
  const hasRun = phase === "ready" && blockedSince === undefined;
  const requirements = all.map((each) =>
    hasRun && each.unmet?.needsIntervention === false ? { ...each, unmet: undefined } : each,
  );
  const blocker = findDueRunBlocker(module, view);
  const since = `(since ${formatUtc(blockedSince ?? 0)})`;
  const others = blocker === undefined ? [] : unmet.slice(1);
  const lost =
    enabled && phase === "ready" ? unmet.find(({ needsIntervention }) => needsIntervention) : undefined;
  return {
    requirements: enabled ? requirements : [],
    runBlocker: blocker && { ...blocker, message: `waits for ${blocker.message} ${since}` },
    otherBlockers: others.map(({ name, message }) => `and for ${name}, which ${message}`),
    lostRequirement: lost && {
      awaitedName: lost.name,
      reason: lost.reason,
      message: `it requires ${lost.name}, which ${lost.message}`,
    },
  };
}

type UnmetReason = "DependencyNotReady" | "DependencyDisabled" | "DependencyMissing";

/** Why a requirement of a module is not met. */
interface UnmetRequirement {
  /** The required module, object or Kubernetes. */
  readonly name: string;
  readonly reason: UnmetReason;
  /** E.g. *is disabled*. */
  readonly message: string;
  /** Nothing in progress will meet the requirement: a user must fix something, or a failed run must be retried. */
  readonly needsIntervention: boolean;
}

/** One entry of `requires` in `addon.yaml`, and whether it is met. */
export interface Requirement {
  readonly of: "module" | "object" | "kubernetes";
  /** A module, an object as `namespace/Kind/name`, or Kubernetes. */
  readonly name: string;
  /** The range of versions. */
  readonly range?: string;
  /** Undefined if the requirement is met. */
  readonly unmet: UnmetRequirement | undefined;
}

/** Checks everything that a module requires: Kubernetes, modules, then objects, in the order of `addon.yaml`. */
export function listRequirements({ module }: Pick<ModuleView, "module">, view: View): Requirement[] {
  const { modules = {}, objects = [], kubernetes } = module.requires ?? {};
  const requirements: Requirement[] = [];
  if (kubernetes !== undefined) requirements.push(checkKubernetesVersion(kubernetes, view));
  for (const [name, range] of Object.entries(modules))
    requirements.push({ of: "module", name, range, unmet: checkRequiredModule(name, range, view) });
  for (const object of objects) {
    const unmet = checkRequiredObject(object, module, view);
    requirements.push({ of: "object", name: formatObjectName(object), unmet });
  }
  return requirements;
}

/** Everything that the module lacks before it can run: missing Secrets and ConfigMaps with values first, then unmet requirements. */
function listUnmetRequirements(
  module: ModuleView,
  requirements: readonly Requirement[],
): (UnmetRequirement | MissingValues)[] {
  return [...toMissingValues(module), ...requirements.flatMap(({ unmet }) => unmet ?? [])];
}

/** E.g. `namespace/Kind/name`. */
function formatObjectName({ kind, namespace, name }: RequiredObject): string {
  return [namespace, kind, name].filter(Boolean).join("/");
}

/** Compares the version of the API server with the required range. Before the first converge has read the version, the requirement is unmet. */
function checkKubernetesVersion(range: string, { serverVersion }: View): Requirement {
  const name = "Kubernetes";
  const version = serverVersion === undefined ? undefined : releaseNumbersOf(serverVersion);
  const requirement = { of: "kubernetes", name, range } as const;
  if (isInRange(version, range)) return { ...requirement, unmet: undefined };
  const isVersionKnown = serverVersion !== undefined;
  const message = isVersionKnown ? `is ${version ?? "without a version"}, not ${range}` : NOT_CHECKED_YET;
  const unmet = { name, reason: "DependencyMissing", message, needsIntervention: isVersionKnown } as const;
  return { ...requirement, unmet };
}

const NOT_CHECKED_YET = "has not been checked yet";

/** Checks that a required module exists, is on, has a version in the range and is Ready. Returns undefined if all of that is so. */
function checkRequiredModule(name: string, range: string, { modules }: View): UnmetRequirement | undefined {
  const describeUnmet = (reason: UnmetReason, message: string): UnmetRequirement => {
    return { name, reason, message, needsIntervention: true };
  };
  const required = modules.get(name);
  if (required === undefined) return describeUnmet("DependencyMissing", "does not exist");
  if (!required.enabled) {
    const message = required.problem === undefined ? "is disabled" : "is disabled and requires action";
    return describeUnmet("DependencyDisabled", message);
  }
  const version = getInstalledVersion(required);
  if (!isInRange(version, range))
    return describeUnmet("DependencyMissing", `is ${version ?? "without a version"}, not ${range}`);
  const notReady = explainNotReady(required);
  return notReady && { name, reason: "DependencyNotReady", ...notReady };
}

/** Why a module that is on is not Ready; undefined if it is Ready. */
function explainNotReady(
  module: ModuleView,
): Pick<UnmetRequirement, "message" | "needsIntervention"> | undefined {
  const { problem, retry, blockedSince, unhealthy, unready, suspended } = module;
  if (problem !== undefined) return { message: "requires action", needsIntervention: true };
  if (isSuspendedBeforeInstall(module))
    return { message: "is suspended and not installed", needsIntervention: true };
  const hasFailedOrWaits = retry !== undefined || blockedSince !== undefined;
  if (!hasAppliedCurrentConfig(module))
    return { message: "is not Ready", needsIntervention: hasFailedOrWaits };
  // The health of a suspended module is ignored, because nothing repairs it.
  if (suspended) return undefined;
  // `unhealthy` and `unready` are undefined if Ready does not require health and the module has no probe.
  if (unhealthy !== undefined)
    return { message: "is not healthy", needsIntervention: unhealthy.status === "False" };
  return (
    unready && { message: "does not pass its readiness probe", needsIntervention: unready.status === "False" }
  );
}

/** Reads the last check of a required object. Returns undefined if the object is as required. */
function checkRequiredObject(
  object: RequiredObject,
  module: Module,
  { objects }: View,
): UnmetRequirement | undefined {
  const unmet = { name: formatObjectName(object), reason: "DependencyMissing" } as const;
  const finding = objects.get(requiredKey(object, module));
  if (finding === undefined) return { ...unmet, message: NOT_CHECKED_YET, needsIntervention: false };
  if (finding.message === undefined) return undefined;
  return { ...unmet, message: finding.message, needsIntervention: true };
}

/**
 * The installed version of a module. After a run it is the version of the chart that ran: the release may have an older one,
 * because a version that changes no object creates no revision. Before a run it is the release's, else the chart's.
 */
function getInstalledVersion(view: ModuleView): string | undefined {
  const versionOfLastRun = view.phase === "ready" ? view.handled.version : undefined;
  return versionOfLastRun ?? getReleaseVersion(view) ?? view.module.chartVersion;
}

/** Whether a module was suspended before its first installation: its run succeeds without helm, but nothing is installed. */
function isSuspendedBeforeInstall({ suspended, release, module }: ModuleView): boolean {
  const isInstalled = release !== undefined && release.status !== "uninstalled";
  return suspended && !isInstalled && module.chart !== "none";
}

/**
 * Whether a module's last run succeeded with the current configuration, and its release is still intact. Stricter than the status of the
 * module: what requires it also waits for a converge that an edit of globals or flags causes.
 */
function hasAppliedCurrentConfig(module: ModuleView): boolean {
  const { phase, activity, retry, blockedSince, rollbackReason, handled } = module;
  if (phase !== "ready" || activity !== "none") return false;
  if (retry !== undefined || blockedSince !== undefined || rollbackReason !== undefined) return false;
  if (handled.config !== module.configDigest || handled.token !== module.requestedToken) return false;
  return isReleaseIntact(module);
}

/** Whether the release is as the last run left it. The release of a suspended module counts as intact, because nothing repairs it. */
export function isReleaseIntact(module: ModuleView): boolean {
  if (module.suspended) return true;
  const { releaseReadError, isReleaseChangedByHand } = module;
  return listMissingObjects(module).length === 0 && releaseReadError === undefined && !isReleaseChangedByHand;
}

/** A Secret or ConfigMap with values for which a module waits. */
type MissingValues = Omit<UnmetRequirement, "reason"> & { readonly reason: "ValuesMissing" };

/** Splits the recorded texts about missing Secrets and ConfigMaps into name and message, in the form of unmet requirements. */
function toMissingValues({ missingValues }: Pick<ModuleView, "missingValues">): MissingValues[] {
  return missingValues.map((text) => {
    // E.g. "Secret default/db-values, which does not exist".
    const [name = "", message = ""] = text.split(", which ");
    return { name, reason: "ValuesMissing", message, needsIntervention: true };
  });
}
