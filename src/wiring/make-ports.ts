/** Connects the ports of tasks to the rooms behind them. */

import { HookLoader, runEnabledScript, runHook } from "../hooks/index.ts";
import { parseCrontab } from "../cron/index.ts";
import type { HookMetricOwner, HookMetrics } from "../metrics/index.ts";
import type { Hook, HookFile, Task, Tree } from "../model/index.ts";
import { tellTree } from "../modules/index.ts";
import type { Queues, TaskWaits } from "../queue/index.ts";
import type { State } from "../state/index.ts";
import { applyObjects } from "../tasks/index.ts";
import type {
  BindingsPort,
  ConfigPort,
  Ports,
  HookRunPort,
  ReleasesPort,
  SchedulesPort,
  Recorder,
} from "../tasks/index.ts";
import type { Base } from "./base.ts";

/** Rooms that tasks reach through ports. */
export interface PortParts {
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly bindings: BindingsPort;
  readonly schedules: SchedulesPort;
  readonly releases: ReleasesPort;
  readonly config: ConfigPort;
  readonly recorder: Recorder;
  readonly hookMetrics: HookMetrics;
  readonly waits: TaskWaits;
}

/** Builds everything that a task may use. */
export function makePorts(base: Base, ports: PortParts): Ports {
  const { clock, logger, settings, runs } = base;
  const loader = hookLoader(base);
  return {
    ...ports,
    clock,
    logger,
    retryMinMs: settings.retryMinMs,
    deleteBrake: settings.deleteBrake,
    runHook: hookRunner(base, ports),
    runScript: ({ module, values, configValues, signal }) =>
      runEnabledScript({
        module: module.name,
        path: module.enabledScript ?? "",
        values,
        configValues,
        settings: runs,
        logger,
        signal,
      }),
    loadHook: (file, module) => load(base, loader, { file, module }),
    readTree: () => readAgain(base, ports.state.tree),
    lookAgain: (ms) => void clock.setTimer(ms, () => ports.state.recordSecondLook()),
    awaitTask: (task, until) => ports.waits.offer(task, until),
  };
}

function hookLoader(base: Base): HookLoader {
  return new HookLoader({
    env: base.env,
    workingDir: base.settings.workingDir,
    logger: base.logger,
    checkCrontab: (line) => parseCrontab(line).warning,
    checkFilter: (filter) => base.filters.compile(filter),
  });
}

async function load(
  base: Base,
  loader: HookLoader,
  wanted: { file: HookFile; module: string | undefined },
): ReturnType<Ports["loadHook"]> {
  const answer = await loader.load(wanted.file, wanted.module);
  if ("problem" in answer) return answer;
  for (const warning of answer.warnings)
    base.logger.warn(warning, { hook: wanted.file.name, module: wanted.module });
  return { hook: answer.hook };
}

/** Reads the directories again; what is broken or missing stays in force until it is mended or confirmed. */
async function readAgain(base: Base, previous: Tree): Promise<Tree> {
  const tree = await base.readTree(previous);
  tellTree(base.logger, tree, previous);
  return tree;
}

function hookRunner(base: Base, ports: PortParts): HookRunPort {
  const { patchClient: client, discovery, filters, clock, logger, runs: settings } = base;
  return async (run) => {
    const started = clock.monotonic();
    const { result, failure, output } = await runHook({ ...run, settings, logger });
    return {
      failure,
      durationMs: clock.monotonic() - started,
      usage: result?.usage,
      configPatch: output?.configPatchText ?? "",
      valuesPatch: output?.valuesPatchText ?? "",
      applyObjects: () => applyObjects({ client, discovery, filters, clock }, output?.objects ?? []),
      applyMetrics: () => ports.hookMetrics.apply(output?.metrics ?? [], ownerOf(run.hook)),
    };
  };
}

function ownerOf(hook: Hook): HookMetricOwner {
  return { hook: hook.name, module: hook.module };
}
