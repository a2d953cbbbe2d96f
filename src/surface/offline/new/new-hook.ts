/** The sub-command `new hook` and its templates: a hook that counts the watched objects, or else the enabled modules, in a metric. */

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Environment, Settings } from "../../../config/settings/index.ts";
import { parseHookConfig } from "../../../hooks/index.ts";
import { toYaml } from "../../../base/index.ts";
import { ProblemError, type JsonObject } from "../../../base/model/index.ts";
import { lintDirs } from "../lint.ts";
import { findModuleDir, type CommandResult } from "../shared.ts";

/** The arguments of `new hook`. */
export interface NewHookRequest {
  /** The name of the module or of its directory. */
  readonly module: string;
  readonly name: string;
  readonly language: Language;
  /** `KIND`, or `GROUP/VERSION/KIND`. */
  readonly onEvent?: string;
  /** A crontab. */
  readonly schedule?: string;
}

const NAME_PATTERN = /^[a-z0-9][a-z0-9_-]{0,62}$/;

/**
 * Writes a hook and a test for it, lints the module, and prints how to run the test. It writes both or neither: a draft in a
 * temporary directory is complete before it is moved. Throws ProblemError.
 */
export async function writeHook(
  wanted: NewHookRequest,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  const { dir, name: module } = findModuleDir(settings, wanted.module);
  const script = `${wanted.name}.${ENDINGS[wanted.language]}`;
  const hook = join(dir, "hooks", script);
  const test = join(dir, "tests", wanted.name);
  requireValidRequest(wanted, [hook, test]);
  const metric = `${module}_${wanted.name}`.replaceAll(/[^a-z0-9]/g, "_");
  const hookParts = {
    name: wanted.name,
    config: buildHookConfig(wanted),
    trigger: describeTrigger(wanted),
    metric,
    countsObjects: wanted.onEvent !== undefined,
  };
  const draft = mkdtempSync(join(dir, ".new-"));
  try {
    const renderHook = wanted.language === "bash" ? renderShellHook : renderPythonHook;
    writeFileSync(join(draft, "hook"), renderHook(hookParts), { mode: 0o777 });
    mkdirSync(join(draft, "test"));
    const files = renderTestFiles({ ...hookParts, script });
    for (const [file, text] of Object.entries(files)) writeFileSync(join(draft, "test", file), text);
    for (const path of [hook, test]) mkdirSync(dirname(path), { recursive: true });
    renameSync(join(draft, "test"), test);
    renameSync(join(draft, "hook"), hook);
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
  const linted = await lintDirs({ dirs: [dir] }, settings, env);
  return { text: `${linted.text}${hook}: written. Test it:\n  sh ${test}/test.sh\n`, code: linted.code };
}

/** Throws ProblemError for an invalid name, trigger or flags, and if a file exists already. */
function requireValidRequest(wanted: NewHookRequest, paths: readonly string[]): void {
  const { name, onEvent, schedule } = wanted;
  const refuse = (file: string, message: string, remedy: string): never => {
    throw new ProblemError({ file, message, remedy });
  };
  const [hook = name] = paths;
  const nameRemedy = "use lower-case letters, digits, dashes and underscores";
  if (!NAME_PATTERN.test(name)) refuse(hook, `"${name}" is not a valid name of a hook`, nameRemedy);
  if (onEvent === "" || onEvent?.endsWith("/") === true)
    refuse(hook, `--on-event: "${onEvent}" names no kind`, "name one, such as apps/v1/Deployment");
  if (onEvent !== undefined && schedule !== undefined)
    refuse(hook, "--on-event and --schedule exclude each other", "set one of them");
  const existing = paths.find((path) => existsSync(path));
  if (existing !== undefined) refuse(existing, "already exists", "choose another name");
  const parsed = parseHookConfig(toYaml(buildHookConfig(wanted)), "module");
  if ("errors" in parsed) refuse(hook, parsed.errors.join("; "), "correct --on-event or --schedule");
}

/** The configuration of the hook: a schedule, a watch of objects, or by default `beforeHelm`. */
function buildHookConfig({ onEvent, schedule, name }: NewHookRequest): JsonObject {
  if (schedule !== undefined) return { configVersion: "v1", schedule: [{ name, crontab: schedule }] };
  if (onEvent === undefined) return { configVersion: "v1", beforeHelm: 10 };
  const slash = onEvent.lastIndexOf("/");
  const binding = {
    name: "objects",
    ...(slash < 0 ? {} : { apiVersion: onEvent.slice(0, slash) }),
    kind: onEvent.slice(slash + 1),
    jqFilter: ".metadata.name",
    keepFullObjectsInMemory: false,
    includeSnapshotsFrom: ["objects"],
  };
  return { configVersion: "v1", kubernetes: [binding] };
}

/** A sentence for the hook's comment about when it runs. */
function describeTrigger({ onEvent, schedule }: NewHookRequest): string {
  if (schedule !== undefined) return `Runs on a schedule: ${schedule}`;
  return onEvent === undefined
    ? "Runs before each run of the module's chart"
    : `Runs when a ${onEvent} is created, changed or deleted`;
}

type Language = "bash" | "python";

const ENDINGS: Readonly<Record<Language, string>> = { bash: "sh", python: "py" };

/** The variable parts of a hook. */
interface HookParts {
  /** The name of the hook, and of its schedule. */
  readonly name: string;
  readonly config: JsonObject;
  /** A sentence about when it runs. */
  readonly trigger: string;
  /** The name of its metric. */
  readonly metric: string;
  /** The hook counts the watched objects; otherwise it counts enabled modules. */
  readonly countsObjects: boolean;
}

/** The text of a hook in POSIX sh, which runs in bash and busybox. */
function renderShellHook({ config, trigger, metric, countsObjects }: HookParts): string {
  const count = countsObjects
    ? `count="$(jq '.[-1].snapshots.objects | length' "$BINDING_CONTEXT_PATH")"`
    : `count="$(jq '.global.enabledModules | length' "$VALUES_PATH")"`;
  return `#!/bin/sh
# ${trigger}.
set -eu

if [ "\${1:-}" = --config ]; then
  cat <<'END'
${toYaml(config).trimEnd()}
END
  exit 0
fi

# What happened is in $BINDING_CONTEXT_PATH, the values are in $VALUES_PATH; both are JSON.
${count}

# A value for the chart would go into $VALUES_JSON_PATCH_PATH: {"op": "add", "path": "/moduleName/key", "value": 1}
jq -n -c --argjson count "$count" '{name: "${metric}", set: $count}' >"$METRICS_PATH"
`;
}

function renderPythonHook({ config, trigger, metric, countsObjects }: HookParts): string {
  const count = countsObjects
    ? `count = len(read("BINDING_CONTEXT_PATH")[-1]["snapshots"]["objects"])`
    : `count = len(read("VALUES_PATH")["global"]["enabledModules"])`;
  return `#!/usr/bin/env python3
# ${trigger}.
import json
import os
import sys

CONFIG = """
${toYaml(config).trimEnd()}
"""


def read(name):
    with open(os.environ[name], encoding="utf-8") as file:
        return json.load(file)


def write(name, *lines):
    with open(os.environ[name], "a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\\n" for line in lines)


if "--config" in sys.argv[1:]:
    print(CONFIG)
    sys.exit()

# What happened is in BINDING_CONTEXT_PATH, the values are in VALUES_PATH.
${count}

# A value for the chart: write("VALUES_JSON_PATCH_PATH", {"op": "add", "path": "/moduleName/key", "value": 1})
write("METRICS_PATH", {"name": "${metric}", "set": count})
`;
}

/** The files of the hook's test by name: its input, the expected output, and a script that compares them. */
function renderTestFiles(parts: HookParts & { readonly script: string }): Record<string, string> {
  const { name, metric, countsObjects, config, script } = parts;
  const snapshots = { objects: [{ filterResult: "one" }, { filterResult: "two" }] };
  const binding = config["schedule"] === undefined ? "beforeHelm" : name;
  const context = countsObjects ? { binding: "objects", type: "Synchronization", snapshots } : { binding };
  const values = { global: { enabledModules: ["one", "two"] } };
  const metrics = [{ name: metric, value: 2, labels: {}, action: "set" }];
  const expected = { configValuesPatch: [], valuesPatch: [], objects: [], metrics };
  return {
    "context.json": `${JSON.stringify([context], undefined, 2)}\n`,
    "values.yaml": toYaml(values),
    "expected.yaml": toYaml(expected),
    "test.sh": `#!/bin/sh
# Runs the hook with the files beside this one, and compares what it leaves with expected.yaml.
set -eu
cd "$(dirname "$0")"
left="$("\${ADDON_OPERATOR:-addon-operator}" hook run ../../hooks/${script} --context context.json --values values.yaml || true)"
echo "$left" | diff -u expected.yaml - && echo ok
`,
  };
}
