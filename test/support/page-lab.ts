/** An operator that only shows: its page on loopback, over modules as a platform team has them. */

import { servePublic } from "../../src/surface/debug/index.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import type { Module, Problem } from "../../src/base/model/index.ts";
import type { ModuleView } from "../../src/engine/state/index.ts";
import type { Span } from "../../src/base/model/index.ts";
import type { RunView } from "../../src/base/trace/index.ts";
import { Page, type PageSources } from "../../src/surface/ui/index.ts";
import { T0, finished, moduleView, release, underWay, viewOf, projectAll } from "../report/views.ts";
import { ManualClock } from "./clock.ts";
import { type StateSnapshot } from "../../src/report/index.ts";

export const SECRET = "hunter2-correct-horse";

interface Terms {
  readonly order: number;
  readonly requires?: readonly string[];
  readonly version?: string;
}

const camel = (name: string): string =>
  name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/** A module of the demonstration. */
export function displayed(name: string, terms: Terms, change: Partial<ModuleView> = {}): ModuleView {
  const { order, requires = [], version = "1.2.0" } = terms;
  const module = {
    name,
    valuesKey: camel(name),
    order,
    dir: `/modules/${order}-${name}`,
    chartVersion: version,
    problem: undefined,
    requires: { modules: Object.fromEntries(requires.map((each) => [each, ">=1.0.0"])) },
  } as unknown as Module;
  const { seconds, minutes } = { seconds: (order % 9) + 1.5, minutes: (order % 11) + 3 };
  const startedAt = T0 - minutes * 60_000;
  return moduleView(name, {
    module,
    lastRun: finished({ startedAt, finishedAt: startedAt + seconds * 1000 }),
    release: release(name, { chartVersion: version }),
    values: () => ({ global: {}, [camel(name)]: { replicas: 2, image: { tag: version } } }),
    ...change,
  });
}

const healthy = (total: number): ModuleView["health"] => ({
  status: "True",
  reason: "Healthy",
  message: `All objects are healthy (${total})`,
  counts: { total, current: total, inProgress: 0, failed: 0, terminating: 0, unknown: 0 },
  ailments: [],
  revision: 3,
});

const CRASHING: ModuleView["health"] = {
  status: "False",
  reason: "Failed",
  message: "Deployment monitoring/loki: container loki of Pod loki-0 crashes: exit code 1",
  counts: { total: 9, current: 8, inProgress: 0, failed: 1, terminating: 0, unknown: 0 },
  ailments: [
    {
      object: "monitoring/Deployment/loki",
      status: "Failed",
      reason: "CrashLoopBackOff",
      message: "container loki of Pod loki-0 crashes: exit code 1: cannot open /etc/loki/config.yaml",
    },
  ],
  revision: 3,
};

/** The modules of a small platform, some of them in issues. */
export function platform(): ModuleView[] {
  const well = (name: string, terms: Terms): ModuleView =>
    displayed(name, terms, { health: healthy((terms.order % 7) + 2) });
  return [
    well("cert-manager", { order: 10, version: "1.16.2" }),
    well("cilium", { order: 5, version: "1.16.4" }),
    well("ingress-nginx", { order: 20, requires: ["cert-manager"], version: "4.11.3" }),
    well("external-dns", { order: 30, requires: ["ingress-nginx"], version: "1.15.0" }),
    displayed(
      "prometheus",
      { order: 40, requires: ["cert-manager"], version: "66.3.1" },
      {
        health: healthy(31),
        drift: {
          count: 1,
          objects: [
            {
              object: "monitoring/Deployment/prometheus-operator",
              title: "Deployment monitoring/prometheus-operator",
              isRepairDelayed: false,
              fields: [
                { field: "spec.replicas", manager: "kubectl-edit", at: T0 - 1_800_000, removed: false },
              ],
            },
          ],
        } as unknown as ModuleView["drift"],
        values: () => ({
          global: {},
          prometheus: {
            replicas: 2,
            retention: "15d",
            resources: { requests: { cpu: "500m", memory: "2Gi" } },
            ingress: { enabled: true, host: "prometheus.shop.example" },
            remoteWrite: { url: "https://metrics.shop.example/push", password: SECRET },
          },
        }),
      },
    ),
    displayed(
      "loki",
      { order: 50, requires: ["prometheus"], version: "6.22.0" },
      {
        health: CRASHING,
        unhealthy: { status: "False", reason: "Failed", message: CRASHING?.message ?? "" },
      },
    ),
    displayed(
      "grafana",
      { order: 60, requires: ["prometheus", "loki"], version: "8.6.3" },
      {
        phase: "new",
        blockedSince: T0 - 240_000,
        lastRun: undefined,
        release: undefined,
      },
    ),
    displayed(
      "postgres-operator",
      { order: 70, version: "1.13.0" },
      {
        retry: {
          reason: "HelmFailed",
          failures: 4,
          since: T0 - 600_000,
          message: `UPGRADE FAILED: cannot patch "postgresqls.acid.zalan.do": admission webhook denied the request, password=${SECRET}`,
        },
        lastRun: finished({
          startedAt: T0 - 95_000,
          finishedAt: T0 - 93_000,
          result: "Failed",
          step: "helm",
          attempts: 4,
        }),
      },
    ),
    displayed(
      "kafka",
      { order: 80, requires: ["cert-manager"], version: "0.44.0" },
      {
        activity: "running",
        lastRun: underWay(T0 - 34_000),
      },
    ),
    displayed(
      "old-dashboard",
      { order: 90 },
      {
        enabled: false,
        enabledBy: "configmap",
        release: undefined,
        lastRun: undefined,
        phase: "new",
      },
    ),
    well("vertical-pod-autoscaler", { order: 100, version: "4.7.1" }),
    well("descheduler", { order: 110, version: "0.31.0" }),
  ];
}

/** The platform with a module of a registry, of which a newer version waits for approval. */
export function withUpdate(): ModuleView[] {
  const [first, ...others] = platform();
  if (first === undefined) return others;
  const digest = `sha256:${"a".repeat(64)}`;
  const origin = {
    source: "platform",
    version: "1.16.2",
    digest,
    verifiedBy: "ci.pub",
    removed: false,
    problem: undefined,
  };
  const target = "-n addons addonmodule/cert-manager";
  const command = `kubectl annotate --overwrite ${target} addon-operator.io/approve=1.17.0@${digest}`;
  const update = {
    source: "platform",
    waitsFor: "approval",
    version: "1.17.0",
    digest,
    since: T0 - 7_200_000,
    until: undefined,
    message: `1.17.0 is no patch of 1.16.2: it waits for approval; to use it now: ${command}`,
  } as const;
  return [{ ...first, module: { ...first.module, origin }, update }, ...others];
}

/** So many modules, one in forty in issues. */
export function crowd(count: number): ModuleView[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `module-${String(index).padStart(4, "0")}`;
    const change: Partial<ModuleView> =
      index % 40 === 7
        ? {
            retry: {
              reason: "HookFailed",
              failures: 2,
              since: T0,
              message: `hook ready.sh of ${name} failed`,
            },
          }
        : { health: healthy((index % 7) + 1) };
    return displayed(
      name,
      {
        order: index,
        requires: index % 10 > 0 ? [`module-${String(index - (index % 10)).padStart(4, "0")}`] : [],
      },
      change,
    );
  });
}

const task = (module: string) => ({ kind: "run-module", module, cause: { kind: "section" } }) as const;
const waiting = { count: 1, failures: 0, message: undefined, nextAt: undefined, running: false };

const QUEUES: StateSnapshot["queues"] = [
  {
    name: "main",
    length: 3,
    tasks: [
      { ...waiting, task: task("kafka"), running: true },
      { ...waiting, task: task("grafana") },
      { ...waiting, task: task("external-dns") },
    ],
  },
  {
    name: "postgres",
    length: 1,
    tasks: [
      {
        ...waiting,
        task: task("postgres-operator"),
        failures: 4,
        message: `UPGRADE FAILED: cannot patch "postgresqls.acid.zalan.do", password=${SECRET}`,
        nextAt: T0 + 21_000,
      },
    ],
  },
  { name: "empty", length: 0, tasks: [] },
];

const DIFF = `# apps/v1 Deployment monitoring prometheus-operator: drifted
 spec:
   progressDeadlineSeconds: 600
-  replicas: 5
+  replicas: 2
   revisionHistoryLimit: 10
`;

const span = (
  spanId: string,
  about: { kind: Span["kind"]; name: string; from: number; to?: number; error?: string },
): Span => {
  const { kind, name, from, to, error } = about;
  const ids = { traceId: "t1", spanId, parentId: "r1", taskId: "r1" };
  const ended = { ...(to !== undefined && { endMs: T0 + to }), ...(error !== undefined && { error }) };
  return { ...ids, kind, name, attributes: {}, startMs: T0 + from, ...ended };
};

/** A run of postgres-operator that has failed in helm. */
const FAILED: RunView = {
  id: "r1",
  task: {
    ...span("r1", { kind: "task", name: "run-module postgres-operator", from: -95_000, to: -86_000 }),
    attributes: { module: "postgres-operator" },
    error: `UPGRADE FAILED: admission webhook denied the request, password=${SECRET}`,
  },
  from: { kind: "cause", name: "edit", startMs: T0 - 97_000 },
  isOver: true,
  dropped: 0,
  spans: [
    span("s1", { kind: "wait", name: "wait in queue", from: -95_000, to: -94_200 }),
    span("s2", { kind: "hook", name: "010-backup.sh beforeHelm", from: -94_200, to: -91_000 }),
    span("s3", { kind: "helm", name: "upgrade", from: -91_000, to: -86_400, error: "denied" }),
    span("s4", { kind: "status", name: "AddonModule postgres-operator", from: -86_300, to: -86_000 }),
  ],
  lines: [
    {
      n: 1,
      timeMs: T0 - 93_000,
      level: "info",
      message: "backup of 3 clusters",
      fields: { hook: "010-backup.sh" },
    },
    { n: 2, timeMs: T0 - 86_400, level: "error", message: `helm failed: password=${SECRET}`, fields: {} },
  ],
};

/** A run with its parts; times in seconds before now, 0 where it is under way. */
function ran(module: string, [queued, hook, helm, end]: readonly [number, number, number, number]): RunView {
  const id = `r-${module}-${queued}`;
  const times = (from: number, to: number) => ({ from: -1000 * from, ...(to > 0 && { to: -1000 * to }) });
  return {
    id,
    task: {
      ...span(id, { kind: "task", name: `run-module ${module}`, ...times(queued, end) }),
      attributes: { module },
    },
    from: { kind: "cause", name: "start", startMs: T0 - 1000 * queued },
    isOver: end > 0,
    dropped: 0,
    spans: [
      span(`${id}-1`, { kind: "wait", name: "wait in queue", ...times(queued, hook) }),
      span(`${id}-2`, { kind: "hook", name: "010-ready.sh beforeHelm", ...times(hook, helm) }),
      span(`${id}-3`, { kind: "helm", name: "helm upgrade", ...times(helm, end) }),
    ],
    lines: [],
  };
}

const RUNS: readonly RunView[] = [
  ran("cilium", [160, 159, 157, 150]),
  ran("cert-manager", [160, 150, 149, 141]),
  ran("ingress-nginx", [160, 141, 139, 127]),
  ran("prometheus", [160, 127, 124, 98]),
  FAILED,
  ran("cert-manager", [52, 51, 50, 46]),
  ran("kafka", [52, 46, 34, 0]),
];

/** What a page shows, as a test sets it. */
export interface PageLab {
  readonly clock: ManualClock;
  readonly page: Page;
  readonly url: string;
  readonly failures: unknown[];
  /** Shows other modules, or other queues. */
  show(modules: readonly ModuleView[], queues?: StateSnapshot["queues"]): void;
  /** Shows the same modules with a ConfigMap that has these problems. */
  showInvalid(problems: readonly Problem[]): void;
  /** Shows the same modules while the ConfigMap has the key `maintenance`. */
  showFrozen(): void;
  /** Shows the same modules while a converge is in progress. */
  showConverge(): void;
  /** How often the state was looked at. */
  checks(): number;
  close(): Promise<void>;
}

/** The page of these modules, over nothing. */
export function pageOf({
  modules = platform(),
  ...change
}: Partial<PageSources> & { readonly modules?: readonly ModuleView[] } = {}): Omit<
  PageLab,
  "url" | "failures" | "close"
> & { readonly snapshot: () => StateSnapshot } {
  const clock = new ManualClock(T0);
  const secrets = new KnownSecrets();
  secrets.register({ password: SECRET });
  let snapshot: StateSnapshot = { view: viewOf(modules), queues: QUEUES };
  let checks = 0;
  const page = new Page({
    clock,
    secrets,
    about: { version: "1.0.0", name: "addon-operator", namespace: "addons" },
    project() {
      checks += 1;
      return projectAll(snapshot);
    },
    statusValues: "redacted",
    originsOf: () => ORIGINS,
    runs: {
      getRun: (id) => RUNS.find((run) => run.id === id),
      listRuns: (requested) => ({
        cursor: 1,
        runs: RUNS.filter(({ task: { attributes } }) =>
          [undefined, attributes["module"]].includes(requested?.module),
        ),
      }),
    },
    diff: () => Promise.resolve(DIFF),
    ...change,
  });
  const showPart = <Part extends "config" | "converge">(
    part: Part,
    change: Partial<StateSnapshot["view"][Part]>,
  ): void => {
    const { view, queues } = snapshot;
    snapshot = { view: { ...view, [part]: { ...view[part], ...change } }, queues };
    page.notifyChange();
  };
  return {
    clock,
    page,
    snapshot: () => snapshot,
    show(shownModules, queues = snapshot.queues) {
      snapshot = { view: viewOf(shownModules), queues };
      page.notifyChange();
    },
    showInvalid: (problems) => showPart("config", { condition: "invalid", problems }),
    showFrozen: () => showPart("config", { isFrozen: true }),
    showConverge: () => showPart("converge", { phase: "modules" }),
    checks: () => checks,
  };
}

/** Serves the page of these modules on a port of loopback. */
export async function openPage(
  modules: readonly ModuleView[] = platform(),
  change: Partial<PageSources> = {},
): Promise<PageLab> {
  const failures: unknown[] = [];
  const made = pageOf({ modules, ...change });
  const server = await servePublic(
    { address: "127.0.0.1", port: 0 },
    {
      clock: made.clock,
      secrets: new KnownSecrets(),
      page: made.page,
      view: () => made.snapshot().view,
      queues: () => made.snapshot().queues,
      metrics: () => Promise.resolve(""),
      hookMetrics: () => Promise.resolve(""),
      onError: (error) => failures.push(error),
    },
  );
  return {
    ...made,
    failures,
    url: `http://127.0.0.1:${server.port}`,
    async close() {
      made.page.close();
      await server.close();
    },
  };
}

const ORIGINS = {
  "/replicas": "ConfigMap: key prometheus",
  "/retention": "module values.yaml: /modules/40-prometheus/values.yaml:3",
  "/resources/requests/cpu": "values schema default",
  "/resources/requests/memory": "module values.yaml: /modules/40-prometheus/values.yaml:6",
  "/ingress/enabled": "ConfigMap: key prometheus",
  "/ingress/host": "hook patch: 010-hosts.sh",
  "/remoteWrite/url": "modules/values.yaml: /modules/values.yaml:12",
  "/remoteWrite/password": "hook patch: 020-credentials.sh",
};
