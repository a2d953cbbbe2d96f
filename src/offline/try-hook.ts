/** The sub-command `hook run`. */

import { basename, dirname, resolve } from "node:path";

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { hookEnvironment, toHookFile, runHookFileOffline, lintHook } from "../hooks/index.ts";
import type { HookOutput, OfflineRun } from "../hooks/index.ts";
import { oneLine, pointerOf, toYaml } from "../lib/index.ts";
import { camelCase, describeProblem, GLOBAL, member, ProblemError } from "../model/index.ts";
import type { BatchItem, Hook, Json, JsonObject, Module } from "../model/index.ts";
import type { ReviewTrigger, Section, Tree } from "../model/index.ts";
import { answerProblem, describeForbiddenEffect } from "../tasks/index.ts";
import { describeViolations, invalidValues, merge, parseMap } from "../values/index.ts";
import { parsePatches, validatePatches, valuesFiles } from "../values/index.ts";
import type { PatchRules, ValuesStore } from "../values/index.ts";
import { valuesFrom } from "./charts.ts";
import { reviewContext, type OfflineReview } from "./review-context.ts";
import {
  hookLoadOptions,
  readTextFile,
  readHookOwner,
  readOptions,
  withScope,
  stderrLogger,
} from "./shared.ts";
import type { CommandResult } from "./shared.ts";

/** The arguments of `hook run`. Values are YAML or JSON with `global` and the module's section. */
export interface HookFiles {
  readonly path: string;
  /** The hook of a batch file: its number, or `ready`. */
  readonly item: string | undefined;
  readonly context: string | undefined;
  /** File with an AdmissionReview or ConversionReview, instead of a context. */
  readonly review: string | undefined;
  /** Name of the webhook binding that gets the review. */
  readonly binding: string | undefined;
  readonly values: string | undefined;
  readonly configValues: string | undefined;
}

/**
 * Runs one hook as the operator would, with the same checks of configuration, values and patches, and prints as YAML what
 * it would change. Applies nothing. Throws ProblemError for unreadable files, and for values with which the operator would
 * not run the hook.
 */
export async function runHookOffline(
  files: HookFiles,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  const path = resolve(files.path);
  const owner = ownerOf(path);
  const item = parseItem(files.item);
  const input = await readTextFile(files.context ?? files.review ?? "");
  return withScope(async (scope, children) => {
    const tree = await readHookOwner(owner.dir, owner.module !== undefined, readOptions(settings, scope));
    const values = await readHookValues(files, tree);
    const [module] = tree.modules;
    checkValues(values, module);
    const { hooks, problems } = await lintHook(
      toHookFile(path),
      owner.module,
      hookLoadOptions(settings, env, { scope, children }),
    );
    if (problems.length > 0) return failureResult(problems.map(describeProblem).join("\n"));
    const review = reviewIn(files, hooks, input);
    const request = {
      path,
      module: owner.module,
      item,
      context: review?.context ?? input,
      ...valuesFiles(values, module, undefined),
      settings: { ...settings, children, env: hookEnvironment(childEnvironment(env, settings)) },
      logger: stderrLogger(settings),
    };
    return runAndReport(request, values, review?.trigger);
  });
}

/** The review in the file, if it is one. Throws ProblemError. */
function reviewIn(
  { review: file, binding }: HookFiles,
  hooks: readonly Hook[],
  input: string,
): OfflineReview | undefined {
  return file === undefined
    ? undefined
    : reviewContext(hooks, parseMap(input, file).value, { file, binding });
}

/** A hook below `<number>-<module>/hooks` belongs to the module; any other hook is global. */
function ownerOf(path: string): { readonly dir: string; readonly module: string | undefined } {
  const { root } = toHookFile(path);
  if (basename(root) !== "hooks") return { dir: root, module: undefined };
  const dir = dirname(root);
  return { dir, module: /^\d+-(.+)$/.exec(basename(dir))?.[1] };
}

/**
 * The values of `tree`, with `--config-values` as the ConfigMap. `--values` has the highest priority: it overrides values
 * files, and as a hook patch also the ConfigMap.
 */
async function readHookValues(files: HookFiles, tree: Tree): Promise<ValuesStore> {
  const [given, config] = await Promise.all([readValues(files.values), readValues(files.configValues)]);
  const withGiven = (section: Section | undefined, key: string): Section | undefined =>
    merge(section, member(given, key)) as Section | undefined;
  const modules = tree.modules.map((module) => ({
    ...module,
    own: { ...module.own, section: withGiven(module.own.section, module.valuesKey) },
  }));
  const globalValues = withGiven(tree.globalValues, GLOBAL) as JsonObject;
  const values = valuesFrom({ ...tree, modules, globalValues }, { file: "--config-values", config });
  for (const key of Object.keys(given)) {
    const value = withGiven(values.merged(key).values, key) ?? {};
    values.addPatches(key, [{ op: "add", path: pointerOf([key]), value }]);
  }
  return values;
}

/** Throws ProblemError for values with which the operator would not run the hook. */
function checkValues(values: ValuesStore, module: Module | undefined): void {
  const violations = values.schemas(GLOBAL).validateConfig(values.merged(GLOBAL).config);
  if (violations.length > 0)
    throw new ProblemError({
      file: "global values",
      message: describeViolations(values.written(GLOBAL), violations),
    });
  const problem = module && invalidValues(values, module);
  if (problem !== undefined) throw new ProblemError(problem);
}

/** Parses `--item`. Throws ProblemError. */
function parseItem(text: string | undefined): BatchItem | undefined {
  if (text === undefined || text === "ready") return text;
  if (/^\d+$/.test(text)) return Number(text);
  throw new ProblemError({
    file: "--item",
    message: `"${text}" is neither a number nor ready`,
    remedy: "use a number that `hook list` prints",
  });
}

/** Runs the hook and reports its changes. A failure of the hook is a result with exit code 1. */
async function runAndReport(
  request: OfflineRun,
  values: ValuesStore,
  review: ReviewTrigger | undefined,
): Promise<CommandResult> {
  try {
    const { failure, output } = await runHookFileOffline(request);
    if (output === undefined) return failureResult(failure ?? "the hook produced no output");
    const changes = changesOf(output, { request, known: values, review });
    return { text: toYaml(changes), code: 0 };
  } catch (error) {
    return failureResult(oneLine(error));
  }
}

function failureResult(failure: string): CommandResult {
  return { text: toYaml({ failure }), code: 1 };
}

/** What the operator needs to check the output of a hook. */
interface OutputContext {
  readonly request: OfflineRun;
  readonly known: ValuesStore;
  /** What the hook answers. */
  readonly review: ReviewTrigger | undefined;
}

/** The changes of a hook. Throws for patches and answers that the operator would refuse. */
function changesOf(output: HookOutput, { request, known, review }: OutputContext): Json {
  const texts = { config: output.configPatchText, values: output.valuesPatchText };
  const rules = patchRules(request);
  const patches = validatePatches(
    known.patchTarget(rules.kind === "global" ? GLOBAL : rules.valuesKey),
    texts,
  );
  const refused =
    review &&
    (describeForbiddenEffect(review.binding, patches, output.answers) ??
      answerProblem({ name: toHookFile(request.path).name }, review, output.answers));
  if (refused !== undefined) throw new Error(refused);
  const { config, values } = parsePatches(texts, rules);
  const warnings = [...config.warnings, ...values.warnings];
  const flags = Object.fromEntries([...config.flags, ...values.flags].map(([key, on]) => [key, on ?? null]));
  return {
    configValuesPatch: config.operations as unknown as Json,
    valuesPatch: values.operations as unknown as Json,
    ...(Object.keys(flags).length === 0 ? {} : { flags }),
    objects: output.objects as unknown as Json,
    metrics: output.metrics as unknown as Json,
    ...(output.answers as unknown as JsonObject),
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}

function patchRules({ module }: OfflineRun): PatchRules {
  return module === undefined ? { kind: "global" } : { kind: "module", valuesKey: camelCase(module) };
}

async function readValues(file: string | undefined): Promise<JsonObject> {
  return file === undefined ? {} : parseMap(await readTextFile(file), file).value;
}
