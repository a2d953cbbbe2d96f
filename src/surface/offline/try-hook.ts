/**
 * The sub-command `hook run`, which runs a hook without a cluster and prints what it would change. A `review` is an
 * AdmissionReview or ConversionReview in a file, in place of the binding context, for a hook with webhook bindings.
 */

import { basename, dirname, resolve } from "node:path";

import type { Environment, Settings } from "../../config/settings/index.ts";
import { listBindings, isReviewBinding, renderContext } from "../../hooks/bindings/index.ts";
import { toHookFile, runHookFileOffline, lintHook } from "../../hooks/index.ts";
import type { HookOutput, OfflineRun } from "../../hooks/index.ts";
import { oneLine, toPointer, toYaml } from "../../base/index.ts";
import {
  asString,
  camelCase,
  describeProblem,
  GLOBAL,
  isJsonObject,
  member,
  objectsIn,
  ProblemError,
  merge,
} from "../../base/model/index.ts";
import type { BatchItem, Hook, Json, JsonObject, Module } from "../../base/model/index.ts";
import type { ReviewTrigger, Section, Tree } from "../../base/model/index.ts";
import { answerProblem, conversionPath, describeForbiddenEffect } from "../../engine/tasks/index.ts";
import { describeViolations, explainInvalidValues, parseMap } from "../../values/index.ts";
import { parsePatches, validatePatches, buildValuesFiles } from "../../values/index.ts";
import type { ValuesStore } from "../../values/index.ts";
import { buildValuesStore, readValuesFile } from "./charts.ts";
import {
  buildOfflineHookEnvironment,
  hookLoadOptions,
  readTextFile,
  readHookOwner,
  withTools,
  stderrLogger,
} from "./shared.ts";
import type { CommandResult } from "./shared.ts";

/** The arguments of `hook run`. Values are YAML or JSON with `global` and the module's section. */
export interface HookRunArguments {
  readonly path: string;
  /** The hook of a batch file: its number, or `ready`. */
  readonly item?: string;
  readonly context?: string;
  /** File with an AdmissionReview or ConversionReview, instead of a context. */
  readonly review?: string;
  /** Name of the webhook binding that gets the review. */
  readonly binding?: string;
  readonly values?: string;
  readonly configValues?: string;
}

/**
 * Runs one hook as the operator would, with the same checks of configuration, values and patches, and prints as YAML what
 * it would change. Applies nothing. Throws ProblemError for unreadable files, and for values with which the operator would
 * not run the hook.
 */
export async function runHookOffline(
  files: HookRunArguments,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  const path = resolve(files.path);
  const owner = findHookOwner(path);
  const { binding, review: reviewFile } = files;
  const item = parseItem(files.item);
  // The command line requires one of the two.
  const input = await readTextFile(files.context ?? reviewFile ?? "");
  return withTools(settings, env, async (tools) => {
    const tree = await readHookOwner(owner.dir, owner.module !== undefined, tools);
    const values = await readHookValues(files, tree);
    const [module] = tree.modules;
    requireValidValues(values, module);
    const { hooks, problems } = await lintHook(toHookFile(path), owner.module, hookLoadOptions(tools));
    if (problems.length > 0) return toFailureResult(problems.map(describeProblem).join("\n"));
    const review =
      reviewFile === undefined
        ? undefined
        : buildReviewContext(hooks, parseMap(input, reviewFile).value, { file: reviewFile, binding });
    const request = {
      path,
      module: owner.module,
      item,
      context: review?.context ?? input,
      bindings: hooks.flatMap(({ config }) => listBindings(config).map(({ name }) => name)),
      ...buildValuesFiles(values, module, undefined),
      settings: {
        ...settings,
        children: tools.children,
        env: buildOfflineHookEnvironment(tools),
      },
      logger: stderrLogger(settings),
    };
    return runAndReport(request, values, review?.trigger);
  });
}

/** Finds the owner of a hook by its path: a hook below `<number>-<module>/hooks` belongs to the module, any other is global. */
function findHookOwner(path: string): { readonly dir: string; readonly module: string | undefined } {
  const { root } = toHookFile(path);
  if (basename(root) !== "hooks") return { dir: root, module: undefined };
  const dir = dirname(root);
  return { dir, module: /^\d+-(.+)$/.exec(basename(dir))?.[1] };
}

/**
 * The values of `tree`, with `--config-values` as the ConfigMap. `--values` has the highest priority: it overrides values
 * files, so that they are valid with it, and as the patch of an earlier hook also the ConfigMap.
 */
async function readHookValues(files: HookRunArguments, tree: Tree): Promise<ValuesStore> {
  const overrides = await readValuesFile(files.values);
  const config = await readValuesFile(files.configValues);
  const overrideSection = (section: Section | undefined, key: string): Section | undefined =>
    merge(section, member(overrides, key)) as Section | undefined;
  const modules = tree.modules.map((module) => ({
    ...module,
    own: { ...module.own, section: overrideSection(module.own.section, module.valuesKey) },
  }));
  const globalValues = overrideSection(tree.globalValues, GLOBAL) as JsonObject;
  const values = buildValuesStore({ ...tree, modules, globalValues }, { file: "--config-values", config });
  for (const key of Object.keys(overrides)) {
    const value = overrideSection(values.mergedSection(key).values, key) ?? {};
    values.addPatches(key, [{ op: "add", path: toPointer([key]), value }]);
  }
  return values;
}

/** Throws ProblemError for values with which the operator would not run the hook. */
function requireValidValues(values: ValuesStore, module: Module | undefined): void {
  const violations = values.schemas(GLOBAL).validateConfig(values.mergedSection(GLOBAL).config);
  if (violations.length > 0) {
    const message = describeViolations(values.sectionOrigins(GLOBAL), violations);
    throw new ProblemError({ file: "global values", message });
  }
  const problem = module && explainInvalidValues(values, module);
  if (problem !== undefined) throw new ProblemError(problem);
}

/** Parses `--item`, which selects a hook of a batch file, an executable with several hooks. Throws ProblemError. */
function parseItem(text: string | undefined): BatchItem | undefined {
  if (text === undefined || text === "ready") return text;
  if (/^\d+$/.test(text)) return Number(text);
  const message = `"${text}" is neither a number nor ready`;
  const remedy = "use a number that `hook list` prints";
  throw new ProblemError({ file: "--item", message, remedy });
}

/**
 * Runs the hook and reports its changes. A failure of the hook, and patches or answers that the operator would refuse, are a
 * result with exit code 1. `review` is the webhook request that the hook answers, if it does.
 */
async function runAndReport(
  request: OfflineRun,
  values: ValuesStore,
  review: ReviewTrigger | undefined,
): Promise<CommandResult> {
  try {
    const { failure, output } = await runHookFileOffline(request);
    if (output === undefined) return toFailureResult(failure ?? "the hook produced no output");
    const texts = { config: output.configPatchText, values: output.valuesPatchText };
    const key = request.module === undefined ? GLOBAL : camelCase(request.module);
    const patches = validatePatches(values, key, texts);
    if (review !== undefined) {
      const refusal =
        describeForbiddenEffect(review.binding, patches, output.answers) ??
        answerProblem(toHookFile(request.path), review, output.answers);
      if (refusal !== undefined) return toFailureResult(oneLine(refusal));
    }
    return { text: toYaml(describeChanges(output, parsePatches(texts, key))), code: 0 };
  } catch (error) {
    return toFailureResult(oneLine(error));
  }
}

/** The result of a hook that failed: its failure as YAML, and exit code 1. */
function toFailureResult(failure: string): CommandResult {
  return { text: toYaml({ failure }), code: 1 };
}

/** Describes what the output of a hook would change. `flags` are enabled flags of modules; null removes one. */
function describeChanges(output: HookOutput, { config, values }: ReturnType<typeof parsePatches>): Json {
  const warnings = [...config.warnings, ...values.warnings];
  const allFlags = [...config.flags, ...values.flags];
  const flags = Object.fromEntries(allFlags.map(([key, isEnabled]) => [key, isEnabled ?? null]));
  return {
    configValuesPatch: config.operations as unknown as Json,
    valuesPatch: values.operations as unknown as Json,
    ...(Object.keys(flags).length > 0 && { flags }),
    objects: output.objects as unknown as Json,
    metrics: output.metrics as unknown as Json,
    ...(output.answers as unknown as JsonObject),
    ...(warnings.length > 0 && { warnings }),
  };
}

/** A review for one of the bindings of a hook. */
export interface OfflineReview {
  readonly trigger: ReviewTrigger;
  /** The text of the binding context. */
  readonly context: string;
}

/**
 * Builds the binding context with which the matching webhook binding gets the review. `name` selects one of several bindings.
 * Throws ProblemError if none or several match.
 */
export function buildReviewContext(
  hooks: readonly Hook[],
  review: JsonObject,
  { file, binding: name }: { readonly file: string; readonly binding: string | undefined },
): OfflineReview {
  const { request } = review;
  const refuse = (message: string, remedy: string): never => {
    throw new ProblemError({ file, message, remedy });
  };
  if (!isJsonObject(request))
    return refuse("is no AdmissionReview or ConversionReview", "it needs `request`");
  // Only a ConversionReview has this field.
  const isConversion = "desiredAPIVersion" in request;
  const matches = hooks.flatMap((hook) =>
    listBindings(hook.config)
      .filter((binding) => isReviewBinding(binding))
      .filter(({ type }) => (type === "conversion") === isConversion)
      .filter((binding) => name === undefined || binding.name === name)
      .map((binding) => ({ hook, binding })),
  );
  const [match] = matches;
  if (match === undefined) return refuse("the hook has no webhook binding for it", "check --binding");
  if (matches.length > 1 && name === undefined) {
    const remedy = `choose one with --binding: ${matches.map(({ binding }) => binding.name).join(", ")}`;
    return refuse("several bindings of the hook could get it", remedy);
  }
  const { hook, binding } = match;
  const rule =
    binding.type === "conversion"
      ? (findFirstConversion(hook, request) ?? binding.conversions[0])
      : undefined;
  const trigger = { type: binding.type, binding, request, rule } as ReviewTrigger;
  // Without a cluster, there are no objects.
  const snapshots = { byBindingName: () => [], byBindingId: () => [] };
  const context = [...renderContext({ config: hook.config, triggers: [trigger], snapshots })].join("");
  return { trigger, context };
}

/**
 * The first conversion that a ConversionReview needs: the objects may have to pass several versions. Undefined if the hook's
 * conversions do not lead to the desired version.
 */
function findFirstConversion(hook: Hook, { objects, desiredAPIVersion }: JsonObject) {
  const conversions = hook.config.bindings.conversion.flatMap((binding) =>
    binding.conversions.map((rule) => ({ hook, binding, rule })),
  );
  const [firstObject] = objectsIn(objects);
  const fromVersion = asString(firstObject?.["apiVersion"]) ?? "";
  const path = conversionPath(conversions, fromVersion, asString(desiredAPIVersion) ?? "");
  return path?.[0]?.rule;
}
