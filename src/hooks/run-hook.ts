/** Runs a hook: writes its input files, starts it, reads what it leaves. */

import type { Snapshots } from "../bindings/index.ts";
import { type LogFields, type Logger, oneLine } from "../lib/index.ts";
import { type Hook, type HookFile, type HookTrigger } from "../model/index.ts";
import { run, type RunResult, Scratch, type ScratchData } from "../process/index.ts";
import { traceParent } from "../trace/index.ts";
import { commandOf } from "./hook-command.ts";
import { renderContext } from "./context.ts";
import { type HookOutput, OUTPUT_FILES, readLeftovers } from "./answer/leftovers.ts";
import { noteHookSpans } from "./answer/hook-spans.ts";
import { OutputLog } from "./answer/output-log.ts";

/** What all runs share. */
export interface RunSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  readonly tmpDir: string;
  readonly hookTimeoutMs?: number | undefined;
  readonly debugKeepTmpFiles: boolean;
  readonly logProxyHookJson: boolean;
}

/** What one run of a hook is given. Values are JSON texts. */
export interface HookRunInput {
  readonly hook: Hook;
  readonly triggers: readonly HookTrigger[];
  readonly snapshots: Snapshots;
  readonly values: ScratchData;
  readonly configValues: ScratchData;
  readonly queue: string;
  readonly signal?: AbortSignal | undefined;
}

/** With what hooks run. */
interface Surroundings {
  readonly settings: RunSettings;
  readonly logger: Logger;
}

/** How a run went: `failure` (one line) or `output`, never both. */
export interface HookRunResult {
  /** Undefined when the hook was not started, since its files could not be written. */
  readonly result: RunResult | undefined;
  readonly failure?: string;
  readonly output?: HookOutput;
}

/**
 * Runs a hook and reads what it leaves. Never throws. Nothing is read unless the exit code is 0; nothing is applied
 * here.
 */
export async function runHook(request: HookRunInput & Surroundings): Promise<HookRunResult> {
  const { hook, triggers, snapshots, queue } = request;
  const [first] = triggers;
  const fields = {
    hook: hook.name,
    binding: first?.binding.name ?? "",
    event: first?.type ?? "",
    queue,
    ...(hook.module === undefined ? {} : { module: hook.module }),
  };
  const context = renderContext({ config: hook.config, triggers, snapshots });
  return runHookFile({ ...request, context, fields });
}

/** A run of a hook file with a given binding context. */
export interface FileRun extends Surroundings, Pick<HookRunInput, "values" | "configValues" | "signal"> {
  readonly hook: HookFile & { readonly id: string };
  readonly context: ScratchData;
  /** Fields of each log line of its output. */
  readonly fields: LogFields;
}

/** The part of `runHook` that works with files alone. Never throws. */
export async function runHookFile(request: FileRun): Promise<HookRunResult> {
  let result: RunResult | undefined;
  const name = `hook-${request.hook.id.toLowerCase()}`;
  const end = await inScratch(request.settings, name, async (scratch) => {
    result = await execute(request, await writeFiles(scratch, request));
    await noteHookSpans(scratch.path(OUTPUT_FILES.SPANS_PATH), request.logger.child(request.fields));
    if (result.outcome !== "succeeded") return { failure: result.message };
    return { output: await readLeftovers(scratch) };
  });
  return { result, ...end };
}

/** Works with a private directory that goes afterwards. Never throws: what went wrong is the `failure`. */
export async function inScratch<T>(
  { tmpDir, debugKeepTmpFiles }: RunSettings,
  name: string,
  work: (scratch: Scratch) => Promise<T>,
): Promise<T | { failure: string }> {
  let scratch: Scratch | undefined;
  try {
    scratch = await Scratch.open(tmpDir, name, { keep: debugKeepTmpFiles });
    return await work(scratch);
  } catch (error) {
    return { failure: oneLine(error) };
  } finally {
    await scratch?.dispose();
  }
}

/** Writes the input files, makes the output files, and returns the variables that name them. */
async function writeFiles(scratch: Scratch, request: FileRun): Promise<Record<string, string>> {
  const inputs = {
    BINDING_CONTEXT_PATH: ["binding-context.json", request.context],
    CONFIG_VALUES_PATH: ["config-values.json", request.configValues],
    VALUES_PATH: ["values.json", request.values],
  } as const;
  const outputs = Object.entries(OUTPUT_FILES).map(([variable, name]) => [variable, [name, ""]] as const);
  const files = [...Object.entries(inputs), ...outputs].map(
    async ([variable, [name, data]]) => [variable, await scratch.write(name, data)] as const,
  );
  return Object.fromEntries(await Promise.all(files));
}

async function execute(request: FileRun, variables: Record<string, string>): Promise<RunResult> {
  const { hook, settings, logger, signal } = request;
  const log = new OutputLog(logger.child(request.fields), settings.logProxyHookJson);
  const parent = traceParent();
  const command = await commandOf(hook, [], settings);
  const result = await run({
    ...command,
    env: { ...command.env, ...variables, ...(parent === undefined ? {} : { TRACEPARENT: parent }) },
    timeoutMs: settings.hookTimeoutMs,
    signal,
    // Every line goes to the log; stdout is needed for nothing else.
    stdoutLimit: 0,
    onLine: (stream, line) => log.line(stream, line),
  });
  log.flush();
  return result;
}
