import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Environment } from "../config.ts";
import type { Settings } from "../settings.ts";
import { FilterEngine } from "../filter/index.ts";
import type { RunSettings } from "../hooks/index.ts";
import { Discovery, WatchHub, connect } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import {
  Failures,
  KnownSecrets,
  createLogger,
  endingClock,
  guardedClock,
  systemClock,
} from "../lib/index.ts";
import type { Clock, LogSink, Logger, Scope } from "../lib/index.ts";
import { ProblemError } from "../model/index.ts";
import { placesOf } from "../modules/index.ts";
import type { Places } from "../modules/index.ts";
import { VERSION } from "../version.ts";
import { logSink } from "./log-sink.ts";

/** What everything else stands on: settings, log, clock, the way to the API server. */
export interface Base {
  readonly settings: Settings;
  readonly env: Readonly<Record<string, string>>;
  readonly places: Places;
  readonly clock: Clock;
  readonly sink: LogSink;
  /** Learned from values; taken out of everything that is shown. */
  readonly secrets: KnownSecrets;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly client: KubeClient;
  readonly patchClient: KubeClient;
  readonly discovery: Discovery;
  readonly hub: WatchHub;
  readonly filters: FilterEngine;
  readonly namespace: string;
  readonly runs: RunSettings;
}

/** Builds the base; everything acquired is released with `scope`. Throws ProblemError when it cannot be had. */
export function makeBase(settings: Settings, environment: Environment, scope: Scope): Base {
  const secrets = new KnownSecrets();
  const sink = logSink(settings, secrets);
  const logger = createLogger(sink);
  const failures = new Failures(logger);
  const ending = endingClock(systemClock);
  scope.add(() => ending.close());
  const clock = guardedClock(ending, failures);
  const env = hookEnvironment(environment);
  const client = connect({
    kubeConfig: settings.kubeConfig,
    context: settings.kubeContext,
    qps: settings.kubeClientQps,
    burst: settings.kubeClientBurst,
    userAgent: `addon-operator/${VERSION}`,
    debug: settings.debugKubernetesApi,
    logger,
    clock,
  });
  scope.add(() => client.close());
  const hub = new WatchHub({ client, clock, logger, failures });
  scope.add(() => hub.close());
  const filters = new FilterEngine({ jqBin: settings.jqBin, env: environment, clock, logger });
  scope.add(() => filters.close());
  const { patcherQps: qps, patcherBurst: burst, patcherTimeoutMs: timeoutMs } = settings;
  return {
    settings,
    env,
    places: placesOf(settings),
    clock,
    sink,
    secrets,
    logger,
    failures,
    client,
    patchClient: client.limited({ qps, burst, timeoutMs }),
    discovery: new Discovery(client, clock),
    hub,
    filters,
    namespace: namespaceOf(settings, client),
    runs: {
      env,
      workingDir: settings.workingDir,
      tmpDir: settings.tmpDir,
      timeoutMs: settings.hookTimeoutMs,
      keepFiles: settings.debugKeepTmpFiles,
      proxyJson: settings.logProxyHookJson,
    },
  };
}

function namespaceOf(settings: Settings, client: KubeClient): string {
  const namespace = settings.namespace ?? client.namespaceFromContext;
  if (namespace !== undefined) return namespace;
  const remedy = "set --namespace or ADDON_OPERATOR_NAMESPACE";
  throw new ProblemError([{ file: client.origin.file, message: "the context names no namespace", remedy }]);
}

/** The environment of children; hooks find the shell library in SHELL_LIB_PATH unless somebody set it. */
export function hookEnvironment(environment: Environment): Record<string, string> {
  const defined = definedOf(environment);
  const library = shellLibrary();
  return library === undefined ? defined : { SHELL_LIB_PATH: library, ...defined };
}

/** Beside the bundle, or in the source tree. */
function shellLibrary(): string | undefined {
  return ["./shell/shell_lib.sh", "../../shell/shell_lib.sh"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

function definedOf(environment: Environment): Record<string, string> {
  return Object.fromEntries(
    Object.entries(environment).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
