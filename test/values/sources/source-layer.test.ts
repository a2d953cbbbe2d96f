import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import { KnownSecrets } from "../../../src/base/index.ts";
import { describeProblem, type JsonObject, type ValuesSource } from "../../../src/base/model/index.ts";
import {
  buildSourceLayer,
  type SourceContent,
  SOURCES_SCHEMA,
} from "../../../src/values/sources/source-layer.ts";
// docs/reference/values.md, "Values from Secrets".

const source = (change: Partial<ValuesSource> = {}): ValuesSource => ({
  kind: "Secret",
  name: "s",
  ...change,
});

function layerOf(sources: readonly ValuesSource[], data: Record<string, string | Buffer>) {
  const secrets = new KnownSecrets();
  const content: SourceContent = {
    data: Object.fromEntries(Object.entries(data).map(([key, text]) => [key, Buffer.from(text)])),
  };
  const contentOf = (title: string) =>
    title === "Secret ops/s" || title === "ConfigMap ops/s" ? content : undefined;
  return {
    secrets,
    ...buildSourceLayer(sources, { namespace: "ops", owner: "module web", findContent: contentOf, secrets }),
  };
}

describe("a layer of values from Secrets", () => {
  it("is a document, and texts at their paths, exactly as they are", () => {
    const sources = [source(), source({ key: "pin", path: "/a~1b/pin" })];
    const layer = layerOf(sources, {
      "values.yaml": "db: {user: u, sizes: [1, 2]}\nempty: {}",
      pin: "0123\n",
    });
    expect(layer.section).toEqual({ db: { user: "u", sizes: [1, 2] }, empty: {}, "a/b": { pin: "0123\n" } });
    expect(layer.secretPaths).toEqual(["/db/user", "/db/sizes", "/a~1b/pin"]);
    expect(layer.findPosition("/db/sizes/0")).toBe("Secret ops/s, key values.yaml");
    expect(layer.findPosition("/a~1b/pin")).toBe("Secret ops/s, key pin");
  });

  it("teaches the redactor what a Secret holds, and nothing of a ConfigMap", () => {
    const text = "quite-4-secret";
    const isHidden = (kind: ValuesSource["kind"]): boolean =>
      !layerOf([source({ kind })], { "values.yaml": `plain: ${text}` })
        .secrets.redact(`it is ${text}`)
        .includes(text);
    expect([isHidden("Secret"), isHidden("ConfigMap")]).toEqual([true, false]);
  });

  it.each<[string, Partial<ValuesSource>, string | Buffer, string]>([
    ["no YAML", {}, "a: [hidden-text", "is no valid YAML at line "],
    ["a text", {}, "hidden-text", "is no YAML map"],
    ["1 MiB", { path: "/a" }, "hidden-text".padEnd(1 << 20, "x"), "is larger than 512 KiB"],
    ["binary data", { path: "/a" }, Buffer.from([0xff, 0x00]), "is no UTF-8 text"],
  ])(
    "refuses %s with Secret, key, module and remedy, and does not quote it",
    (...[, change, text, message]) => {
      const { problems, section } = layerOf([source(change)], { "values.yaml": text });
      expect(section).toBeUndefined();
      const [said = ""] = problems.map(describeProblem);
      expect(said).toContain(`Secret ops/s: values.yaml: has values of module web and ${message}`);
      expect(said).toMatch(/\(.+\)$/);
      expect(said).not.toContain("hidden-text");
    },
  );

  it("names what is missing, unless it is optional", () => {
    const missing = (change: Partial<ValuesSource>) => layerOf([source(change)], { a: "1" }).missingSources;
    expect(missing({})).toEqual(["Secret ops/s, which has no key values.yaml"]);
    expect(missing({ namespace: "x" })).toEqual(["Secret x/s, which was not read yet"]);
    expect(missing({ optional: true })).toEqual([]);
    expect(missing({ key: "toString" })).toEqual(["Secret ops/s, which has no key toString"]);
  });
});

it("sources in the ConfigMap have the schema of those in addon.yaml", () => {
  const file = new URL("../../../src/modules/addon.schema.json", import.meta.url);
  const { properties } = JSON.parse(readFileSync(file, "utf8")) as { properties: JsonObject };
  const bare = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value, (key, each: unknown) => (key === "description" ? undefined : each)));
  expect(bare(properties["valuesFrom"])).toEqual(SOURCES_SCHEMA);
});
