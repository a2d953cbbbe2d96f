/** The sub-command `hook run`. */

import { basename, resolve } from "node:path";

import { childEnvironment, type Environment, type Settings } from "../config.ts";
import { hookEnvironment, hookFileAt, hookOffline } from "../hooks/index.ts";
import type { HookOutput, OfflineRun } from "../hooks/index.ts";
import { oneLine, toYaml } from "../lib/index.ts";
import { camelCase, ProblemError, type BatchItem, type Json } from "../model/index.ts";
import { parseDocument, parsePatches, type PatchRules } from "../values/index.ts";
import { readGiven, scoped, stderrLogger, type Printed } from "./surroundings.ts";

/** Files given to `hook run`; values may be YAML or JSON, with `global` and the module's section. */
export interface HookFiles {
  readonly path: string;
  /** Which hook of a batch file: its number, or `ready`. */
  readonly item: string | undefined;
  readonly context: string;
  readonly values: string | undefined;
  readonly configValues: string | undefined;
}

/**
 * Runs one hook and prints as YAML what it would change; nothing is applied. Throws ProblemError for files it
 * cannot read.
 */
export async function runHookOffline(
  files: HookFiles,
  settings: Settings,
  env: Environment,
): Promise<Printed> {
  const [context, values, configValues] = await Promise.all([
    readGiven(files.context),
    readValues(files.values),
    readValues(files.configValues),
  ]);
  const path = resolve(files.path);
  const request = {
    path,
    module: moduleAt(path),
    item: itemOf(files.item),
    context,
    values,
    configValues,
    settings: { ...settings, env: hookEnvironment(childEnvironment(env, settings)) },
    logger: stderrLogger(settings),
  };
  return scoped(() => runAndTell(request));
}

function itemOf(text: string | undefined): BatchItem | undefined {
  if (text === undefined || text === "ready") return text;
  if (/^\d+$/.test(text)) return Number(text);
  throw new ProblemError([
    {
      file: "--item",
      message: `"${text}" is neither a number nor ready`,
      remedy: "give one that `hook list` names",
    },
  ]);
}

async function runAndTell(request: OfflineRun): Promise<Printed> {
  try {
    const { failure, output } = await hookOffline(request);
    if (output === undefined) return failed(failure ?? "it left nothing");
    return { text: toYaml(changesOf(output, rulesOf(request))), code: 0 };
  } catch (error) {
    return failed(oneLine(error));
  }
}

function failed(failure: string): Printed {
  return { text: toYaml({ failure }), code: 1 };
}

/** Throws PatchError for a patch that would fail the hook. */
function changesOf(output: HookOutput, rules: PatchRules): Json {
  const texts = { config: output.configPatchText, values: output.valuesPatchText };
  const { config, values } = parsePatches(texts, rules);
  const warnings = [...config.warnings, ...values.warnings];
  const flags = Object.fromEntries([...config.flags, ...values.flags].map(([key, on]) => [key, on ?? null]));
  return {
    configValuesPatch: config.operations as unknown as Json,
    valuesPatch: values.operations as unknown as Json,
    ...(Object.keys(flags).length === 0 ? {} : { flags }),
    objects: output.objects as unknown as Json,
    metrics: output.metrics as unknown as Json,
    ...(warnings.length === 0 ? {} : { warnings }),
  };
}

/** A hook below `<number>-<module>/hooks` is a module's, any other one is global. */
function moduleAt(path: string): string | undefined {
  const { root } = hookFileAt(path);
  const owner = basename(root) === "hooks" ? basename(resolve(root, "..")) : "";
  return /^\d+-(.+)$/.exec(owner)?.[1];
}

function rulesOf({ module }: OfflineRun): PatchRules {
  return module === undefined ? { kind: "global" } : { kind: "module", valuesKey: camelCase(module) };
}

async function readValues(file: string | undefined): Promise<string> {
  if (file === undefined) return "{}";
  return JSON.stringify(parseDocument(await readGiven(file), file).value ?? {});
}
