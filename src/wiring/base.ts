/** What all parts of the operator share: settings, log, clock, connection. */

import { overlayOf } from "../config.ts";
import type { Environment } from "../config.ts";
import type { Settings } from "../settings.ts";
import { Releases, managedByDigest } from "../helm/index.ts";
import type { ReleasesOptions } from "../helm/index.ts";
import { FilterEngine } from "../filter/index.ts";
import { hookEnvironment } from "../hooks/index.ts";
import { Discovery, WatchHub, connect } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import {
  Failures,
  KnownSecrets,
  createLogger,
  endingClock,
  guardedClock,
  logSink,
  systemClock,
} from "../lib/index.ts";
import type { Clock, Logger, Scope } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import type { Tree } from "../model/index.ts";
import { RunRing, Tracer } from "../trace/index.ts";
import { ChartArchives, placesOf, readTree } from "../modules/index.ts";
import { exportOf } from "./traces.ts";
import { VERSION } from "../version.ts";

/** What everything else needs: settings, log, clock, the client of the API server. */
export type Base = ReturnType<typeof makeBase>;

/** Builds the base; everything acquired is released with `scope`. Throws ProblemError when something is missing. */
export function makeBase(settings: Settings, environment: Environment, scope: Scope) {
  const secrets = new KnownSecrets();
  const runRing = new RunRing(systemClock);
  const sink = logSink(settings, secrets, runRing);
  const logger = createLogger(sink);
  const failures = new Failures(logger);
  const ending = scope.own(endingClock(systemClock));
  const clock = guardedClock(ending, failures);
  const env = hookEnvironment(environment);
  const client = scope.own(clientOf({ settings, logger, clock }));
  const namespace = namespaceOf(settings, client);
  const spanExport = exportOf({ settings, namespace, secrets, clock, logger });
  if (spanExport !== undefined) scope.own(spanExport);
  const tracer = new Tracer({ clock, spanExport });
  tracer.listen(runRing);
  const hub = scope.own(new WatchHub({ client, clock, logger, failures }));
  const filters = scope.own(new FilterEngine({ jqBin: settings.jqBin, env: environment, clock, logger }));
  const archives = scope.own(new ChartArchives(settings.tmpDir));
  const { unnumberedOrder, strictValues: strict } = settings;
  const { patcherQps: qps, patcherBurst: burst, patcherTimeoutMs: timeoutMs } = settings;
  return {
    settings,
    env,
    clock,
    sink,
    tracer,
    spanExport,
    /** The last runs of tasks: what they were made of, and what they logged. */
    runRing,
    /** Learned from values; removed from everything that is shown. */
    secrets,
    logger,
    failures,
    client,
    patchClient: client.limited({ qps, burst, timeoutMs }),
    discovery: new Discovery(client, clock),
    hub,
    filters,
    namespace,
    /** Where hooks write to; undefined = into the ConfigMap itself. */
    overlay: overlayOf(settings),
    runs: { ...settings, env },
    /** Reads modules and global hooks; at a start without a previous tree. */
    readTree: (previous?: Tree, names?: ReadonlySet<string>): Promise<Tree> =>
      readTree({ ...placesOf(settings), unnumberedOrder, strict, previous, names, archives, clock }),
  };
}

function clientOf({ settings, ...around }: { settings: Settings; logger: Logger; clock: Clock }): KubeClient {
  return connect({
    kubeConfig: settings.kubeConfig,
    context: settings.kubeContext,
    qps: settings.kubeClientQps,
    burst: settings.kubeClientBurst,
    userAgent: `addon-operator/${VERSION}`,
    debug: settings.debugKubernetesApi,
    ...around,
  });
}

function namespaceOf(settings: Settings, client: KubeClient): string {
  const namespace = settings.namespace ?? client.namespaceFromContext;
  if (namespace !== undefined) return namespace;
  const remedy = "set --namespace or ADDON_OPERATOR_NAMESPACE";
  throw new ProblemError([{ file: client.origin.file, message: "the context names no namespace", remedy }]);
}

/** The releases of this operator; reads nothing yet. */
export function makeReleases(
  base: Base,
  around: Pick<ReleasesOptions, "recorder" | "ownRelease" | "onCrds"> = {},
): Releases {
  const { settings, namespace, env } = base;
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  const reserved = [...ignored, env["ADDON_OPERATOR_RELEASE_NAME"] ?? ""].filter((name) => name !== "");
  return new Releases({
    ...base,
    ...settings,
    ...around,
    namespace,
    bin: settings.helmBin,
    managedBy: managedByDigest(namespace, settings.configMap),
    timeoutMs: settings.helmTimeoutMs,
    historyMax: settings.helmHistoryMax,
    validate: settings.helmValidate,
    reserved,
  });
}
