/** The texts of a new hook and of its test. */

import { toYaml } from "../../lib/index.ts";
import type { JsonObject } from "../../model/index.ts";

/** What the sub-command `new hook` can write in. */
export type Language = "bash" | "python";

export const ENDINGS: Readonly<Record<Language, string>> = { bash: "sh", python: "py" };

/** What a hook is written from. */
interface HookParts {
  readonly config: JsonObject;
  /** A sentence that says when it runs. */
  readonly what: string;
  /** Name of the metric that it sets. */
  readonly metric: string;
  /** It counts objects; else the modules that are on. */
  readonly byEvent: boolean;
}

/** A hook that sets one metric. */
export function hookText(language: Language, parts: HookParts): string {
  return language === "bash" ? shellText(parts) : pythonText(parts);
}

/** Plain sh: bash and busybox both run it. */
function shellText({ config, what, metric, byEvent }: HookParts): string {
  const count = byEvent
    ? `count="$(jq '.[-1].snapshots.objects | length' "$BINDING_CONTEXT_PATH")"`
    : `count="$(jq '.global.enabledModules | length' "$VALUES_PATH")"`;
  return `#!/bin/sh
# ${what}.
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

function pythonText({ config, what, metric, byEvent }: HookParts): string {
  const count = byEvent
    ? `count = len(read("BINDING_CONTEXT_PATH")[-1]["snapshots"]["objects"])`
    : `count = len(read("VALUES_PATH")["global"]["enabledModules"])`;
  return `#!/usr/bin/env python3
# ${what}.
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

/** The files of the test: what the hook is given, what it is to leave, and a script that compares. */
export function testText(parts: HookParts & { readonly script: string }): Record<string, string> {
  const { metric, byEvent, config, script } = parts;
  const snapshots = { objects: [{ filterResult: "one" }, { filterResult: "two" }] };
  const binding = config["schedule"] === undefined ? "beforeHelm" : "schedule";
  const context = byEvent ? { binding: "objects", type: "Synchronization", snapshots } : { binding };
  const values = { global: { enabledModules: ["one", "two"] } };
  const metrics = [{ name: metric, value: 2, labels: {}, action: "set" }];
  const left = { configValuesPatch: [], valuesPatch: [], objects: [], metrics };
  return {
    "context.json": `${JSON.stringify([context], undefined, 2)}\n`,
    "values.yaml": toYaml(values),
    "expected.yaml": toYaml(left),
    "test.sh": `#!/bin/sh
# Runs the hook with the files beside this one, and compares what it leaves with expected.yaml.
set -eu
cd "$(dirname "$0")"
left="$("\${ADDON_OPERATOR:-addon-operator}" hook run ../../hooks/${script} --context context.json --values values.yaml || true)"
echo "$left" | diff -u expected.yaml - && echo ok
`,
  };
}
