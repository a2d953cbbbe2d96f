/** Module sources between a registry in memory, an API server with a network of moods, and a disk. */

import { lstatSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { join } from "node:path";

import { onTestFinished } from "vitest";

import { ApiError, WatchHub, type ApiRequest, type KubeClient } from "../../src/kube/index.ts";
import { Failures, silentLogger } from "../../src/base/index.ts";
import { Metrics } from "../../src/report/metrics/index.ts";
import type { JsonObject, Tree } from "../../src/base/model/index.ts";
import { ChartArchives, readTree, type RegistryModules } from "../../src/modules/index.ts";
import { State } from "../../src/engine/state/index.ts";
import { StatusMirror, type IModuleSource, type OperatorEvent } from "../../src/report/index.ts";
import { ModuleSources } from "../../src/sources/index.ts";
import { moduleDir, registryLab, tempDir, type Lab } from "./registry/artifact/lab.ts";
import { QUIET_MIRROR } from "../report/views.ts";
import { ManualClock } from "../support/clock.ts";
import type { Switches } from "../support/registry.ts";
import { RestlessApi } from "../support/restless-api.ts";
import { explain } from "../../src/report/index.ts";

const HOME = "/api/v1/namespaces/ops/configmaps";
export const KEYS = `${HOME}/addon-operator-keys`;
export const LOCK = `${HOME}/addon-operator-modules`;
export const SOURCES = "/apis/addon-operator.io/v1alpha1/namespaces/ops/modulesources";

type ModuleRequests = Record<
  string,
  { version?: string; tag?: string; digest?: string; order?: number; enabled?: boolean }
>;
type Update = NonNullable<NonNullable<IModuleSource["spec"]>["update"]>;

export interface SourcesLab {
  readonly lab: Lab;
  readonly clock: ManualClock;
  readonly api: RestlessApi;
  readonly dir: string;
  readonly events: OperatorEvent[];
  /** Lines of the log. */
  readonly warnings: string[];
  /** The series of the process that runs now. */
  metrics: Metrics;
  /** What the process that runs now has told the reader of directories. */
  registryModules: RegistryModules;
  /** Whether the CRD exists, and its uid. */
  crd: string | undefined;
  /** Refuses a request, if it returns something. */
  refuse: (request: ApiRequest) => Error | undefined;
  /** In how many steps time passes: fewer are faster. */
  rounds: number;
  /** Longest time of a request to a registry. */
  registryTimeoutMs: number | undefined;
  /** As `--sources-max`. */
  maxBytes: number;
  /** The process that starts next does not end its first converge by itself. */
  isConverging: boolean;
  /** The ConfigMap that is in force. */
  config: Record<string, string>;
  /** Directories of modules before the one of sources. */
  readonly modulesDirs: string[];
  /** Places whose charts the installer lets go without a signature. */
  unsignedCharts: string[];
  /** Names of modules with a release. */
  readonly releases: Set<string>;
  /** By module: the digest from which its installed revision was made. */
  readonly installed: Map<string, string>;
  /** Begins a process, as the leader; ends the one before. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** What the process that runs now knows. */
  state: State;
  /** Begins a follower with a disk of its own. */
  follow(): Promise<Follower>;
  source(modules: ModuleRequests, name?: string, update?: Update): void;
  /** Creates or changes a source of charts. */
  charts(spec: NonNullable<IModuleSource["spec"]>, name?: string): void;
  removeSource(name?: string): void;
  /** Passes time, until `done` or for a number of rounds. */
  pass(ms: number, done?: () => boolean): Promise<void>;
  status(name?: string): NonNullable<IModuleSource["status"]>;
  /** The lock's entry of a module. */
  locked(module: string): JsonObject | undefined;
  /** The version of the content that a module has. */
  content(module: string): string | undefined;
  readonly tree: () => Promise<Tree>;
  push(
    version: string,
    options?: { key?: Lab["key"]; files?: Record<string, string>; name?: string },
  ): Promise<string>;
}

/** Another process, which waits for the lease. */
interface Follower {
  content(module: string): string | undefined;
  /** Contents that are complete on its disk. */
  unpacked(): number;
  /** Takes over: stages what is on its disk. */
  takeOver(): Promise<void>;
}

/** While something is waited for, time passes in small steps, and each so many rounds in a usual one. */
const ROUNDS_OF_WAITING = 50;

/** Whether this process waits for an answer of the file system, which takes longer on a busy machine. */
const isDiskBusy = (): boolean => process.getActiveResourcesInfo().some((each) => each.startsWith("FSReq"));

/** A module of one chart, with a schema that asks for a number. */
export function filesOf(version: string): Record<string, string> {
  return {
    "Chart.yaml": `apiVersion: v2\nname: web\nversion: ${version}\n`,
    "templates/a.yaml": "",
  };
}

export async function sourcesLab(
  roll: () => number = () => 0.5,
  switches: Switches = {},
): Promise<SourcesLab> {
  const lab = await registryLab({ hasReferrers: true, ...switches });
  const clock = new ManualClock();
  const api = new RestlessApi(roll, clock);
  api.put(KEYS, { data: { "ci.pub": lab.key.publicPem } });
  const dir = tempDir();
  let end = (): void => {};
  onTestFinished(() => it.stop());
  const it: SourcesLab = {
    lab,
    clock,
    api,
    dir,
    events: [],
    warnings: [],
    metrics: new Metrics("test_"),
    registryModules: { dir: undefined, origins: new Map(), purgeBlockers: [] },
    crd: "crd-1",
    refuse: () => undefined,
    rounds: 200,
    registryTimeoutMs: undefined,
    maxBytes: 1_000_000,
    isConverging: false,
    config: {},
    modulesDirs: [],
    unsignedCharts: [],
    releases: new Set(),
    installed: new Map(),
    state: new State({ clock }),
    async start() {
      await it.stop();
      it.registryModules = { dir: undefined, origins: new Map(), purgeBlockers: [] };
      it.state = new State({ clock });
      if (!it.isConverging) it.state.record("bootPhaseReached", "running");
      it.metrics = new Metrics("test_");
      const { sources, close } = buildModuleSources(it);
      end = close;
      let isPrepared = false;
      const prepared = sources.prepare().finally(() => (isPrepared = true));
      prepared.catch(() => {});
      await it.pass(1000, () => isPrepared);
      await prepared;
      sources.startLeading();
    },
    async stop() {
      end();
      // A process that ends leaves nothing that still writes.
      await it.pass(100);
    },
    async follow() {
      const own = { dir: tempDir(), registryModules: noRegistryModules() };
      const { sources, close } = buildModuleSources({ ...it, ...own });
      onTestFinished(close);
      const prepare = async (): Promise<void> => {
        let isDone = false;
        const prepared = sources.prepare().finally(() => (isDone = true));
        await it.pass(1000, () => isDone);
        await prepared;
      };
      await prepare();
      sources.startStandby();
      return {
        content: (module) => contentIn(own.dir, module),
        unpacked: () => readdirSync(join(own.dir, "unpacked")).filter((name) => !name.startsWith(".")).length,
        takeOver: prepare,
      };
    },
    source(modules, name = "platform", update) {
      const registry = `oci://${lab.registry.host}/modules`;
      it.charts(
        { registry, plainHttp: true, modules, ...(update === undefined ? {} : { update: update as never }) },
        name,
      );
    },
    charts(spec, name = "platform") {
      const before = api.get(`${SOURCES}/${name}`);
      const metadata = before?.metadata ?? {
        creationTimestamp: new Date(clock.now()).toISOString(),
        uid: crypto.randomUUID(),
      };
      api.put(`${SOURCES}/${name}`, {
        metadata: { ...metadata, generation: Number(before?.metadata["generation"] ?? 0) + 1 },
        spec: spec as never,
      });
    },
    removeSource: (name = "platform") => api.remove(`${SOURCES}/${name}`),
    async pass(ms, done) {
      // Registry and disk answer in their own time: what is waited for has all the time of the test.
      const { rounds } = it;
      const most = done === undefined ? rounds : Infinity;
      for (let round = 0; round < most; round += 1) {
        if (done?.() === true) return;
        if (round >= rounds) await new Promise((resolve) => setTimeout(resolve, 1));
        for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve));
        while (isDiskBusy()) await new Promise((resolve) => setTimeout(resolve, 1));
        while (await api.step());
        // Timers without delay run later, too. A check that failed because the server was slow is made again at its next time.
        const isStep = round < rounds || round % ROUNDS_OF_WAITING === 0;
        await clock.advance(isStep ? ms / rounds : 1);
      }
    },
    status: (name = "platform") => (api.get(`${SOURCES}/${name}`)?.["status"] ?? {}) as never,
    locked(module) {
      const data = (api.get(LOCK)?.["data"] ?? {}) as Record<string, string>;
      return data[module] === undefined ? undefined : (JSON.parse(data[module]) as JsonObject);
    },
    content: (module) => contentIn(dir, module),
    tree: () => readAll(it, clock),
    push: (version, { key = lab.key, files = filesOf(version), name = "web" } = {}) =>
      lab.push(version, { dir: moduleDir(files), key, name, repository: name }),
  };
  return it;
}

const noRegistryModules = (): RegistryModules => ({ dir: undefined, origins: new Map(), purgeBlockers: [] });

function contentIn(dir: string, module: string): string | undefined {
  try {
    return versionIn(dir, module);
  } catch {
    // A link is being replaced.
    return undefined;
  }
}

/** The version of the content that the link of a module leads to. Throws while links are replaced. */
function versionIn(dir: string, module: string): string | undefined {
  const modules = join(dir, "modules");
  const entry = readdirSync(modules).find((name) => name.replace(/^\d+-/, "") === module);
  if (entry === undefined || !lstatSync(join(modules, entry)).isSymbolicLink()) return undefined;
  const real = realpathSync(join(modules, entry));
  const file = ["Chart.yaml", "addon.yaml"].find((name) => readdirSync(real).includes(name));
  return file && /^ *version: (.*)/m.exec(readFileSync(join(real, file), "utf8"))?.[1];
}

function readAll({ registryModules, modulesDirs }: SourcesLab, clock: ManualClock): Promise<Tree> {
  const archives = new ChartArchives(tempDir());
  return readTree({
    modulesDirs,
    globalHooksDir: undefined,
    unnumberedOrder: 1,
    strict: false,
    archives,
    registryModules,
    clock,
  });
}

function buildModuleSources(it: SourcesLab): { sources: ModuleSources; close: () => void } {
  const { clock, api, dir, registryModules, events, releases, installed } = it;
  const client = withCrd(api.client, it);
  const logger = {
    ...silentLogger,
    warn: (text: string, fields = {}) => void it.warnings.push(`${text} ${JSON.stringify(fields)}`),
  };
  const failures = new Failures(logger);
  const archives = new ChartArchives(tempDir());
  const files = { globalHooksDir: undefined, unnumberedOrder: 1, strict: false, archives, clock };
  const shared = { client, clock, logger, namespace: "ops" };
  const mirror = new StatusMirror({ ...shared, operatorName: "addon-operator", ...QUIET_MIRROR });
  const sources = new ModuleSources({
    ...shared,
    failures,
    hub: new WatchHub({ client, clock, logger }),
    state: it.state,
    explain: () => explain({ view: it.state.view, queues: [] }, clock.now()),
    metrics: it.metrics,
    report: { announce: (event) => void events.push(event) },
    statuses: mirror,
    env: {},
    registryModules,
    reader: { readModulesDir: (modulesDir) => readTree({ ...files, modulesDirs: [modulesDir] }) },
    loadHook: () => Promise.resolve({ hooks: [], warnings: [] }),
    serverVersion: () => Promise.resolve("v1.35.0"),
    releases: {
      renderManifests: () => Promise.resolve(""),
      observed: {
        ownership: (module) => (releases.has(module) ? "ours" : "none"),
        getArtifactDigest: (module) => installed.get(module),
      },
    },
    configMap: "addon-operator",
    dir,
    keysConfigMap: "addon-operator-keys",
    timeZone: "UTC",
    maxBytes: it.maxBytes,
    registryTimeoutMs: it.registryTimeoutMs,
    unsignedCharts: it.unsignedCharts,
  });
  const close = (): void => {
    sources.close();
    mirror.close();
  };
  return { sources, close };
}

/** The CRD is no object of the server: a test makes and deletes it. */
function withCrd(client: KubeClient, it: SourcesLab): KubeClient {
  const json = (request: ApiRequest): Promise<unknown> => {
    const refused = it.refuse(request);
    if (refused !== undefined) return Promise.reject(refused);
    if (!request.path.includes("customresourcedefinitions")) return client.json(request);
    if (it.crd !== undefined) return Promise.resolve({ metadata: { uid: it.crd } });
    return Promise.reject(new ApiError({ status: 404, reason: "NotFound", message: "no CRD" }));
  };
  const stream = (request: ApiRequest): Promise<unknown> => {
    const refused = it.refuse(request);
    return refused === undefined ? client.stream(request) : Promise.reject(refused);
  };
  return { json, stream } as unknown as KubeClient;
}
