import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml, redactValues } from "../../src/base/index.ts";
import { ProblemError, describeProblem } from "../../src/base/model/index.ts";
import type { Json, JsonObject, SchemaFiles } from "../../src/base/model/index.ts";
import {
  applyJsonPatch,
  compileSchemas,
  mergeSectionLayers,
  explainOrigins,
  patchConfigMapKey,
  parseCommonValues,
  parseConfigMap,
  parseModuleValues,
  parsePatch,
  withOverlay,
} from "../../src/values/index.ts";
import type { ParsedConfig, PatchOperation, SectionInput, Violation } from "../../src/values/index.ts";

const KEY = "simpleModule";
const KNOWN = [{ valuesKey: KEY }];

interface Block {
  readonly kind: string;
  readonly text: string;
}

/** One part of the page: its blocks in order. A repeated input starts an example of its own. */
class Page {
  common = "";
  own = "";
  data: Record<string, string> = {};
  overlay: Record<string, string> | undefined;
  schemas: { config?: string; values?: string } = {};
  patches: PatchOperation[] = [];
  failure = "";

  get config(): ParsedConfig {
    const below = parseConfigMap("ConfigMap addon-operator", this.data, KNOWN);
    const above = this.overlay && parseConfigMap("ConfigMap overlay", this.overlay, KNOWN);
    return withOverlay(below, above);
  }

  get input(): SectionInput {
    const { config, values } = this.schemas;
    const files: SchemaFiles = {
      ...(config === undefined ? {} : { config: { file: "openapi/config-values.yaml", text: config } }),
      ...(values === undefined ? {} : { values: { file: "openapi/values.yaml", text: values } }),
    };
    return {
      schemas: compileSchemas(files),
      common: parseCommonValues(this.common, "modules/values.yaml").byKey.get(KEY)?.section,
      own: parseModuleValues(this.own, "values.yaml", { valuesKey: KEY }).section,
      config: this.config.sections.get(KEY),
      patches: this.patches,
    };
  }

  get global(): SectionInput {
    const { global } = parseCommonValues(this.common, "modules/values.yaml");
    return { schemas: compileSchemas({}), common: global, config: this.config.global };
  }

  patch(text: string): void {
    const { operations } = parsePatch(text, KEY);
    applyJsonPatch(mergeSectionLayers(this.input).values, operations);
    this.patches.push(...operations);
  }

  patchConfig(text: string): void {
    const { operations } = parsePatch(text, KEY);
    const data = this.overlay ?? this.data;
    const below =
      this.overlay && parseConfigMap("ConfigMap addon-operator", this.data, KNOWN).sections.get(KEY);
    const next = patchConfigMapKey({
      file: "ConfigMap addon-operator",
      data,
      key: KEY,
      operations,
      configMapSection: below,
    });
    if (next.text !== undefined) data[KEY] = next.text;
  }
}

const readData = (text: string): Record<string, string> =>
  ((parseYaml(text, "page").value as JsonObject)["data"] ?? {}) as Record<string, string>;
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");
const rules = (violations: readonly Violation[]): string[] =>
  violations.map(({ path, rule }) => `${path} ${rule}`).toSorted();

/** What each kind of block does: inputs change the page, outputs are compared with it. */
const KINDS: Readonly<Record<string, (page: Page, text: string) => void>> = {
  "yaml modules/values.yaml": (page, text) => {
    page.common = text;
  },
  "yaml values.yaml": (page, text) => {
    page.own = text;
  },
  "yaml ConfigMap": (page, text) => {
    page.data = readData(text);
  },
  "yaml overlay ConfigMap": (page, text) => {
    page.overlay = readData(text);
  },
  "yaml openapi/config-values.yaml": (page, text) => {
    page.schemas.config = text;
  },
  "yaml openapi/values.yaml": (page, text) => {
    page.schemas.values = text;
  },
  "json VALUES_JSON_PATCH_PATH": (page, text) => {
    try {
      page.patch(text);
    } catch (error) {
      page.failure = (error as Error).message;
    }
  },
  "json CONFIG_VALUES_JSON_PATCH_PATH": (page, text) => page.patchConfig(text),
  "json VALUES_PATH": (page, text) => {
    const values = {
      global: mergeSectionLayers(page.global).values,
      [KEY]: mergeSectionLayers(page.input).values,
    };
    expect(values).toEqual(JSON.parse(text));
  },
  "json CONFIG_VALUES_PATH": (page, text) => {
    const { global, sections } = page.config;
    expect({ global: global ?? null, [KEY]: sections.get(KEY) ?? null }).toEqual(JSON.parse(text));
  },
  "yaml helm": (page, text) => {
    const values = {
      global: mergeSectionLayers(page.global).helmValues,
      [KEY]: mergeSectionLayers(page.input).helmValues,
    };
    expect(values).toEqual(parseYaml(text, "page").value);
  },
  "yaml ConfigMap afterwards": (page, text) => expect(page.data).toEqual(readData(text)),
  "yaml overlay ConfigMap afterwards": (page, text) => expect(page.overlay).toEqual(readData(text)),
  "yaml explain": (page, text) => {
    const places = {
      "modules/values.yaml": "/modules/values.yaml",
      "module values.yaml": "/modules/010-simple-module/values.yaml",
      ConfigMap: `key ${KEY}`,
    };
    expect(Object.fromEntries(explainOrigins(page.input, places))).toEqual(parseYaml(text, "page").value);
  },
  "text problems": (page, text) => expect(problemsOf(page)).toEqual(lines(text)),
  "text error": (page, text) => {
    expect([page.failure]).toEqual(lines(text));
    page.failure = "";
  },
  "text violations": (page, text) => {
    const { schemas } = page.input;
    expect(rules(schemas.validateConfig(mergeSectionLayers(page.input).config))).toEqual(lines(text));
  },
  "text violations before helm": (page, text) => {
    const { schemas } = page.input;
    expect(rules(schemas.validateHelm(mergeSectionLayers(page.input).values))).toEqual(lines(text));
  },
  "json redacted": (page, text) => {
    const values = mergeSectionLayers(page.input).values as Json;
    const displayed = JSON.stringify(redactValues(values, page.input.schemas.secretPaths));
    expect(JSON.parse(displayed.replaceAll(/<redacted:[0-9a-f]{32}>/g, "<redacted:…>"))).toEqual(
      JSON.parse(text),
    );
  },
};

function problemsOf(page: Page): string[] {
  try {
    return [...page.input.schemas.warnings, ...page.config.problems.map(describeProblem)];
  } catch (error) {
    if (error instanceof ProblemError) return error.problems.map(describeProblem);
    throw error;
  }
}

function parts(): (readonly [string, Block[]])[] {
  const text = readFileSync(new URL("../../docs/reference/values.md", import.meta.url), "utf8");
  return text.split(/^##+ /m).flatMap((part) => {
    const title = part.split("\n")[0] ?? "";
    const blocks = [...part.matchAll(/^```(.+)\n([\s\S]*?)^```$/gm)].map(([, kind = "", body = ""]) => ({
      kind,
      text: body,
    }));
    return blocks.length === 0 ? [] : [[title, blocks] as const];
  });
}

describe("docs/reference/values.md", () => {
  it.each(parts())("%s", (_, blocks) => {
    expect(blocks).not.toHaveLength(0);
    let page = new Page();
    let seen = new Set<string>();
    for (const { kind, text } of blocks) {
      const run = KINDS[kind];
      if (run === undefined) throw new Error(`no such kind of example: ${kind}`);
      if (kind === "yaml ConfigMap" && seen.has(kind)) {
        page = new Page();
        seen = new Set();
      }
      seen.add(kind);
      run(page, text);
    }
  });

  it("has an example of every kind", () => {
    const used = new Set(parts().flatMap(([, blocks]) => blocks.map(({ kind }) => kind)));
    expect(Object.keys(KINDS).filter((kind) => !used.has(kind))).toEqual([]);
  });
});
