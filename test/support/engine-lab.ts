import { Engine, mayMoveNow } from "../../src/engine/plan/index.ts";
import { parseLimit, sleep } from "../../src/base/index.ts";
import { Metrics, Report } from "../../src/report/metrics/index.ts";
import type { OperatorEvent } from "../../src/report/index.ts";
import type { Limit } from "../../src/base/index.ts";
import type {
  Hook,
  HookConfig,
  HookTrigger,
  JsonObject,
  KubernetesBinding,
  LifecycleName,
  Module,
  QueueMode,
  ScheduleBinding,
  Task,
  Tree,
} from "../../src/base/model/index.ts";
import { describeTask, LIFECYCLE, ModuleQueues, ProblemError } from "../../src/base/model/index.ts";
import { Queues } from "../../src/engine/queue/index.ts";
import { State } from "../../src/engine/state/index.ts";
import type { Release, ReleaseMove } from "../../src/helm/index.ts";
import { ForeignReleaseError, UndecidedMoveError, UnusableChartError } from "../../src/helm/index.ts";
import type { HelmHook } from "../../src/helm/index.ts";
import { buildHookTask, createLifecycleBinding } from "../../src/hooks/bindings/index.ts";
import type { HookRunInput, HookRunResult } from "../../src/hooks/index.ts";
import { loadHooks, runTask } from "../../src/engine/tasks/index.ts";
import type { Ports } from "../../src/engine/tasks/index.ts";
import { Tracer } from "../../src/base/trace/index.ts";
import { applyJsonPatch, parseConfigMap, withSection } from "../../src/values/index.ts";
import { Children } from "../../src/base/process/index.ts";
import { ManualClock, settle } from "./clock.ts";
import { keepLog } from "./logged.ts";
import type { LoggedLine } from "./logged.ts";
import { binding, bindingsWith } from "../hooks/build.ts";

/** Thrown by an `enabled` script that does not answer within its time limit. */
export class ScriptHangs extends Error {}
export const SCRIPT_TIMEOUT_MS = 120_000;

/** What a scripted hook does at a run: leave patches, or fail. */
export interface HookAct {
  readonly fail?: string;
  readonly values?: unknown;
  readonly config?: unknown;
  /** Applies the object patches, and the metrics; may throw. */
  readonly objects?: () => void;
  readonly metrics?: () => void;
  /** Milliseconds of virtual time the run takes. */
  readonly takes?: number;
}

export interface HookSpec {
  readonly name: string;
  readonly module?: string;
  readonly lifecycle?: Partial<Record<LifecycleName, number>>;
  readonly kubernetes?: readonly Partial<KubernetesBinding>[];
  readonly schedules?: readonly Partial<ScheduleBinding>[];
  readonly act?: (triggers: readonly HookTrigger[], run: number) => HookAct;
  /** Another one means that the file was changed. */
  readonly signature?: string;
  readonly version?: HookConfig["version"];
  /** It is one of a batch file. */
  readonly item?: Hook["item"];
  /** Its configuration is refused with this message. */
  readonly refused?: string;
}

/** What a hook was given at a run. */
export interface HookInput {
  readonly hook: string;
  readonly binding: string;
  readonly values: JsonObject;
  readonly config: JsonObject;
}

export interface ModuleSpec {
  readonly name: string;
  readonly order?: number;
  readonly enabled?: boolean;
  readonly section?: JsonObject;
  readonly chart?: Module["chart"];
  /** Answer of the `enabled` script, a text is why it is off; throws = the script fails, or takes too long (`ScriptHangs`). */
  readonly script?: (enabledModules: readonly string[]) => boolean | string;
  readonly hooks?: readonly HookSpec[];
  /** Files below `crds/`; one whose name begins with `broken` is refused; `refused.yaml` is, for now. */
  readonly crds?: readonly string[];
  /** Text of its `config-values.yaml`. */
  readonly schema?: string;
  /** Text of its `values.yaml` schema. */
  readonly valuesSchema?: string;
  /** Its ModuleSource does not name it any more. */
  readonly removedFromSource?: boolean;
  /** Its files cannot be read. */
  readonly problem?: string;
  /** What its `addon.yaml` says. */
  readonly requires?: Module["requires"];
  readonly valuesFrom?: Module["valuesFrom"];
  readonly health?: Module["health"];
  readonly after?: readonly string[];
  readonly onFailure?: Module["onFailure"];
  /** Of its chart. */
  readonly version?: string;
  /** The namespace of its release. */
  readonly namespace?: string;
  /** Objects of its chart whose data a move deletes. */
  readonly data?: readonly string[];
  /** Files of it that are missing for the first time. */
  readonly missing?: readonly string[];
}

/** More lines of log than this at one moment of virtual time mean that the engine spins. */
const SPIN = 2000;

/** When the directories are read once more after something was missed in them. */
const SECOND_CHECK_MS = 4000;

/** Nothing is started with them. */
const RUNS = {
  env: {},
  children: new Children(),
  workingDir: undefined,
  tmpDir: "/",
  debugKeepTmpFiles: false,
  logProxyHookJson: false,
};

/** The input of a run as tasks give it. */
type Given = HookRunInput & { values: Pieces; configValues: Pieces; signal: AbortSignal };
type Pieces = readonly Uint8Array[];

/** The engine with all its tasks over scripted hooks and a made-up helm, in virtual time. */
export class EngineLab {
  readonly clock = new ManualClock();
  readonly moduleQueues: ModuleQueues;
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly engine: Engine;
  /** What ran, in order: `hook a: beforeHelm`, `helm m {values}`, `uninstall m` … */
  readonly log: string[] = [];
  readonly releases = new Map<string, Release & { readonly values: string }>();
  /** What a person finds in the log. */
  readonly logged: LoggedLine[] = [];
  /** Modules that are announced to helm, reload by reload; with "?" those whose hooks may still change values. */
  readonly announced: string[][] = [];
  /** What was reported, in words. */
  readonly reported: string[] = [];
  /** Names of releases that are somebody else's. */
  readonly foreign = new Set<string>();
  /** Names of releases that are never touched. */
  readonly reserved = new Set<string>();
  readonly unlocked: string[] = [];
  /** Hooks that were asked for their configuration, in order. */
  readonly requested: string[] = [];
  /** Ids of bindings whose objects cannot be listed yet. */
  readonly unlisted = new Set<string>();
  readonly #inputs: { hook: string; binding: string; values: string; config: string }[] = [];
  readonly #globalValues: JsonObject | undefined;
  readonly #brake: string;
  /** Version of the ConfigMap. */
  version = 0;
  readonly schedules = new Set<string>();
  readonly failures: string[] = [];
  /** What the operator's own report announces of failures and releases. */
  readonly events: OperatorEvent[] = [];
  data: Record<string, string> = {};
  /** Set to make helm fail with this message. */
  helmFails: ((module: string) => string | undefined) | undefined;
  /** What helm was reported beside the values, run by run. */
  readonly askedOfHelm: string[] = [];
  /** Set to have what a module is made from rejected, for this reason. */
  refuses: ((module: string) => string | undefined) | undefined;
  /** No release is good. */
  noWayBack = false;
  /** What the next rollbacks by hand throw, before the release records them. */
  readonly rollbackFailures: Error[] = [];
  helmTakes = 0;
  /** How long an uninstall takes; it is over at once when it is interrupted, and has failed then. */
  uninstallTakes = 0;
  /** What the API server says of its version; it does not answer while this is undefined. */
  serverVersion: string | undefined = "v1.31.2";
  /** The hook of its chart that helm reports to wait for, in each run. */
  helmWaits: HelmHook | undefined;
  /** How long putting back objects takes, where that is not part of a run. */
  restoreTakes = 0;
  /** Called with what is to be put back; may throw. */
  restores: ((absent: readonly string[]) => void) | undefined;
  /** Called whenever any task ends, with what it was. */
  onEnd: ((tasks: readonly Task[]) => void) | undefined;
  uninstallFails: ((name: string) => boolean) | undefined;
  /** Set to make the watches of hooks fail with this message. */
  watchFails: string | undefined;
  /** Text of the schema of global values. */
  globalSchema: string | undefined;
  /** Called when the directories are read. */
  onRead: (() => void) | undefined;
  readonly #identities = new WeakMap<object, string>();
  #nextIdentity = 1;
  /** Called when the ConfigMap is read, as before each removal; may edit it. */
  onRefresh: (() => void) | undefined;
  /** Set to make a write to the ConfigMap fail. */
  writeFails: (() => boolean) | undefined;
  /** Rules that were broken while tasks ran: two at a time in one queue, a run of a disabled module, a spin. */
  readonly broken: string[] = [];
  /** Events of bindings that are not unlocked yet, by hook id; hooks without an entry have no watch. */
  readonly #watches = new Map<
    string,
    { hook: Hook; generation: number; open: boolean; waiting: HookTrigger[] }
  >();
  #generations = 0;
  #missing = false;
  readonly #atWork = new Map<string, number>();
  #spin = { at: 0, lines: 0 };
  #modules: ModuleSpec[];
  readonly #read = new WeakMap<ModuleSpec, Module>();
  #globalHooks: readonly HookSpec[];
  readonly #ports: Ports;
  readonly #runs = new Map<string, number>();
  /** What hooks do to objects and metrics, by what stands for it in their output. */
  readonly #acts = new WeakMap<object, HookAct>();

  constructor(world: {
    modules?: readonly ModuleSpec[];
    globalHooks?: readonly HookSpec[];
    config?: Record<string, string>;
    /** `global` of modules/values.yaml. */
    globalValues?: JsonObject;
    /** `--delete-brake`. */
    deletionLimit?: string;
    ready?: "applied" | "healthy";
    chartEnabledModules?: boolean;
    /** `--module-queues`. */
    moduleQueues?: QueueMode;
    /** `--parallel-modules`. */
    parallelModules?: number;
  }) {
    this.moduleQueues = new ModuleQueues(world.moduleQueues, world.parallelModules ?? 10);
    this.#brake = world.deletionLimit ?? "off";
    this.#globalValues = world.globalValues;
    this.#modules = [...(world.modules ?? [])];
    this.#globalHooks = world.globalHooks ?? [];
    this.data = { ...world.config };
    this.state = new State({
      clock: this.clock,
      ready: world.ready ?? "applied",
      chartEnabledModules: world.chartEnabledModules ?? false,
      moduleQueues: this.moduleQueues,
    });
    this.queues = new Queues<Task>({
      clock: this.clock,
      bounds: { minMs: 5000, maxMs: 30_000 },
      random: () => 0,
      slots: this.moduleQueues.slots,
      run: (batch, context) => runTask(this.#ports, batch, context),
      onLong: () => this.engine.check(),
      onEnd: (batch) => {
        this.onEnd?.(batch);
        this.engine.check();
      },
    });
    this.engine = new Engine(this.state, this.queues);
    this.#ports = this.#makePorts();
  }

  /** Starts up and runs until the first reload is over or something backs off. */
  async start(): Promise<void> {
    const tree = this.#tree();
    this.state.recordTree(tree);
    this.#takeConfig();
    const loaded = await loadHooks(this.#ports, tree.globalHookFiles, undefined);
    this.state.recordGlobalHooks(loaded.hooks);
    this.state.record("bootPhaseReached", "waiting");
    await this.run();
  }

  /** Lets everything that is ready run, without waiting for back-offs longer than `ms`. */
  async run(ms = 0): Promise<void> {
    await this.clock.advance(ms);
    for (let turn = 0; turn < 20; turn++) await settle();
  }

  /** Edits the ConfigMap; undefined removes a key. */
  edit(change: Record<string, string | undefined>): void {
    for (const [key, text] of Object.entries(change)) {
      if (text === undefined) delete this.data[key];
      else this.data[key] = text;
    }
    this.#takeConfig();
  }

  setModules(modules: readonly ModuleSpec[]): void {
    this.#modules = [...modules];
  }

  setGlobalHooks(hooks: readonly HookSpec[]): void {
    this.#globalHooks = hooks;
  }

  /** The ConfigMap is deleted. */
  loseConfig(): void {
    this.#missing = true;
    this.state.inputs.recordConfig(
      { condition: "missing", problems: [], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  /** Moves a release as somebody with helm would: gone, or a newer revision with other content. */
  moveRelease(name: string, how: "delete" | "rollback"): void {
    const release = this.releases.get(name);
    if (release === undefined || release.status !== "deployed") return;
    const moved = { ...release, revision: release.revision + 1, values: "by hand" };
    if (how === "delete") this.releases.delete(name);
    else this.releases.set(name, moved);
    this.state.recordModule(name, "releaseObserved", this.releases.get(name));
  }

  /** A release of ours that is there already. */
  addRelease(name: string): void {
    this.releases.set(name, {
      name,
      namespace: "default",
      revision: 3,
      status: "deployed",
      chartVersion: "1",
      manifestChecksum: "",
      lastDeployed: 0,
      values: "",
    });
  }

  /** Whether the hook's watch is open, so that an event reaches it at once or after its Synchronization. */
  watches(hookId: string): boolean {
    return this.#watches.has(hookId);
  }

  /** An event for a kubernetes binding of a hook. */
  event(hookId: string, name = "obj"): void {
    const watch = this.#watches.get(hookId);
    if (watch === undefined) return;
    const { hook } = watch;
    const binding = hook.config.bindings.kubernetes[0];
    if (binding === undefined) throw new Error(`${hookId} has no kubernetes binding`);
    const event = {
      watchEvent: "Modified",
      kind: "Pod",
      namespace: "ns",
      name,
      item: { object: {} },
    } as const;
    if (watch.open) this.#offer(hook, { type: "event", binding, event });
    else watch.waiting.push({ type: "event", binding, event });
  }

  /** A tick for a schedule binding of a hook. */
  tick(hookId: string): void {
    if (!this.schedules.has(hookId)) return;
    const hook = this.#find(hookId);
    const binding = hook.config.bindings.schedule[0];
    if (binding === undefined) throw new Error(`${hookId} has no schedule`);
    this.#offer(hook, { type: "schedule", binding });
  }

  /** The files that runs of a hook were given, in order. */
  inputs(hookId: string): HookInput[] {
    return this.#inputs
      .filter(({ hook }) => hook === hookId)
      .map((each) => ({
        ...each,
        values: JSON.parse(each.values) as JsonObject,
        config: JSON.parse(each.config) as JsonObject,
      }));
  }

  /** Releases as the operator sees them. */
  get observed(): Ports["releases"]["observed"] {
    return this.#ports.releases.observed;
  }

  /** True when nothing waits or runs. */
  get quiet(): boolean {
    return this.queues.views().every((view) => view.length === 0);
  }

  /** Lines of the log that begin so. */
  linesOf(start: string): string[] {
    return this.log.filter((line) => line.startsWith(start));
  }

  /** How many reloads have ended. */
  get converges(): number {
    return this.log.filter((line) => line === "converged").length;
  }

  describe(): string[] {
    return this.queues
      .views()
      .flatMap((view) => view.tasks.map((task) => `${view.name}: ${describeTask(task.task)}`));
  }

  #offer(hook: Hook, trigger: HookTrigger): void {
    this.queues.offer(trigger.binding.queue, buildHookTask(hook, trigger));
  }

  #find(id: string): Hook {
    const all = [...this.state.globalHooks, ...[...this.state.records()].flatMap((record) => record.hooks)];
    const found = all.find((hook) => hook.id === id);
    if (found === undefined) throw new Error(`no hook ${id}`);
    return found;
  }

  #takeConfig(): void {
    this.#missing = false;
    const content = parseConfigMap("ConfigMap addon-operator", this.data, this.state.values.modules());
    const condition = content.problems.length > 0 ? "invalid" : "ok";
    this.state.inputs.recordConfig(
      {
        condition,
        problems: content.problems,
        resourceVersion: String(++this.version),
        ...(condition === "ok" ? { content } : {}),
      },
      { kind: "config" },
    );
  }

  #tree(): Tree {
    const modules = this.#modules
      .map((spec) => this.#moduleOf(spec))
      .sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1));
    return {
      modules,
      globalValues: this.#globalValues,
      globalSchemas:
        this.globalSchema === undefined
          ? {}
          : { config: { file: "config-values.yaml", text: this.globalSchema } },
      globalHookFiles: this.#globalHooks.map((spec) => fileOf(spec)),
      problems: [],
      warnings: [],
      purgeBlockers: modules.length === 0 ? ["no module"] : [],
      ...(modules.some(({ unconfirmedMissing }) => unconfirmedMissing !== undefined)
        ? { recheckAt: this.clock.now() + SECOND_CHECK_MS }
        : {}),
    };
  }

  /** What has not changed stays the same object, as when directories are read. */
  #moduleOf(spec: ModuleSpec): Module {
    const module = this.#read.get(spec) ?? moduleOf(spec);
    this.#read.set(spec, module);
    return module;
  }

  #hook(spec: HookSpec): Hook {
    return {
      ...fileOf(spec),
      id: idOf(spec),
      module: spec.module,
      item: spec.item,
      config: configOf(spec, this.moduleQueues.queueOf(spec.module)),
    };
  }

  #spec(hook: Hook): HookSpec | undefined {
    const all = [
      ...this.#globalHooks,
      ...this.#modules.flatMap((module) =>
        (module.hooks ?? []).map((spec) => ({ ...spec, module: module.name })),
      ),
    ];
    return all.find((spec) => idOf(spec) === hook.id);
  }

  async #runHook(run: Given): Promise<HookRunResult> {
    const { hook, triggers } = run;
    const count = (this.#runs.get(hook.id) ?? 0) + 1;
    this.#runs.set(hook.id, count);
    this.#note(
      `hook ${hook.id}: ${triggers.map(({ type, binding: { name } }) => (type === "synchronization" ? `sync ${name}` : name)).join(" ")}`,
    );
    const binding = triggers.map((each) => each.binding.name).join(" ");
    this.#inputs.push({
      hook: hook.id,
      binding,
      values: textOf(run.values),
      config: textOf(run.configValues),
    });
    this.#mustBeOn(hook.module, run.triggers);
    const spec = this.#spec(hook);
    const act = spec === undefined ? { fail: "no such file" } : (spec.act?.(triggers, count) ?? {});
    const takes = act.takes;
    if (takes !== undefined) await this.#alone(run.queue, () => this.#pass(takes, run.signal));
    if (act.fail !== undefined) return { result: undefined, failure: act.fail };
    const output = {
      configPatchText: act.config === undefined ? "" : JSON.stringify(act.config),
      valuesPatchText: act.values === undefined ? "" : JSON.stringify(act.values),
      metrics: [],
      objects: [],
      answers: {},
    };
    this.#acts.set(output.objects, act).set(output.metrics, act);
    return { result: undefined, output };
  }

  /** Keeps the log, and ends an engine that spins without time passing. */
  #note(line: string): void {
    this.log.push(line);
    if (this.#spin.at !== this.clock.now()) this.#spin = { at: this.clock.now(), lines: 0 };
    this.#spin.lines += 1;
    if (this.#spin.lines <= SPIN) return;
    this.broken.push(`spins: ${this.log.slice(-8).join("; ")}`);
    this.engine.stop();
    void this.queues.stop(0);
  }

  /** In `main`, and in each module's own queue, one thing at a time. */
  async #alone<T>(queue: string, work: () => Promise<T>): Promise<T> {
    if (queue !== "main" && !queue.startsWith("module/")) return work();
    const count = (more: number): number => {
      const now = (this.#atWork.get(queue) ?? 0) + more;
      this.#atWork.set(queue, now);
      return now;
    };
    if (count(1) > 1) this.broken.push(`two at a time in ${queue}`);
    try {
      return await work();
    } finally {
      count(-1);
    }
  }

  #mustBeOn(module: string | undefined, triggers: readonly HookTrigger[]): void {
    if (module === undefined || this.state.module(module)?.enabled === true) return;
    const due = triggers.every((each) => each.binding.name.endsWith("DeleteHelm"));
    if (!due)
      this.broken.push(
        `${module} is off but its hook ran for ${triggers.map((each) => each.binding.name).join()}`,
      );
  }

  #pass(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.setTimer(ms, resolve);
      signal.addEventListener("abort", () => {
        timer.cancel();
        resolve();
      });
    });
  }

  #makePorts(): Ports {
    const { state, queues, clock } = this;
    const report = (line: string): void => void this.reported.push(line);
    // The operator's own report of failures, as Events.
    const ownReport = new Report({
      metrics: new Metrics(""),
      announce: (event) => void this.events.push(event),
    } as ConstructorParameters<typeof Report>[0]);
    return {
      state,
      queues,
      clock,
      logger: keepLog(this.logged),
      tracer: new Tracer({ clock }),
      retryMinMs: 5000,
      deleteBrake: parseLimit(this.#brake) as Limit,
      watches: {
        enable: (hook) => {
          if (this.watchFails !== undefined) return Promise.reject(new Error(this.watchFails));
          if (hook.config.bindings.kubernetes.length > 0 && !this.#watches.has(hook.id))
            this.#watches.set(hook.id, { hook, generation: ++this.#generations, open: false, waiting: [] });
          return Promise.resolve();
        },
        watchGeneration: (hook) => this.#watches.get(hook.id)?.generation,
        listUnlistedBindings: (hook) =>
          hook.config.bindings.kubernetes.map(({ id }) => id).filter((id) => this.unlisted.has(id)),
        unlock: (hook, ids = []) => {
          this.unlocked.push(...ids.map((id) => `${hook.id}/${id}`));
          const watch = this.#watches.get(hook.id);
          if (watch === undefined) return;
          watch.open = true;
          for (const trigger of watch.waiting.splice(0)) this.#offer(hook, trigger);
        },
        disable: (hook) => void this.#watches.delete(hook.id),
        snapshots: () => ({ byBindingName: () => [], byBindingId: () => [] }),
      },
      triggers: {
        enable: (hook) => void (hook.config.bindings.schedule.length > 0 && this.schedules.add(hook.id)),
        disable: (hook) => void this.schedules.delete(hook.id),
      },
      releases: {
        prepareNamespace: () => Promise.resolve(),
        reconcile: async ({
          module,
          values,
          missingObjects = [],
          isRequested,
          unhealthy,
          signal,
          onWait,
        }) => {
          const failure = this.helmFails?.(module.name);
          this.#note(`helm ${module.name}${failure === undefined ? "" : " fails"}`);
          this.askedOfHelm.push(
            isRequested === true ? "asked" : unhealthy?.status === "False" ? "unhealthy" : "",
          );
          if (state.module(module.name)?.enabled !== true)
            this.broken.push(`helm of disabled ${module.name}`);
          if (this.helmWaits !== undefined) onWait?.(this.helmWaits);
          if (this.helmTakes > 0)
            await this.#alone(this.moduleQueues.queueOf(module.name), () =>
              this.#pass(this.helmTakes, signal),
            );
          if (failure === undefined) onWait?.(undefined);
          signal.throwIfAborted();
          const { from, to } = this.#findMove(module) ?? {};
          if (from !== undefined && to !== undefined && !mayMoveNow(state, { release: module.name, to }))
            throw new UndecidedMoveError(module.name, { from, to });
          if (failure === "unusable chart")
            throw new UnusableChartError({ file: "chart", message: "contains more than 100 MiB" });
          if (failure === "foreign") throw new ForeignReleaseError(module.name, "somebody else");
          if (failure !== undefined) throw new Error(failure);
          if (missingObjects.length > 0) this.restores?.(missingObjects);
          const rollbackReason = this.refuses?.(module.name);
          if (rollbackReason !== undefined)
            return {
              action: "rolledBack",
              rollbackReason,
              release: this.releases.get(module.name),
              wasRecovered: false,
            };
          const lacksRollbackTarget = unhealthy?.status === "False" && this.noWayBack;
          return { ...this.#upgrade(module.name, values), lacksRollbackTarget };
        },
        rollBack: async ({ module: { name } }, revision, onRecorded) => {
          this.#note(`rollback ${name}${revision === undefined ? "" : ` to ${revision}`}`);
          const failure = this.rollbackFailures.shift();
          if (failure !== undefined) throw failure;
          onRecorded?.();
          return this.releases.get(name);
        },
        restoreObjects: async (name, missingObjects, signal) => {
          this.#note(`restore ${name}: ${missingObjects.join(" ")}`);
          if (state.module(name)?.run.activity !== "none") this.broken.push(`restore of busy ${name}`);
          if (this.restoreTakes > 0) await this.#pass(this.restoreTakes, signal);
          signal.throwIfAborted();
          this.restores?.(missingObjects);
          return { action: "restored", release: this.releases.get(name), wasRecovered: false };
        },
        announceModules: (modules) =>
          void this.announced.push(
            modules.map(({ name, hasFinalValues }) => name + (hasFinalValues ? "" : "?")),
          ),
        observed: {
          get: (name) => this.releases.get(name),
          identity: (name) => this.#identityOf(name),
          isReserved: (name) => this.reserved.has(name),
          findMove: (module) => this.#findMove(module),
          readMovingReleases: () => Promise.resolve(),
          ownership: (name) =>
            this.foreign.has(name) ? "foreign" : this.releases.has(name) ? "ours" : "none",
          installed: () =>
            [...this.releases.values()]
              .filter(({ name, status }) => !this.foreign.has(name) && status !== "uninstalled")
              .map(({ name }) => name),
          hasOwnReleases: () => [...this.releases.keys()].some((name) => !this.foreign.has(name)),
          withoutModule: (tree) =>
            [...this.releases.keys()].filter((name) => tree.modules.every((module) => module.name !== name)),
        },
        uninstall: async ({ name }, signal, onWait) => {
          this.#note(`uninstall ${name}`);
          if (this.helmWaits !== undefined) onWait?.(this.helmWaits);
          if (state.module(name)?.enabled === true) this.broken.push(`uninstall of enabled ${name}`);
          if (this.#missing) this.broken.push(`uninstall of ${name} without ConfigMap`);
          if (this.uninstallTakes > 0) await this.#pass(this.uninstallTakes, signal);
          signal.throwIfAborted();
          if (this.uninstallFails?.(name) === true) throw new Error("no uninstall");
          const release = this.releases.get(name);
          if (release !== undefined) this.releases.set(name, { ...release, status: "uninstalled" });
        },
        forgetRelease: (name) => {
          this.releases.delete(name);
          return Promise.resolve();
        },
        ensureCrds: ({ files }, listeners) => {
          const broken = files.find((file) => file.startsWith("broken"));
          if (broken !== undefined)
            return Promise.reject(new ProblemError({ file: broken, message: "no CRD" }));
          if (files.includes("refused.yaml")) return Promise.reject(new Error("try later"));
          if (files.includes("rewritten.yaml")) {
            listeners?.onProgress?.("Rewrites 4 of 9 objects");
            const works = [...state.view.modules.values()].filter(({ crdWork }) => crdWork !== undefined);
            for (const { name, crdWork } of works) this.#note(`${name}: ${crdWork}`);
          }
          this.#note(`crds ${files.join(" ")}`);
          return Promise.resolve();
        },
      },
      config: {
        write: (key, operations) => Promise.resolve(this.#write(key, operations)),
        validateAgain: () => void (this.#missing || this.#takeConfig()),
        refresh: () => {
          this.onRefresh?.();
          return Promise.resolve(!this.#missing);
        },
      },
      report: {
        taskBegan: () => {},
        hookRun: ({ hook, binding, activation, queue, result, seconds }) =>
          report(`hook ${hook.id}: ${binding} ${activation} in ${queue}: ${result}, ${seconds} s`),
        hookFailed: (module = "operator", note) => void this.failures.push(`${module}: HookFailed: ${note}`),
        moduleRun: (name, seconds, failed) => report(`run ${name}${failed ? " failed" : ""}: ${seconds} s`),
        moduleDeleteFailed: (name) => report(`delete of ${name} failed`),
        discoveryFailed: () => report("discovery failed"),
        rolledBackByHand: (name, release) =>
          report(`rolled back ${name} by hand: revision ${release?.revision ?? 0}`),
        moduleReleased: (name, outcome) => {
          ownReport.moduleReleased(name, outcome);
          report(`released ${name}: ${outcome?.action ?? "nothing"}`);
        },
        crdRefused: (name) => void this.failures.push(`${name}: CrdRefused`),
        moduleRemoved: (name) => report(`removed ${name}`),
        releasePurged: (name) => report(`purged ${name}`),
        failed: (name, reason, message) => {
          ownReport.failed(name, reason, message);
          this.failures.push(`${name}: ${reason}`);
          report(`failed ${name}: ${reason}: ${message}`);
        },
        moduleSwitched: (name, { enabled, by, reason }) => {
          this.#note(`${name} ${enabled ? "on" : "off"}`);
          report(`switched ${name} ${enabled ? "on" : "off"}: ${reason ?? by}`);
        },
        convergeEnded: (seconds) => {
          this.#note("converged");
          report(`converged: ${seconds} s`);
        },
      },
      runs: RUNS,
      runHook: (run) => this.#runHook(run as HookRunInput as Given),
      patcher: {} as Ports["patcher"],
      applyObjects: async (_, operations) => this.#acts.get(operations)?.objects?.(),
      hookMetrics: { apply: (operations) => this.#acts.get(operations)?.metrics?.() },
      restoreChart: () => Promise.resolve(),
      runScript: async ({ module, values, signal }) => {
        const spec = this.#modules.find((each) => each.name === module);
        const { enabledModules } = (
          JSON.parse(textOf(values as Pieces)) as { global: { enabledModules: string[] } }
        ).global;
        try {
          const answer = spec?.script?.(enabledModules) ?? true;
          const isText = typeof answer === "string";
          return { enabled: !isText && answer, reason: isText ? answer : undefined };
        } catch (error) {
          const timedOut = error instanceof ScriptHangs;
          if (timedOut) await sleep(this.clock, SCRIPT_TIMEOUT_MS, signal);
          return { failure: String(error), timedOut };
        }
      },
      loader: {
        load: (file, module) => {
          const all = [
            ...this.#globalHooks,
            ...this.#modules.flatMap((each) =>
              (each.hooks ?? []).map((spec) => ({ ...spec, module: each.name })),
            ),
          ];
          const spec = all.find((each) => each.name === file.name && each.module === module);
          this.requested.push(module === undefined ? file.name : `${module}/${file.name}`);
          const refused = spec === undefined ? "gone" : spec.refused;
          if (spec === undefined || refused !== undefined)
            return Promise.resolve({ problem: { file: file.path, message: refused ?? "" } });
          return Promise.resolve({ hooks: [this.#hook(spec)], warnings: [] });
        },
      },
      serverVersion: () => {
        const { serverVersion: version } = this;
        return version === undefined ? Promise.reject(new Error("no server")) : Promise.resolve(version);
      },
      contentOf: (modules) => {
        const specs = new Set(modules.map(({ name }) => name));
        return JSON.stringify(this.#modules.filter(({ name }) => specs.has(name)));
      },
      reader: {
        rereadModule: (previous, name) => {
          const fresh = this.#tree().modules.find((module) => module.name === name);
          if (fresh === undefined || previous.modules.includes(fresh)) return Promise.resolve(previous);
          const modules = previous.modules.map((module) => (module.name === name ? fresh : module));
          return Promise.resolve({ ...this.#tree(), modules });
        },
        readTree: (previous, names) => {
          this.onRead?.();
          const tree = this.#tree();
          const old = new Map(previous?.modules.map((module) => [module.name, module]));
          const modules = tree.modules.map((module) =>
            names?.has(module.name) === false ? (old.get(module.name) ?? module) : module,
          );
          return Promise.resolve({ ...tree, modules });
        },
      },
    };
  }

  /** A release that is made again is another one. */
  #identityOf(name: string): string | undefined {
    const release = this.releases.get(name);
    if (release === undefined) return undefined;
    const known = this.#identities.get(release) ?? `uid-${this.#nextIdentity++}`;
    this.#identities.set(release, known);
    return known;
  }

  #write(key: string, operations: Parameters<Ports["config"]["write"]>[1]): void {
    const config = this.state.values.config;
    if (config === undefined || this.#missing) throw new Error("no config");
    if (this.writeFails?.() === true) throw new Error("conflict");
    if (this.state.view.config.condition !== "ok") throw new Error("the ConfigMap is invalid");
    const section = applyJsonPatch(key === "global" ? config.global : config.sections.get(key), operations);
    this.data[key] = JSON.stringify(section ?? {});
    const content = withSection(config, key, section);
    const resourceVersion = String(++this.version);
    this.state.inputs.recordOwnConfig({ condition: "ok", problems: [], resourceVersion, content });
  }

  /** The move that a run of helm would begin. */
  #findMove({
    name,
    namespace: to = "default",
  }: Pick<Module, "name" | "namespace">): ReleaseMove | undefined {
    const { namespace: from, status } = this.releases.get(name) ?? {};
    if (from === undefined || from === to || status === "uninstalled") return undefined;
    return { from, to, dataObjects: this.#modules.find((each) => each.name === name)?.data ?? [] };
  }

  #upgrade(
    name: string,
    values: string,
  ): { action: "unchanged" | "installed" | "upgraded"; release: Release; wasRecovered: boolean } {
    const before = this.releases.get(name);
    const namespace = this.state.module(name)?.module.namespace ?? "default";
    const isSame = before?.values === values && before.namespace === namespace;
    if (isSame && before.status === "deployed") {
      return { action: "unchanged", release: before, wasRecovered: false };
    }
    const revision = (before?.revision ?? 0) + 1;
    const release = {
      name,
      namespace,
      revision,
      status: "deployed",
      chartVersion: this.#modules.find((module) => module.name === name)?.version ?? "1",
      manifestChecksum: "x",
      lastDeployed: this.clock.now(),
      values,
    };
    this.releases.set(name, release);
    this.log.push(`release ${name} v${revision}`);
    return { action: before === undefined ? "installed" : "upgraded", release, wasRecovered: false };
  }
}

function idOf(spec: HookSpec): string {
  return spec.module === undefined ? spec.name : `${spec.module}/${spec.name}`;
}

function fileOf(spec: HookSpec): { name: string; path: string; root: string; signature: string } {
  return { name: spec.name, path: `/hooks/${idOf(spec)}`, root: "/hooks", signature: spec.signature ?? "1" };
}

function configOf(spec: HookSpec, queue: string): HookConfig {
  const shared = { allowFailure: false, queue, group: undefined, includeSnapshotsFrom: [] };
  return {
    version: spec.version ?? "v1",
    bindings: bindingsWith({
      lifecycle: LIFECYCLE.flatMap((name) => {
        const order = spec.lifecycle?.[name];
        return order === undefined ? [] : [createLifecycleBinding(name, order, queue)];
      }),
      schedule: (spec.schedules ?? []).map((each, index) => ({
        type: "schedule",
        id: `s${index}`,
        name: "schedule",
        crontab: "* * * * *",
        ...shared,
        ...each,
      })),
      kubernetes: (spec.kubernetes ?? []).map((each, index) => ({
        ...binding({ id: `k${index}`, name: "kubernetes", kind: "Pod", namespaces: undefined }),
        ...shared,
        ...each,
      })),
    }),
    settings: undefined,
  };
}

const REMOVED_ORIGIN: Module["origin"] = {
  source: "platform",
  version: "1.0.0",
  digest: undefined,
  verifiedBy: undefined,
  removed: true,
  problem: undefined,
};

function moduleOf(spec: ModuleSpec): Module {
  const valuesKey = spec.name.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
  const none = { file: "values.yaml", section: undefined, enabled: undefined };
  return {
    name: spec.name,
    valuesKey,
    order: spec.order ?? 1,
    dir: `/modules/${spec.name}`,
    chart: spec.chart ?? "own",
    chartDir: `/modules/${spec.name}`,
    chartVersion: spec.version ?? "1",
    requires: spec.requires,
    valuesFrom: spec.valuesFrom,
    health: spec.health,
    after: spec.after,
    namespace: spec.namespace,
    onFailure: spec.onFailure,
    enabledScript: spec.script === undefined ? undefined : "enabled",
    hookFiles: (spec.hooks ?? []).map((hook) => fileOf({ ...hook, module: spec.name })),
    crdFiles: spec.crds ?? [],
    common: none,
    own: { file: "values.yaml", section: spec.section, enabled: spec.enabled },
    schemas: {
      ...(spec.schema === undefined ? {} : { config: { file: "config-values.yaml", text: spec.schema } }),
      ...(spec.valuesSchema === undefined
        ? {}
        : { values: { file: "values.yaml", text: spec.valuesSchema } }),
    },
    problem: spec.problem === undefined ? undefined : { file: "values.yaml", message: spec.problem },
    warnings: [],
    ...(spec.removedFromSource === true && { origin: REMOVED_ORIGIN }),
    ...(spec.missing === undefined ? {} : { unconfirmedMissing: { since: 0, what: spec.missing } }),
  };
}

function textOf(pieces: readonly Uint8Array[]): string {
  return Buffer.concat(pieces).toString();
}
