/** Runs a hook: what it is given, how it is started, what it leaves (docs/HOOKS.md, "Running: what a hook is given"). */

import { access, constants } from "node:fs/promises";
import { dirname, join } from "node:path";

import { Items, JsonText, contextOf, itemMembers, type Members, type Snapshots } from "../bindings/index.ts";
import { oneLine, type LogFields, type Logger } from "../lib/index.ts";
import type { Hook, HookFile, HookTrigger, SnapshotItem } from "../model/index.ts";
import { Scratch, run, type RunRequest, type RunResult, type ScratchData } from "../process/index.ts";
import { argumentsOf, batchEnvironment, failureOf, timeLimit } from "./batch.ts";
import { traceParent } from "../trace/index.ts";
import { LeftoverError, noteHookSpans, parseMetrics, readOutput } from "./answer/leftovers.ts";
import type { MetricOperation } from "./answer/leftovers.ts";
import { parseObjectOperations, type ObjectOperation } from "./answer/object-operations.ts";
import { OutputLog } from "./answer/output-log.ts";

/** Where hooks and scripts are started, and with which environment. */
export interface StartSettings {
  /** The operator's own. */
  readonly env: Readonly<Record<string, string>>;
  /** `--working-dir`. */
  readonly workingDir: string | undefined;
  /** `--hook-working-dir`: the operator's working directory (the default), or the file's own directory. */
  readonly hookWorkingDir?: "operator" | "own" | undefined;
  /** Makes what `env` names, before each start. */
  readonly prepare?: (() => Promise<void>) | undefined;
}

/** What all runs share. */
export interface RunSettings extends StartSettings {
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

/** What a successful run left; nothing of it is applied yet. Patches of values are read where values are. */
export interface HookOutput {
  readonly configPatchText: string;
  readonly valuesPatchText: string;
  readonly metrics: readonly MetricOperation[];
  readonly objects: readonly ObjectOperation[];
}

/** Output files, by the variable that names them to the hook. */
const OUTPUT_FILES = {
  CONFIG_VALUES_JSON_PATCH_PATH: "config-values-patch.json",
  VALUES_JSON_PATCH_PATH: "values-patch.json",
  METRICS_PATH: "metrics.json",
  KUBERNETES_PATCH_PATH: "kubernetes-patch.json",
  SPANS_PATH: "spans.json",
} as const;
type OutputVariable = keyof typeof OUTPUT_FILES;

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
  readonly hook: HookFile & Pick<Hook, "id" | "module" | "item">;
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
    if (result.outcome !== "succeeded") return { failure: failureOf(request.hook, result) };
    return { output: await readLeftovers(scratch) };
  });
  return { result, ...end };
}

/** Works with a private directory that goes afterwards. Never throws: what went wrong is the `failure`. */
export async function inScratch<T>(
  { tmpDir, debugKeepTmpFiles, prepare }: RunSettings,
  name: string,
  work: (scratch: Scratch) => Promise<T>,
): Promise<T | { failure: string }> {
  let scratch: Scratch | undefined;
  try {
    scratch = await Scratch.open(tmpDir, name, { keep: debugKeepTmpFiles });
    await prepare?.();
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
  const command = await commandOf(hook, argumentsOf(hook), settings);
  const own = hook.item === undefined ? {} : batchEnvironment(hook.module);
  const result = await run({
    ...command,
    env: { ...command.env, ...own, ...variables, ...(parent === undefined ? {} : { TRACEPARENT: parent }) },
    timeoutMs: timeLimit(hook, settings.hookTimeoutMs),
    signal,
    // Every line goes to the log; stdout is needed for nothing else.
    stdoutLimit: 0,
    onLine: (stream, line) => log.line(stream, line),
  });
  log.flush();
  return result;
}

/** Reads and checks all that a hook left; throws LeftoverError, which names the variable of the bad file. */
async function readLeftovers(scratch: Scratch): Promise<HookOutput> {
  const text = (variable: OutputVariable): Promise<string> =>
    about(variable, () => readOutput(scratch.path(OUTPUT_FILES[variable])));
  const [configPatchText, valuesPatchText, metrics, objects] = await Promise.all([
    text("CONFIG_VALUES_JSON_PATCH_PATH"),
    text("VALUES_JSON_PATCH_PATH"),
    text("METRICS_PATH"),
    text("KUBERNETES_PATCH_PATH"),
  ]);
  return {
    configPatchText,
    valuesPatchText,
    metrics: await about("METRICS_PATH", () => parseMetrics(metrics)),
    objects: await about("KUBERNETES_PATCH_PATH", () => parseObjectOperations(objects)),
  };
}

async function about<T>(variable: OutputVariable, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const remedy = "nothing of this run takes effect; correct what the hook writes there";
    throw new LeftoverError(`the file at ${variable} is refused: ${oneLine(error)} (${remedy})`);
  }
}

/** What a binding context file is made of. */
type ContextInput = Pick<HookRunInput, "triggers" | "snapshots"> & Pick<Hook, "config">;

const PIECE = 64 * 1024;

/**
 * The binding context as JSON text in pieces of about 64 KiB: an array, keys in alphabetical order, a line end.
 * However large the snapshots are, no piece holds more than one item.
 */
export function* renderContext(input: ContextInput): Generator<string> {
  let pending = "";
  for (const text of contextTexts(input)) {
    pending += text;
    if (pending.length < PIECE) continue;
    yield pending;
    pending = "";
  }
  yield pending;
}

function* contextTexts({ config, triggers, snapshots }: ContextInput): Generator<string> {
  const read = onceEach(snapshots);
  yield "[";
  for (const [index, trigger] of triggers.entries()) {
    if (index > 0) yield ",";
    const members = Object.entries(contextOf(trigger, config, read));
    yield* objectTexts(members.sort(([a], [b]) => (a < b ? -1 : 1)));
  }
  yield "]\n";
}

/** Keeps what was read: in one run the same name means the same array in every context. */
function onceEach(snapshots: Snapshots): Snapshots {
  const seen = new Map<string, readonly SnapshotItem[]>();
  const once = (key: string, read: () => readonly SnapshotItem[]): readonly SnapshotItem[] => {
    const items = seen.get(key) ?? read();
    seen.set(key, items);
    return items;
  };
  return {
    get: (name) => once(`name ${name}`, () => snapshots.get(name)),
    objects: (id) => once(`id ${id}`, () => snapshots.objects(id)),
  };
}

function* objectTexts(members: Iterable<readonly [string, Members[string]]>): Generator<string> {
  let separator = "{";
  for (const [key, value] of members) {
    yield `${separator}${JSON.stringify(key)}:`;
    yield* valueTexts(value);
    separator = ",";
  }
  yield separator === "{" ? "{}" : "}";
}

function* valueTexts(value: Members[string]): Generator<string> {
  if (value instanceof Map) yield* objectTexts(value);
  else if (value instanceof Items) yield* itemTexts(value.list);
  else if (value instanceof JsonText) yield utf8(value.bytes);
  else yield JSON.stringify(value);
}

function utf8({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("utf8");
}

function* itemTexts(items: readonly SnapshotItem[]): Generator<string> {
  let separator = "[";
  for (const item of items) {
    yield separator;
    yield* objectTexts(itemMembers(item));
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}

/**
 * Working directory and environment of a hook or script, in every phase. WORKING_DIR stays as the operator's environment
 * has it; else it is the configured directory, else `root`.
 */
export function startOf(
  path: string,
  root: string,
  { env, workingDir, hookWorkingDir }: StartSettings,
): Pick<RunRequest, "cwd" | "env"> {
  const cwd = hookWorkingDir === "own" ? dirname(path) : process.cwd();
  return { cwd, env: { WORKING_DIR: workingDir ?? root, ...env } };
}

/**
 * The command of a hook file. Hooks that end in `.py` use the virtual environment `venv` of their hooks directory where
 * there is one.
 */
export async function commandOf(
  { path, root }: HookFile,
  args: readonly string[],
  settings: StartSettings,
): Promise<Pick<RunRequest, "file" | "args" | "cwd" | "env">> {
  const python = path.endsWith(".py") ? await venvPython(root) : undefined;
  const program = python === undefined ? { file: path, args } : { file: python, args: [path, ...args] };
  return { ...program, ...startOf(path, root, settings) };
}

async function venvPython(root: string): Promise<string | undefined> {
  const python = join(root, "venv", "bin", "python3");
  return access(python, constants.X_OK)
    .then(() => python)
    .catch(() => undefined);
}
