/** Runs a hook: writes its input files, starts it, reads its output files (docs/reference/hooks.md, "Input and output"). */

import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";

import { isReviewBinding } from "./bindings/index.ts";
import { oneLine, type LogFields, type Logger } from "../base/index.ts";
import type { Hook, HookFile, HookTrigger } from "../base/model/index.ts";
import { ScratchDir, type Children, type RunRequest, type RunResult } from "../base/process/index.ts";
import type { ScratchData } from "../base/process/index.ts";
import { withAccess, type ModuleActor } from "./actor.ts";
import { currentTraceParent } from "../base/trace/index.ts";
import { batchArguments, batchEnvironment, describeFailedResult, getTimeLimitMs } from "./batch.ts";
import { recordHookSpans } from "./output/hook-spans.ts";
import { parseMetrics, type MetricOperation } from "./output/metrics-file.ts";
import { parseObjectOperations, type ObjectOperation } from "./output/object-operations.ts";
import { MOST_METRIC_VALUES, MOST_VALUES, OutputError, requireFewValues } from "./output/output-files.ts";
import { OutputLog } from "./output/output-log.ts";
import { parseAdmission, parseConversion, type HookAnswers } from "./output/response-files.ts";

/** Where hooks and scripts are started, and with which environment. */
export interface StartSettings {
  readonly children: Pick<Children, "run">;
  /** The operator's environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  /** `--hook-working-dir`: the operator's working directory (the default), or the file's own directory. */
  readonly hookWorkingDir?: "operator" | "own" | undefined;
  /** Creates the files that `env` names, before each start. */
  readonly prepare?: (() => Promise<void>) | undefined;
  /** The identity under which hooks run; undefined = the operator's. */
  readonly actor?: ModuleActor | undefined;
}

export interface RunSettings extends StartSettings {
  readonly tmpDir: string;
  readonly hookTimeoutMs?: number | undefined;
  readonly debugKeepTmpFiles: boolean;
  readonly logProxyHookJson: boolean;
}

/** Input of one hook run. Values are JSON texts. */
export interface HookRunInput {
  readonly hook: Hook;
  readonly triggers: readonly HookTrigger[];
  /** The binding context as JSON text. */
  readonly context: ScratchData;
  readonly values: ScratchData;
  readonly configValues: ScratchData;
  readonly queue: string;
  readonly signal?: AbortSignal | undefined;
  /** Hides secrets of the values in everything that the hook says. */
  readonly hide?: ((text: string) => string) | undefined;
}

interface HookRunTools {
  readonly settings: RunSettings;
  readonly logger: Logger;
}

/** Output of a successful run, not applied yet. `values/` parses the patches of values. */
export interface HookOutput {
  readonly configPatchText: string;
  readonly valuesPatchText: string;
  readonly metrics: readonly MetricOperation[];
  readonly objects: readonly ObjectOperation[];
  /** Answers to reviews. */
  readonly answers: HookAnswers;
}

/** Output files, by environment variable. */
const OUTPUT_FILES = {
  CONFIG_VALUES_JSON_PATCH_PATH: "config-values-patch.json",
  VALUES_JSON_PATCH_PATH: "values-patch.json",
  METRICS_PATH: "metrics.json",
  KUBERNETES_PATCH_PATH: "kubernetes-patch.json",
  SPANS_PATH: "spans.json",
  VALIDATING_RESPONSE_PATH: "admission-response.json",
  ADMISSION_RESPONSE_PATH: "admission-response.json",
  CONVERSION_RESPONSE_PATH: "conversion-response.json",
} as const;
type OutputVariable = keyof typeof OUTPUT_FILES;

/** Result of a run: `failure` (one line) or `output`, never both. */
export interface HookRunResult {
  /** Undefined if the hook was not started, because its files could not be written. */
  readonly result: RunResult | undefined;
  readonly failure?: string;
  readonly output?: HookOutput;
}

/** Runs a hook and reads its output if the exit code is 0. Applies nothing. Never throws. */
export async function runHook(request: HookRunInput & HookRunTools): Promise<HookRunResult> {
  const { hook, triggers, queue } = request;
  const [firstTrigger] = triggers;
  const logFields = {
    hook: hook.name,
    binding: firstTrigger?.binding.name ?? "",
    event: firstTrigger?.type ?? "",
    queue,
    ...(hook.module === undefined ? {} : { module: hook.module }),
  };
  // Many reviews may arrive at once: their processes must not take the processors from the operator, which answers the others.
  const givesWay = firstTrigger !== undefined && isReviewBinding(firstTrigger.binding);
  return runHookFile({ ...request, fields: logFields, givesWay });
}

/** A run of a hook file with a given binding context. */
export interface HookFileRun
  extends HookRunTools, Pick<HookRunInput, "context" | "values" | "configValues" | "signal" | "hide"> {
  readonly hook: HookFile & Pick<Hook, "id" | "module" | "item">;
  /** Fields of each log line of its output. */
  readonly fields: LogFields;
  /** Gives way to other work where processors are scarce: many reviews must not delay the queues. */
  readonly givesWay?: boolean;
}

/** Runs a hook file with a given binding context, also without a cluster (`hook run`). Never throws. */
export async function runHookFile(request: HookFileRun): Promise<HookRunResult> {
  let result: RunResult | undefined;
  const name = `hook-${request.hook.id.toLowerCase()}`;
  const failureOrOutput = await withScratchDirectory(request.settings, name, async (scratch) => {
    const fileVariables = await writeHookFiles(scratch, request);
    result = await withAccess(request.settings.actor, scratch, (accessVariables) =>
      runProcess(request, { ...fileVariables, ...accessVariables }),
    );
    await recordHookSpans(scratch, OUTPUT_FILES.SPANS_PATH, {
      logger: request.logger.child(request.fields),
      hide: request.hide,
    });
    if (result.outcome !== "succeeded") return { failure: describeFailedResult(request.hook, result) };
    return { output: await readOutputs(scratch) };
  });
  return { result, ...failureOrOutput };
}

/**
 * Calls `work` with a private directory and removes the directory afterwards, unless `debugKeepTmpFiles` is set. Never throws:
 * errors are in `failure`. `prepare` creates the files that the environment of hooks names.
 */
export async function withScratchDirectory<T>(
  { tmpDir, debugKeepTmpFiles, prepare, actor, children }: RunSettings,
  name: string,
  work: (scratch: ScratchDir) => Promise<T>,
): Promise<T | { failure: string }> {
  let scratch: ScratchDir | undefined;
  try {
    const user = actor?.uid === undefined ? undefined : { uid: actor.uid, children };
    scratch = await ScratchDir.open(tmpDir, name, { keep: debugKeepTmpFiles, user });
    await prepare?.();
    return await work(scratch);
  } catch (error) {
    return { failure: oneLine(error) };
  } finally {
    await scratch?.dispose();
  }
}

/** Writes the input files, creates the output files, and returns the environment variables that name them. */
async function writeHookFiles(scratch: ScratchDir, request: HookFileRun): Promise<Record<string, string>> {
  const inputs = {
    BINDING_CONTEXT_PATH: ["binding-context.json", request.context],
    CONFIG_VALUES_PATH: ["config-values.json", request.configValues],
    VALUES_PATH: ["values.json", request.values],
  } as const;
  // Two variables name the same output file.
  const outputNames = [...new Set(Object.values(OUTPUT_FILES))];
  const files = [...Object.values(inputs), ...outputNames.map((name) => [name, ""] as const)];
  await Promise.all(files.map(([name, data]) => scratch.write(name, data)));
  const inputPaths = Object.entries(inputs).map(([variable, [name]]) => [variable, scratch.path(name)]);
  const outputPaths = Object.entries(OUTPUT_FILES).map(([variable, name]) => [variable, scratch.path(name)]);
  return Object.fromEntries([...inputPaths, ...outputPaths]) as Record<string, string>;
}

/** Runs the process of the hook, logs its output, and warns of processes that it left behind. */
async function runProcess(request: HookFileRun, variables: Record<string, string>): Promise<RunResult> {
  const { hook, settings, logger, signal, hide, givesWay } = request;
  const log = new OutputLog(logger.child(request.fields), { proxyJson: settings.logProxyHookJson, hide });
  const traceParent = currentTraceParent();
  const command = await buildCommand(hook, batchArguments(hook), settings);
  const batchVariables = hook.item === undefined ? {} : batchEnvironment(hook.module);
  const traceVariables = traceParent === undefined ? {} : { TRACEPARENT: traceParent };
  const result = await settings.children.run({
    ...command,
    env: { ...command.env, ...batchVariables, ...variables, ...traceVariables },
    uid: settings.actor?.uid,
    givesWay,
    timeoutMs: getTimeLimitMs(hook, settings.hookTimeoutMs),
    signal,
    // The log receives each line when it is written; nothing else needs stdout.
    stdoutLimit: 0,
    redact: hide,
    onLine: (stream, line) => log.writeLine(stream, line),
  });
  log.flush();
  if (result.leftPids !== undefined)
    logger
      .child(request.fields)
      .warn("The hook left processes in the background; they run until the operator stops", {
        pids: result.leftPids.join(" "),
      });
  return result;
}

/**
 * Working directory and environment of a hook or script, in every phase. Sets WORKING_DIR, if the operator's own environment
 * `env` does not, to the configured directory, else to `root`: the hooks directory of a hook, the modules directory of a script.
 */
export function buildStartOptions(
  path: string,
  root: string,
  { env, workingDir, hookWorkingDir }: StartSettings,
): Pick<RunRequest, "cwd" | "env"> {
  const cwd = hookWorkingDir === "own" ? dirname(path) : process.cwd();
  return { cwd, env: { WORKING_DIR: workingDir ?? root, ...env } };
}

/** The command of a hook file. Hooks that end in `.py` use the virtual environment `venv` of their hooks directory, if it exists. */
export async function buildCommand(
  { path, root }: HookFile,
  args: readonly string[],
  settings: StartSettings,
): Promise<Pick<RunRequest, "file" | "args" | "cwd" | "env">> {
  const python = path.endsWith(".py") ? await findVenvPython(root) : undefined;
  const program = python === undefined ? { file: path, args } : { file: python, args: [path, ...args] };
  return { ...program, ...buildStartOptions(path, root, settings) };
}

/** Path of Python in the virtual environment of a hooks directory; undefined if it does not exist. */
async function findVenvPython(root: string): Promise<string | undefined> {
  const python = join(root, "venv", "bin", "python3");
  return access(python, constants.X_OK)
    .then(() => python)
    .catch(() => undefined);
}

/** Reads and checks all output files of a hook; throws OutputError, which names the variable of the bad file. */
async function readOutputs(scratch: ScratchDir): Promise<HookOutput> {
  const readText = (variable: OutputVariable): Promise<string> =>
    withVariableName(variable, async () => {
      const text = await scratch.read(OUTPUT_FILES[variable]);
      await requireFewValues(text, variable === "METRICS_PATH" ? MOST_METRIC_VALUES : MOST_VALUES);
      return text;
    });
  const [configPatchText, valuesPatchText, metrics, objects, admission, conversion] = await Promise.all([
    readText("CONFIG_VALUES_JSON_PATCH_PATH"),
    readText("VALUES_JSON_PATCH_PATH"),
    readText("METRICS_PATH"),
    readText("KUBERNETES_PATCH_PATH"),
    readText("ADMISSION_RESPONSE_PATH"),
    readText("CONVERSION_RESPONSE_PATH"),
  ]);
  return {
    configPatchText,
    valuesPatchText,
    metrics: await withVariableName("METRICS_PATH", () => parseMetrics(metrics)),
    objects: await withVariableName("KUBERNETES_PATCH_PATH", () => parseObjectOperations(objects)),
    answers: {
      admission: await withVariableName("ADMISSION_RESPONSE_PATH", () => parseAdmission(admission)),
      conversion: await withVariableName("CONVERSION_RESPONSE_PATH", () => parseConversion(conversion)),
    },
  };
}

/** Calls `read`; errors name the environment variable of the output file that is invalid. */
async function withVariableName<T>(variable: OutputVariable, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const remedy = "nothing of this run takes effect; correct what the hook writes there";
    throw new OutputError(`the file at ${variable} is refused: ${oneLine(error)} (${remedy})`);
  }
}
