/**
 * Builds the objects that all packages share: settings, log, clock, API client, releases. The scope closes what is built when the operator or
 * the command ends.
 */

import { buildChildEnvironment, collectOwnSecrets, parseConfigOverlay } from "../../config/settings/index.ts";
import type { Environment, Settings } from "../../config/settings/index.ts";
import { Releases, managedByDigest, locationsSecretName, type ReleasesOptions } from "../../helm/index.ts";
import { FilterEngine } from "../../hooks/filter/index.ts";
import { Actors, buildHookEnvironment } from "../../hooks/index.ts";
import {
  Accounts,
  Discovery,
  KindFinder,
  PrivateKubeconfig,
  WatchHub,
  connect,
  readOwnIdentity,
  requestOwnUserName,
  requestServerVersion,
} from "../../kube/index.ts";
import type { KubeClient } from "../../kube/index.ts";
import {
  Failures,
  KnownSecrets,
  OVERFULL_WARNING,
  createLogger,
  endingClock,
  reportTimerErrors,
  createStdoutSink,
  systemClock,
} from "../../base/index.ts";
import { splitList, type Clock, type Logger, type Scope } from "../../base/index.ts";
import { ModuleQueues, ProblemError } from "../../base/model/index.ts";
import {
  RunRing,
  Tracer,
  makeOtlpExport,
  recordFinishedSpan,
  type SpanExport,
} from "../../base/trace/index.ts";
import { Children, StableTempDir } from "../../base/process/index.ts";
import { ChartArchives, resolveDirectories, TreeReader, type RegistryModules } from "../../modules/index.ts";
import { VERSION } from "../../config/settings/index.ts";

/** Shared objects of an operator. */
export type Base = ReturnType<typeof makeBase>;

/** Builds the API client for the object patches of hooks. It has its own rate limits, so that hooks cannot slow down the operator. */
function makePatchClient(settings: Settings, client: KubeClient): KubeClient {
  const { patcherQps: qps, patcherBurst: burst, patcherTimeoutMs: timeoutMs } = settings;
  return traceRequests(client.withLimits({ qps, burst, timeoutMs }));
}

/** Builds the shared objects; `scope` releases them. Throws ProblemError if a setting is missing. */
export function makeBase(settings: Settings, environment: Environment, scope: Scope) {
  const secrets = collectKnownSecrets(settings, environment);
  const runRing = new RunRing(systemClock);
  const sink = createStdoutSink(settings, secrets, runRing);
  const logger = createLogger(sink);
  secrets.onOverfull = () => logger.warn(OVERFULL_WARNING);
  const failures = new Failures(logger);
  const clock = reportTimerErrors(scope.closeAtEnd(endingClock(systemClock)), failures);
  const client = scope.closeAtEnd(connectClient(settings, { logger, clock }));
  const children = new Children(failures);
  const namespace = readNamespace(settings, client);
  const access = makeChildAccess(client, scope, { settings, environment, namespace });
  const spanExport = makeSpanExport(settings, namespace, { secrets, clock, logger });
  if (spanExport !== undefined) scope.closeAtEnd(spanExport);
  const tracer = new Tracer({ clock, spanExport });
  tracer.addListener(runRing);
  const { watchCheckMs: compareMs } = settings;
  const hub = scope.closeAtEnd(new WatchHub({ client, clock, logger, failures, compareMs }));
  const discovery = new Discovery(client, clock);
  const filters = scope.closeAtEnd(
    new FilterEngine({ children, jqBin: settings.jqBin, env: environment, clock, logger }),
  );
  const archives = scope.closeAtEnd(new ChartArchives(settings.tmpDir));
  const accounts = makeAccounts(settings, client, namespace);
  const actors = new Actors({ ...access, children, client, clock, logger, accounts, settings, namespace });
  return {
    settings,
    env: access.env,
    /** The kubeconfig of helm; hooks have another one. */
    kubeconfig: access.kubeconfig,
    clock,
    sink,
    tracer,
    spanExport,
    /** The last runs of tasks, with their spans and log lines. */
    runRing,
    /** Learned from values; removed from everything that is displayed. */
    secrets,
    logger,
    failures,
    children,
    client,
    patchClient: makePatchClient(settings, client),
    accounts,
    actors,
    actorOf: actors.actorOf,
    accountLimitsOf: actors.accountLimitsOf,
    createListCheck: actors.createListCheck,
    discovery,
    kinds: new KindFinder({ hub, discovery, clock }),
    hub,
    filters,
    moduleQueues: new ModuleQueues(settings.moduleQueues, settings.parallelModules),
    namespace,
    readOwnUser: makeOwnUserReader(client),
    serverVersion: (signal?: AbortSignal): Promise<string> => requestServerVersion(client, signal),
    /** Of schedules and update windows; undefined = that of the system. */
    timeZone: access.env["TZ"],
    /** Where hooks write to; undefined = into the ConfigMap itself. */
    overlay: parseConfigOverlay(settings),
    runs: { ...settings, children, env: access.env, prepare: access.prepare },
    ...makeReader(settings, { accounts, archives, clock }),
  };
}

/**
 * Builds the registry of the ServiceAccounts that modules may name. They are in the namespace that the operator's configuration gives the module (not
 * its `addon.yaml`), or in those of `--service-account-namespaces`, a list with commas.
 */
function makeAccounts(settings: Settings, client: KubeClient, namespace: string): Accounts {
  const { moduleNamespaceTemplate: template } = settings;
  return new Accounts({
    client,
    operatorNamespace: namespace,
    allowed: splitList(settings.serviceAccountNamespaces),
    namespaceOf: (module) => module.namespace ?? namespace,
    configuredNamespaceOf: (module) => template?.replaceAll("{name}", module) ?? namespace,
  });
}

/**
 * Collects the operator's own secrets for redaction, such as tokens in its environment. `registerAgain` is called when there are
 * too many secrets to know: only those in force are kept. `Components` adds the secrets of values to it. The set names the JSON pointers of secrets.
 */
function collectKnownSecrets(settings: Settings, environment: Environment): KnownSecrets {
  const secrets = new KnownSecrets();
  secrets.registerAgain = () =>
    secrets.register({ own: collectOwnSecrets(settings, environment) }, new Set(["/own"]));
  secrets.registerAgain();
  return secrets;
}

interface ChildAccessOptions {
  readonly settings: Settings;
  readonly environment: Environment;
  /** The operator's namespace: hooks use it in requests that name none. */
  readonly namespace: string;
}

/** Builds what child processes need: their environment, and separate kubeconfigs for hooks and helm. */
function makeChildAccess(
  client: KubeClient,
  scope: Scope,
  { settings, environment, namespace }: ChildAccessOptions,
) {
  const files = scope.closeAtEnd(new StableTempDir(settings.tmpDir, "kube"));
  // Helm must not read the file of the hooks: hooks may change it.
  const forHooks = new PrivateKubeconfig(client, files, "hooks", namespace);
  const kubeconfig = new PrivateKubeconfig(client, files, "helm");
  return {
    env: buildHookEnvironment(buildChildEnvironment(environment, settings, forHooks.path)),
    kubeconfig,
    hooksKubeconfig: forHooks.path,
    prepare: (): Promise<void> => forHooks.refresh(),
  };
}

/** Returns a function that reads the operator's user name at the API server, until it is known; undefined if the request fails. */
function makeOwnUserReader(client: KubeClient): (signal?: AbortSignal) => Promise<string | undefined> {
  let userName: string | undefined;
  return async (signal) => (userName ??= await requestOwnUserName(client, signal).catch(() => undefined));
}

/** Builds the client of the API server, whose requests appear in traces. */
function connectClient(
  settings: Settings,
  tools: { readonly logger: Logger; readonly clock: Clock },
): KubeClient {
  const client = connect({
    kubeConfig: settings.kubeConfig,
    context: settings.kubeContext,
    qps: settings.kubeClientQps,
    burst: settings.kubeClientBurst,
    userAgent: `addon-operator/${VERSION}`,
    debug: settings.debugKubernetesApi,
    ...tools,
  });
  return traceRequests(client);
}

/** The operator's namespace: from the settings, else from the kubeconfig's context. Throws ProblemError if neither names one. */
function readNamespace(settings: Settings, client: KubeClient): string {
  const namespace = settings.namespace ?? client.namespaceFromContext;
  if (namespace !== undefined) return namespace;
  const { file } = client.credentialsInfo;
  const remedy = "set --namespace or ADDON_OPERATOR_NAMESPACE";
  throw new ProblemError({ file, message: "the context names no namespace", remedy });
}

/** Builds the access to the operator's releases; reads nothing yet. `others` are what a running operator knows and reports; commands have none. */
export function makeReleases(
  base: Base,
  others: Pick<
    ReleasesOptions,
    "report" | "ownRelease" | "hasModule" | "keepsObjects" | "mayMove" | "hideOf"
  > = {},
): Releases {
  const { settings, namespace, env } = base;
  // Releases that the operator must never change: those that the user names, and its own.
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  const reserved = [...ignored, env["ADDON_OPERATOR_RELEASE_NAME"] ?? ""].filter((name) => name !== "");
  return new Releases({
    ...base,
    ...settings,
    ...others,
    namespace,
    bin: settings.helmBin,
    managedBy: managedByDigest(namespace, settings.configMap),
    timeoutMs: settings.helmTimeoutMs,
    historyMax: settings.helmHistoryMax,
    validate: settings.helmValidate,
    reserved,
    locationsSecret: locationsSecretName(settings.configMap),
  });
}

/** Builds the export of spans to an OpenTelemetry collector; undefined if the settings name none. */
function makeSpanExport(
  settings: Settings,
  namespace: string,
  tools: { readonly secrets: KnownSecrets; readonly clock: Clock; readonly logger: Logger },
): SpanExport | undefined {
  const { otlpEndpoint: endpoint, otlpHeaders: headers, otlpSamplingRatio: ratio, pod } = settings;
  if (endpoint === undefined) return undefined;
  const instance = readOwnIdentity(pod).name;
  const target = { endpoint, headers, version: VERSION, namespace, instance };
  return makeOtlpExport(target, { ...tools, ratio, redactDeep: (value) => tools.secrets.redactDeep(value) });
}

/** Adds each API request to the span of the work that sends it. */
function traceRequests(client: KubeClient): KubeClient {
  client.onRequest(({ verb, resourcePathTemplate, code, seconds }) => {
    const error = code.startsWith("2") ? undefined : code;
    const spanStart = { kind: "api", name: `${verb} ${resourcePathTemplate}`, attributes: { code } } as const;
    recordFinishedSpan(spanStart, { ms: seconds * 1000, error });
  });
  return client;
}

/** Why no release is purged before the modules of registries are verified and unpacked: until then, they seem to be missing. */
const REGISTRY_MODULES_UNKNOWN = "the modules of registries are known to the running operator alone";

/** Builds the reader of modules, global hooks and charts in the directories that the settings name. Modules of registries (`--sources`) are not known yet. */
function makeReader(
  settings: Settings,
  { accounts, archives, clock }: { accounts: Accounts; archives: ChartArchives; clock: Clock },
) {
  const { unnumberedOrder, strictValues: strict, crdFilters, moduleNamespaceTemplate } = settings;
  const registryModules: RegistryModules | undefined = settings.sources
    ? { dir: undefined, origins: new Map(), purgeBlockers: [REGISTRY_MODULES_UNKNOWN] }
    : undefined;
  const reader = new TreeReader({
    ...resolveDirectories(settings),
    unnumberedOrder,
    strict,
    crdFilters,
    schemaDirs: settings.schemaDirs?.split(":") ?? [],
    findRefusal: (module, file) => accounts.findProblem(module, file),
    namespaceTemplate: moduleNamespaceTemplate,
    isScriptApplied: settings.appliedExtenders.isScriptApplied,
    archives,
    clock,
    registryModules,
  });
  const restoreChart = (chartDir: string): Promise<void> => archives.restore(chartDir);
  return { reader, registryModules, restoreChart };
}
