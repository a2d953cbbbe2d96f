/** What all parts of the operator share: settings, log, clock, connection, releases; and a plan made of that alone. */

import { childEnvironment, overlayOf, ownSecrets, type Environment, type Settings } from "../config.ts";
import { Releases, managedByDigest, type ReleasesOptions } from "../helm/index.ts";
import { FilterEngine } from "../filter/index.ts";
import { hookEnvironment } from "../hooks/index.ts";
import { Discovery, PrivateKubeconfig, WatchHub, connect, firstContact, ownIdentity } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import {
  Failures,
  KnownSecrets,
  createLogger,
  endingClock,
  guardedClock,
  logSink,
  systemClock,
  toYaml,
} from "../lib/index.ts";
import type { Clock, Logger, Scope } from "../lib/index.ts";
import { ProblemError, type Tree } from "../model/index.ts";
import { DROP_REASONS, RunRing, Tracer, exportTo, note, type SpanExport } from "../trace/index.ts";
import { LastingDir } from "../process/index.ts";
import { ChartArchives, placesOf, readTree, rereadModule } from "../modules/index.ts";
import { VERSION } from "../version.ts";
import { scoped } from "../offline/index.ts";
import { previewStart } from "../preview/index.ts";
import type { Metrics } from "../metrics/index.ts";

/** What everything else needs: settings, log, clock, the client of the API server. */
export type Base = ReturnType<typeof makeBase>;

/** The client that applies what hooks patch, with limits of its own. */
function patchClientOf(settings: Settings, client: KubeClient): KubeClient {
  const { patcherQps: qps, patcherBurst: burst, patcherTimeoutMs: timeoutMs } = settings;
  return client.limited({ qps, burst, timeoutMs });
}

/** Builds the base; everything acquired is released with `scope`. Throws ProblemError when something is missing. */
export function makeBase(settings: Settings, environment: Environment, scope: Scope) {
  const secrets = new KnownSecrets();
  secrets.learn({ own: ownSecrets(settings, environment) }, new Set(["/own"]));
  const runRing = new RunRing(systemClock);
  const sink = logSink(settings, secrets, runRing);
  const logger = createLogger(sink);
  const failures = new Failures(logger);
  const ending = scope.own(endingClock(systemClock));
  const clock = guardedClock(ending, failures);
  const client = scope.own(clientOf({ settings, logger, clock }));
  const { env, kubeconfig, prepare } = forChildren(client, { settings, environment, scope });
  const namespace = namespaceOf(settings, client);
  const spanExport = exportOf({ settings, namespace, secrets, clock, logger });
  if (spanExport !== undefined) scope.own(spanExport);
  const tracer = new Tracer({ clock, spanExport });
  tracer.listen(runRing);
  const hub = scope.own(new WatchHub({ client, clock, logger, failures }));
  const filters = scope.own(new FilterEngine({ jqBin: settings.jqBin, env: environment, clock, logger }));
  const archives = scope.own(new ChartArchives(settings.tmpDir));
  const { unnumberedOrder, strictValues: strict, crdFilters } = settings;
  const schemaDirs = settings.schemaDirs?.split(":") ?? [];
  const reads = { ...placesOf(settings), unnumberedOrder, strict, crdFilters, schemaDirs, archives, clock };
  const patchClient = patchClientOf(settings, client);
  for (const each of [client, patchClient]) traceRequests(each);
  return {
    settings,
    env,
    /** That of helm; hooks have another one. */
    kubeconfig,
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
    patchClient,
    discovery: new Discovery(client, clock),
    hub,
    filters,
    namespace,
    restoreChart: (chartDir: string): Promise<void> => archives.restore(chartDir),
    /** Where hooks write to; undefined = into the ConfigMap itself. */
    overlay: overlayOf(settings),
    runs: { ...settings, env, prepare },
    /** Reads modules and global hooks; at a start without a previous tree. */
    readTree: (previous?: Tree, names?: ReadonlySet<string>): Promise<Tree> =>
      readTree({ ...reads, previous, names }),
    rereadModule: (previous: Tree, name: string): Promise<Tree> => rereadModule(reads, previous, name),
  };
}

/** The environment of children, and their ways to the API server. */
function forChildren(
  client: KubeClient,
  from: { readonly settings: Settings; readonly environment: Environment; readonly scope: Scope },
) {
  const files = from.scope.own(new LastingDir(from.settings.tmpDir, "kube"));
  // What hooks write into theirs does not reach helm.
  const [forHooks, kubeconfig] = [
    new PrivateKubeconfig(client, files, "hooks"),
    new PrivateKubeconfig(client, files, "helm"),
  ];
  return {
    env: hookEnvironment(childEnvironment(from.environment, from.settings, forHooks.path)),
    kubeconfig,
    prepare: (): Promise<void> => forHooks.refresh(),
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

/** Hands spans on, where the settings name a collector. */
function exportOf({
  settings,
  namespace,
  secrets,
  ...around
}: {
  readonly settings: Settings;
  readonly namespace: string;
  readonly secrets: KnownSecrets;
  readonly clock: Clock;
  readonly logger: Logger;
}): SpanExport | undefined {
  const { otlpEndpoint: endpoint, otlpHeaders: headers, otlpSamplingRatio: ratio, pod } = settings;
  if (endpoint === undefined) return undefined;
  const instance = ownIdentity(pod).name;
  const target = { endpoint, headers, version: VERSION, namespace, instance };
  return exportTo(target, { ...around, ratio, redactDeep: (value) => secrets.redactDeep(value) });
}

/** Notes each request within the work that it is sent for. */
function traceRequests(client: KubeClient): void {
  client.onRequest(({ verb, resourcePathTemplate, code, seconds }) => {
    const error = code.startsWith("2") ? undefined : code;
    note(
      { kind: "api", name: `${verb} ${resourcePathTemplate}`, attributes: { code } },
      { ms: seconds * 1000, error },
    );
  });
}

/** Counts the spans that a collector does not get. */
export function countDrops(spanExport: SpanExport | undefined, metrics: Metrics): void {
  if (spanExport === undefined) return;
  for (const reason of DROP_REASONS) metrics.touch("spansDropped", { reason });
  spanExport.onDropped = (reason, count) => metrics.add("spansDropped", { reason }, count);
}

/**
 * `addon-operator plan` where no operator runs: connects, reads, and returns the plan as YAML or JSON. Throws
 * ProblemError when it cannot connect.
 */
export function planAlone(settings: Settings, env: Environment, format: string): Promise<string> {
  return scoped(async (scope) => {
    // Log lines would be mixed with the plan.
    const base = makeBase({ ...settings, logLevel: "error" }, env, scope);
    await firstContact(base.client, new AbortController().signal);
    const releases = makeReleases(base);
    scope.add(() => releases.close());
    await releases.ready();
    const plan = await previewStart(base, releases);
    return format === "json" ? `${JSON.stringify(plan)}\n` : toYaml(plan);
  });
}
