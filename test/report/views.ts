import { KnownSecrets } from "../../src/base/index.ts";
import { ModuleQueues, type Json, type Module } from "../../src/base/model/index.ts";
import type { Release } from "../../src/helm/index.ts";
import { newModuleRecord, type LastRun, type ModuleView, type View } from "../../src/engine/state/index.ts";
import type { RunInputs } from "../../src/engine/state/run-record.ts";
import { NO_SETTINGS } from "../../src/values/index.ts";
import { buildOverview, explain, explainProjected, Projector } from "../../src/report/index.ts";
import type {
  ModuleExplanation,
  ModuleStatus,
  Overview,
  Projection,
  StateSnapshot,
} from "../../src/report/index.ts";
import { explainRequirements } from "../../src/engine/plan/index.ts";
import { describeBlocker, findHeadOfDelayingQueue } from "../../src/report/explain/blockers.ts";
import { indexSnapshot } from "../../src/report/explain/snapshot-index.ts";
import { evaluateModule, type EvaluationContext } from "../../src/report/explain/module-state.ts";
import { projectModule, type ModuleProjection } from "../../src/report/project/module-status.ts";
import { projectOperator } from "../../src/report/project/operator-status.ts";
import type { OperatorStatus } from "../../src/report/models/kinds.ts";

/** The moment tests begin at. */
export const T0 = Date.UTC(2026, 0, 1);

/** A module view at rest: on, ran, ready. Change what the test is about. */
export function moduleView(name: string, change: Partial<ModuleView> = {}): ModuleView {
  const module = { name, valuesKey: name, order: 10, problem: undefined } as unknown as Module;
  const { run, ...facts } = newModuleRecord(module);
  return {
    ...run,
    ...facts,
    ...NO_SETTINGS,
    name,
    isDiscovered: true,
    enabled: true,
    enabledBy: "configmap",
    phase: "ready",
    problem: undefined,
    lastRun: finished(),
    release: release(name),
    unhealthy: undefined,
    unready: undefined,
    nextRunRollsBack: false,
    givenDigest: "v1-g1",
    configDigest: "v1-c1",
    valuesDigest: "v1-v1",
    wholeDigest: "g1-v1",
    values: (): Json => ({ global: {}, [name]: { replicas: 1 } }),
    // An edit of its section changes both digests.
    sectionDigest: change.configDigest === undefined ? "v1-s1" : "v1-s2",
    attempted: basis(),
    handled: basis(),
    leftRevision: 3,
    flag: true,
    isFlagUnknown: false,
    awaitsCrds: false,
    missingValues: [],
    staleValues: [],
    isReleaseChangedByHand: false,
    ...change,
  };
}

/** What a run took into account: everything as it is. */
export function basis(change: Partial<RunInputs> = {}): RunInputs {
  const unset = { token: undefined, version: undefined, files: undefined };
  return { section: "v1-s1", given: "v1-g1", config: "v1-c1", values: "v1-v1", ...unset, ...change };
}

/** A run that ended well, two seconds long, just before the tests begin. */
export function finished(change: Partial<LastRun> = {}): LastRun {
  return {
    cause: { kind: "config" },
    startedAt: T0 - 5000,
    finishedAt: T0 - 3000,
    result: "Succeeded",
    step: "afterHelm",
    hook: undefined,
    message: undefined,
    attempts: 1,
    ...change,
  };
}

/** A run under way since `startedAt`. */
export function underWay(startedAt: number, change: Partial<LastRun> = {}): LastRun {
  return finished({ startedAt, finishedAt: undefined, result: undefined, step: "helm", ...change });
}

/** A deployed release. */
export function release(name: string, change: Partial<Release> = {}): Release {
  return {
    name,
    namespace: "addon-operator",
    revision: 3,
    status: "deployed",
    chartVersion: "1.2.0",
    manifestChecksum: "v1-m1",
    lastDeployed: T0 - 4000,
    ...change,
  };
}

/** A view of an operator at rest with these modules. */
export function viewOf(modules: readonly ModuleView[], change: Partial<View> = {}): View {
  return {
    boot: "running",
    moduleQueues: new ModuleQueues(),
    invalidConfig: "stop",
    operator: { name: "addon-operator", namespace: "default" },
    config: {
      condition: "ok",
      problems: [],
      resourceVersion: "42",
      unknownKeys: [],
      digest: "v1-c1",
      isInForce: true,
      isFrozen: false,
    },
    converge: {
      phase: "idle",
      cause: { kind: "start-up" },
      startedAt: T0 - 9000,
      finishedAt: T0 - 1000,
      remaining: [],
      handled: undefined,
      rounds: 0,
    },
    modules: new Map(modules.map((module) => [module.name, module])),
    enabledModules: modules.filter((module) => module.enabled).map((module) => module.name),
    removalBlockers: [],
    pendingRemovals: [],
    modulesWithChangedFiles: new Set(),
    objects: new Map(),
    serverVersion: undefined,
    missingRights: [],
    hidesWords: false,
    areSourcesRead: true,
    missingGlobals: [],
    issues: [],
    webhookIssues: [],
    watchIssues: [],
    leaseIssue: undefined,
    sourcesProblem: undefined,
    sourceProblems: [],
    tree: { notExecutableWarnings: [] },
    requestedToken: undefined,
    handledToken: undefined,
    convergedToken: undefined,
    ...change,
  } as unknown as View;
}

/** Queues in which the runs of some modules wait for that of another one. */
export function queueOf(head: string, ...waiting: readonly string[]): StateSnapshot["queues"] {
  const tasks = [head, ...waiting].map((module, place) => ({
    task: { kind: "run-module", module, cause: { kind: "config" } } as const,
    count: 1,
    failures: 0,
    message: undefined,
    nextAt: undefined,
    running: place === 0,
  }));
  return [{ name: "main", length: tasks.length, tasks }];
}

/** Options of a mirror where none of them matters. */
export const QUIET_MIRROR = {
  secrets: new KnownSecrets(),
  statusValues: "redacted",
  report: { statusWritten: () => {}, runSecondsRead: () => {} },
  annotations: { handleAnnotations: () => {} },
  config: { refresh: () => Promise.resolve(true) },
} as const;

interface ModuleFacts
  extends Partial<EvaluationContext>, Partial<Pick<ModuleExplanation, "nextRetryAt" | "requirements">> {
  readonly identity?: ModuleStatus["identity"];
  readonly previousStatus?: ModuleStatus;
}

/** The AddonModule of a module, alone in its operator. `facts` replace what delays the module. */
export function projectView(view: ModuleView, facts: ModuleFacts = {}): ModuleProjection {
  const { now = T0, previousStatus, identity, ...delays } = facts;
  const explanation = explain({ view: viewOf([view]), queues: [] }, now).module(view.name);
  if (explanation === undefined) throw new Error("a view has its module");
  const evaluation = evaluateModule(view, { now, ...delays });
  return projectModule({ ...explanation, ...evaluation, ...delays }, { now, previousStatus, identity });
}

/** The status of the AddonOperator at T0. */
export function projectOperatorView(view: View, queues: StateSnapshot["queues"] = []): OperatorStatus {
  return projectOperator(explain({ view, queues }, T0), { now: T0 });
}

/** The content of all resources at one moment, without secrets in it. */
export function projectAll(snapshot: StateSnapshot, now = T0): Projection {
  return new Projector("none", new KnownSecrets()).project(snapshot, now);
}

/** What `status` displays. */
export function overviewOf(snapshot: StateSnapshot, now = T0): Overview {
  return buildOverview(projectAll(snapshot, now), now);
}

/** What `module why` displays. */
export function whyOf(snapshot: StateSnapshot, module: string, now = T0): string[] {
  return explainProjected(projectAll(snapshot, now), module);
}

/** What delays the run or removal of a module, whether one is due or not. */
export function blockerOf(snapshot: StateSnapshot, module: string): string | undefined {
  const { view } = snapshot;
  const found = view.modules.get(module);
  if (found === undefined) return "no such module";
  const head = findHeadOfDelayingQueue(found, indexSnapshot(snapshot));
  return describeBlocker(found, view, { ...explainRequirements(found, view), head });
}
