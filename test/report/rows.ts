import type { ModuleView } from "../../src/engine/state/index.ts";
import type { RunBlocker } from "../../src/engine/plan/index.ts";
import { T0, basis, underWay } from "./views.ts";

/** One row of the table of states. */
export interface Row {
  readonly name: string;
  readonly view: Partial<ModuleView>;
  readonly hold?: string;
  readonly wait?: RunBlocker;
  readonly state: string;
  readonly ready: "True" | "False" | "Unknown";
  readonly other: "Reconciling" | "Stalled" | undefined;
  readonly kstatus: "Current" | "InProgress" | "Failed";
  readonly reason: string;
}

const never = {
  phase: "new",
  lastRun: undefined,
  release: undefined,
  handled: {},
} as const;
const retry = { reason: "HelmFailed", message: "helm: timed out", failures: 2, since: 0 } as const;
const problem = { file: "ConfigMap addon-operator", key: "m", message: "replicas must be a number" };
const waits = { state: "Pending", ready: "Unknown", other: "Reconciling", kstatus: "InProgress" } as const;
const works = { state: "Running", ready: "Unknown", other: "Reconciling", kstatus: "InProgress" } as const;
const rests = { state: "Ready", ready: "True", other: undefined, kstatus: "Current" } as const;
const fails = { state: "Retrying", ready: "False", other: "Reconciling", kstatus: "InProgress" } as const;
const broken = {
  state: "Invalid",
  ready: "False",
  other: "Stalled",
  kstatus: "Failed",
  reason: "Invalid",
} as const;
const off = { state: "Disabled", ready: "True", other: undefined, kstatus: "Current" } as const;
const held = { state: "Suspended", ready: "True", other: undefined, kstatus: "Current" } as const;

/** Every row of the table, as views that lead to it. */
export const rows: readonly Row[] = [
  { name: "never ran", view: never, ...waits, reason: "Pending" },
  { name: "configuration moved", view: { configDigest: "v1-c2" }, ...waits, reason: "Pending" },
  { name: "run asked for", view: { requestedToken: "t1" }, ...waits, reason: "Pending" },
  { name: "hold", view: never, hold: "waits for a", ...waits, reason: "Pending" },
  ...(["DependencyNotReady", "DependencyDisabled", "DependencyMissing", "ValuesMissing"] as const).map(
    (reason): Row => ({
      name: reason,
      view: { blockedSince: T0 },
      wait: { awaitedName: "a", reason, message: "waits for a" },
      ...waits,
      reason,
    }),
  ),
  { name: "CRDs", view: { crdWork: "Rewrites 4 of 9 objects" }, ...works, reason: "Progressing" },
  { name: "object missing", view: { missingObjects: ["n/Service/s"] }, ...waits, reason: "ObjectsMissing" },
  {
    name: "object in a back-off",
    view: { deferredObjects: ["n/Service/s"] },
    ...waits,
    reason: "ObjectsMissing",
  },
  { name: "off, not removed yet", view: { enabled: false }, ...waits, reason: "Pending" },
  {
    name: "running for a second",
    view: {
      activity: "running",
      attempted: basis({ section: "v1-s2" }),
      lastRun: underWay(T0 - 1000),
    },
    ...works,
    reason: "Progressing",
  },
  {
    name: "running again without a change of its own",
    view: { activity: "running", lastRun: underWay(T0 - 1000) },
    ...works,
    ready: "True",
    reason: "Progressing",
  },
  {
    name: "running for less",
    view: { activity: "running", lastRun: underWay(T0 - 999) },
    ...rests,
    reason: "Ready",
  },
  {
    name: "healing",
    view: { activity: "healing", missingObjects: ["n/Service/s"] },
    ...works,
    ready: "True",
    reason: "Healing",
  },
  {
    name: "healing while another object waits",
    view: { activity: "healing", missingObjects: ["n/Service/s"], deferredObjects: ["n/Service/t"] },
    ...works,
    reason: "Healing",
  },
  {
    name: "healing again after a failure",
    view: { activity: "healing", missingObjects: ["n/Service/s"], retry },
    ...works,
    ready: "False",
    reason: "Healing",
  },
  { name: "ready", view: {}, ...rests, reason: "Ready" },
  {
    name: "applied, not healthy yet",
    view: { unhealthy: { status: "Unknown", reason: "Progressing", message: "m" } },
    ...works,
    state: "Progressing",
    reason: "Progressing",
  },
  {
    name: "applied, but not healthy",
    view: { unhealthy: { status: "False", reason: "Unhealthy", message: "m" } },
    state: "Unhealthy",
    ready: "False",
    other: undefined,
    kstatus: "InProgress",
    reason: "Unhealthy",
  },
  {
    name: "its probe has not answered yet",
    view: { unready: { status: "Unknown", message: "m" } },
    ...works,
    state: "Progressing",
    reason: "Progressing",
  },
  {
    name: "its probe fails",
    view: { unready: { status: "False", message: "m" } },
    state: "Unhealthy",
    ready: "False",
    other: undefined,
    kstatus: "InProgress",
    reason: "ReadinessProbeFailed",
  },
  {
    name: "suspended, not healthy",
    view: { suspended: true, unhealthy: { status: "False", reason: "Unhealthy", message: "m" } },
    ...held,
    ready: "False",
    kstatus: "InProgress",
    reason: "Suspended",
  },
  {
    name: "suspended, objects in progress",
    view: { suspended: true, unhealthy: { status: "Unknown", reason: "Progressing", message: "m" } },
    ...held,
    ready: "Unknown",
    kstatus: "InProgress",
    reason: "Suspended",
  },
  ...(
    [
      "HookFailed",
      "HelmFailed",
      "ScriptFailed",
      "ValuesIncomplete",
      "Unstable",
      "ApiFailed",
      "ObjectsExist",
    ] as const
  ).map((reason): Row => ({ name: reason, view: { retry: { ...retry, reason } }, ...fails, reason })),
  {
    name: "a retry for less than a second",
    view: { retry, activity: "running", lastRun: underWay(T0 - 10) },
    ...fails,
    reason: "HelmFailed",
  },
  {
    name: "content is not on disk",
    view: { problem: { ...problem, retriedAs: "SourceUnavailable" } },
    ...fails,
    reason: "SourceUnavailable",
  },
  {
    name: "failing removal",
    view: { enabled: false, activity: "deleting", retry },
    ...fails,
    reason: "HelmFailed",
  },
  {
    name: "rolled back",
    view: { rollbackReason: "Rolled back to chart 1", missingObjects: ["n/Service/s"] },
    ...broken,
    state: "RolledBack",
    reason: "RolledBack",
  },
  {
    name: "rolled back, an edit waits",
    view: { rollbackReason: "m", configDigest: "v1-c2" },
    ...waits,
    reason: "Pending",
  },
  { name: "broken", view: { problem }, ...broken },
  {
    name: "broken although running",
    view: { problem, activity: "running", lastRun: underWay(T0 - 9000) },
    ...broken,
  },
  { name: "disabled", view: { enabled: false, release: undefined }, ...off, reason: "Disabled" },
  {
    name: "off, hooks of its removal left",
    view: { enabled: false, release: undefined, isRemovalDecided: true },
    ...waits,
    reason: "Pending",
  },
  {
    name: "deleting",
    view: { enabled: false, activity: "deleting" },
    ...waits,
    state: "Deleting",
    reason: "Deleting",
  },
  { name: "suspended", view: { suspended: true }, ...held, reason: "Suspended" },
  {
    name: "suspended, objects missing",
    view: { suspended: true, missingObjects: ["n/S/s"] },
    ...held,
    ready: "False",
    kstatus: "InProgress",
    reason: "Suspended",
  },
  { name: "suspended and off", view: { suspended: true, enabled: false }, ...held, reason: "Suspended" },
];
