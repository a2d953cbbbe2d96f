import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { expect, it } from "vitest";

import { HelmError } from "../../../src/helm/index.ts";
import { describeContentProblem } from "../../../src/sources/leader/check-content.ts";
import type { SourcesContext } from "../../../src/sources/context.ts";
import { ChartArchives, readTree } from "../../../src/modules/index.ts";
import type { RunResult } from "../../../src/base/process/index.ts";
import { State } from "../../../src/engine/state/index.ts";
import { parseConfigMap } from "../../../src/values/index.ts";
import { tempDir } from "../registry/artifact/lab.ts";
import { ManualClock } from "../../support/clock.ts";

const CHART = "apiVersion: v2\nname: a\nversion: 1.0.0\n";
const SCHEMA = "type: object\nproperties: {replicas: {type: integer}}\n";

function write(dir: string, files: Record<string, string>): string {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    writeFileSync(join(dir, path), text);
  }
  return dir;
}

interface Given {
  readonly loadHook?: SourcesContext["options"]["loadHook"];
  /** What helm says to the chart. */
  readonly renderError?: string;
  readonly files?: Record<string, string>;
}

/** What is wrong with content of the module `web`, with these values, while another module `webhook` has a schema. */
async function problemOf(
  data: Record<string, string>,
  { loadHook, renderError, files }: Given = {},
): Promise<string | undefined> {
  const clock = new ManualClock();
  const archives = new ChartArchives(tempDir());
  const read = (modulesDir: string): ReturnType<typeof readTree> =>
    readTree({
      modulesDirs: [modulesDir],
      globalHooksDir: undefined,
      unnumberedOrder: 1,
      strict: false,
      archives,
      clock,
    });
  const tree = await read(
    write(tempDir(), {
      "web/Chart.yaml": CHART,
      "webhook/Chart.yaml": CHART,
      "webhook/openapi/config-values.yaml": SCHEMA,
    }),
  );
  const state = new State({ clock });
  state.recordTree(tree);
  const content = parseConfigMap("ConfigMap cm", data, tree.modules);
  const seen = { condition: "ok", problems: [], resourceVersion: "1", content } as const;
  state.inputs.recordConfig(seen, { kind: "config" });
  const context = {
    blobStore: { scratchDir: tempDir() },
    lock: { entries: new Map() },
    options: {
      state,
      configMap: "cm",
      reader: { readModulesDir: read },
      serverVersion: () => Promise.resolve("v1.35.0"),
      loadHook: loadHook ?? (() => Promise.resolve({ hooks: [], warnings: [] })),
      releases: {
        renderManifests: () =>
          renderError === undefined ? Promise.resolve("") : Promise.reject(helmError(renderError)),
      },
    },
  } as unknown as SourcesContext;
  const dir = write(tempDir(), {
    "Chart.yaml": CHART,
    "openapi/config-values.yaml": SCHEMA,
    "hooks/h.sh": "#!/bin/sh\n",
    ...files,
  });
  chmodSync(join(dir, "hooks/h.sh"), 0o755);
  return describeContentProblem(context, { name: "web", order: undefined, dir });
}

function helmError(message: string): HelmError {
  return new HelmError("template", { message } as RunResult);
}

const ON = { webEnabled: "true", webhookEnabled: "true" };

it("names a value in force that new content refuses", async () => {
  expect(await problemOf({ ...ON, web: "replicas: many" })).toContain("web/replicas");
});

it("refuses no content for the values of another module whose name begins alike", async () => {
  expect(await problemOf({ ...ON, webhook: "replicas: many" })).toBeUndefined();
});

it("refuses content with a hook whose configuration is invalid, or with a template that cannot be parsed", async () => {
  const loaded: string[] = [];
  const loadHook: NonNullable<Given["loadHook"]> = (file, module) => {
    loaded.push(`${module} ${file.name}`);
    return Promise.resolve({ problem: { file: file.path, message: "nonsense: is no key of a hook" } });
  };
  expect(await problemOf(ON, { loadHook })).toMatch(/^web\/hooks\/h\.sh: nonsense: is no key of a hook/);
  expect(loaded).toHaveLength(1);
  const parse = 'helm template: parse error at (web/templates/bad.yaml:1): function "nosuch" not defined';
  expect(await problemOf(ON, { renderError: parse })).toContain(parse);
});

it.each<[string, Given, RegExp]>([
  [
    "a broken CRD",
    { files: { "crds/x.yaml": "kind: ConfigMap\n" } },
    /^web\/crds\/x\.yaml: .*no CustomResourceDefinition/,
  ],
  [
    "values that nothing reads",
    { files: { "values.yaml": "size: 1\n" } },
    /^web\/values\.yaml: size: nothing reads it/,
  ],
  ["a broken addon.yaml", { files: { "addon.yaml": "nonsense: 1\n" } }, /^web\/addon\.yaml: .*nonsense/],
  [
    "a broken schema",
    { files: { "openapi/values.yaml": '$ref: "#/definitions/none"\n' } },
    /^web\/openapi\/values\.yaml: /,
  ],
  [
    "metadata that helm refuses",
    { renderError: 'validation: chart.metadata.version "x" is invalid' },
    /chart\.metadata\.version/,
  ],
  [
    "a chart for another Kubernetes",
    { renderError: "chart requires kubeVersion: >=1.99.0 which is incompatible with Kubernetes v1.35.0" },
    /incompatible with Kubernetes/,
  ],
])("refuses content with %s, as lint does", async (_, given, reported) => {
  expect(await problemOf(ON, given)).toMatch(reported);
});

it.each([
  "helm template: execution error at (web/templates/a.yaml:1:4): a value that a hook sets is required",
  "helm upgrade: Kubernetes cluster unreachable",
  "helm is not installed",
])("refuses no content for what may not be of the content: %s", async (renderError) => {
  expect(await problemOf(ON, { renderError })).toBeUndefined();
});
