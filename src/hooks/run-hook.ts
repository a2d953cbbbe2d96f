import { type Logger, oneLine } from "../lib/index.ts";
import { bindingName, type Hook, type HookTrigger } from "../model/index.ts";
import { run, type RunResult, Scratch } from "../process/index.ts";
import { commandOf, workingDirOf } from "./command.ts";
import { renderContext, type SnapshotSource } from "./context.ts";
import { type HookOutput, OUTPUT_FILES, readLeftovers } from "./leftovers.ts";
import { OutputLog } from "./output-log.ts";

/** Settings that all runs share. */
export interface RunSettings {
  /** The operator's own environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  readonly tmpDir: string;
  readonly timeoutMs?: number | undefined;
  /** `--debug-keep-tmp-files`. */
  readonly keepFiles: boolean;
  /** `--log-proxy-hook-json`. */
  readonly proxyJson: boolean;
}

/** One run of a hook. Values are JSON texts, made for this run. */
export interface HookRun {
  readonly hook: Hook;
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: SnapshotSource;
  readonly values: string | Uint8Array;
  readonly configValues: string | Uint8Array;
  readonly settings: RunSettings;
  readonly logger: Logger;
  readonly queue: string;
  readonly signal?: AbortSignal | undefined;
}

/** How a run went: `failure` (one line) or `output`, never both. */
export interface HookRunResult {
  /** Undefined when the run did not come to start the hook: its files could not be written. */
  readonly result: RunResult | undefined;
  readonly failure?: string;
  readonly output?: HookOutput;
}

/**
 * Runs a hook with its files (HOOKS "Event triggered execution", hook-contract §3.1) and reads what it left. Never
 * throws. Nothing is read unless the hook ended with exit code 0; nothing is applied here.
 */
export async function runHook(request: HookRun): Promise<HookRunResult> {
  const { hook, settings } = request;
  let scratch: Scratch | undefined;
  let result: RunResult | undefined;
  try {
    scratch = await Scratch.open(settings.tmpDir, `hook-${hook.id.toLowerCase()}`, {
      keep: settings.keepFiles,
    });
    result = await execute(request, await writeFiles(scratch, request));
    if (result.outcome !== "succeeded") return { result, failure: result.message };
    return { result, output: await readLeftovers(scratch) };
  } catch (error) {
    return { result, failure: oneLine(error) };
  } finally {
    await scratch?.dispose();
  }
}

/** Writes the input files, makes the output files, and returns the variables that name them. */
async function writeFiles(scratch: Scratch, request: HookRun): Promise<Record<string, string>> {
  const { hook, triggers, snapshots, values, configValues } = request;
  const inputs = {
    BINDING_CONTEXT_PATH: [
      "binding-context.json",
      renderContext({ config: hook.config, triggers, snapshots }),
    ],
    CONFIG_VALUES_PATH: ["config-values.json", configValues],
    VALUES_PATH: ["values.json", values],
  } as const;
  const files = [
    ...Object.entries(inputs).map(async ([variable, [name, data]]) => [
      variable,
      await scratch.write(name, data),
    ]),
    ...Object.entries(OUTPUT_FILES).map(async ([variable, name]) => [
      variable,
      await scratch.write(name, ""),
    ]),
  ];
  return Object.fromEntries(await Promise.all(files)) as Record<string, string>;
}

async function execute(request: HookRun, variables: Record<string, string>): Promise<RunResult> {
  const { hook, triggers, settings, logger, queue, signal } = request;
  const [first] = triggers;
  const fields = {
    hook: hook.name,
    binding: first === undefined ? "" : bindingName(first),
    event: first?.type ?? "",
    queue,
    ...(hook.module === undefined ? {} : { module: hook.module }),
  };
  const log = new OutputLog(logger.child(fields), settings.proxyJson);
  const result = await run({
    ...(await commandOf(hook, [])),
    env: { ...settings.env, WORKING_DIR: workingDirOf(hook, settings.workingDir), ...variables },
    timeoutMs: settings.timeoutMs,
    signal,
    // The log has every line; of stdout nothing else is wanted.
    stdoutLimit: 0,
    onLine: (stream, line) => log.line(stream, line),
  });
  log.flush();
  return result;
}
