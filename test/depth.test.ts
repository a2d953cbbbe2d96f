import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

import { decodeRelease, changeEncodedRecord } from "../src/helm/release/record.ts";
import { parseMetrics, parseObjectOperations } from "../src/hooks/index.ts";
import { parseHookConfig } from "../src/hooks/config/hook-config.ts";
import {
  DepthError,
  MAX_DEPTH,
  canonicalJson,
  cutDeepParts,
  digestJson,
  wasCut,
  parseJson,
  parseYaml,
  redactValues,
  toYaml,
} from "../src/base/index.ts";
import { merge, type Json, type JsonObject, type Section } from "../src/base/model/index.ts";
import { applyJsonPatch, toStoredOperations, parsePatch, replayStoredPatches } from "../src/values/index.ts";
import { configMap, modified } from "./kube/watch/watch-server.ts";
import { settle } from "./support/clock.ts";
import { bindingsLab } from "./hooks/bindings/kubernetes/bindings-lab.ts";
import { binding, hookOf } from "./hooks/build.ts";
import { keepLog } from "./support/logged.ts";
import type { LoggedLine } from "./support/logged.ts";

const nested = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
const TOO_DEEP = nested(20_000);
const MESSAGE = "nested deeper than 200 levels";

const release = (json: string): string => Buffer.from(gzipSync(json).toString("base64")).toString("base64");

describe("what is nested too deep is refused with one clear error", () => {
  it.each<readonly [string, () => unknown]>([
    ["JSON", () => parseJson(TOO_DEEP)],
    ["lists of lists", () => parseJson("[".repeat(20_000) + "]".repeat(20_000))],
    ["one level more than allowed", () => parseJson(nested(MAX_DEPTH + 1))],
    ["a patch of values", () => parsePatch(`{"op":"add","path":"/m/a","value":${TOO_DEEP}}`, MODULE)],
    ["a patch of objects", () => parseObjectOperations(`{"operation":"Create","object":${TOO_DEEP}}`)],
    ["a merge patch in YAML", () => parseObjectOperations(`operation: MergePatch\nmergePatch: ${TOO_DEEP}`)],
    ["a metric", () => parseMetrics(`{"name":"a","set":1,"labels":${TOO_DEEP}}`)],
  ])("%s", (_what, read) => {
    expect(read).toThrow(MESSAGE);
  });

  it("of a hook's configuration and of a ConfigMap", () => {
    const { errors } = parseHookConfig(`{"configVersion":"v1","kubernetes":${TOO_DEEP}}`, "module") as {
      errors: string[];
    };
    expect(errors.join()).toContain(MESSAGE);
    expect(() => parseYaml(TOO_DEEP, "a.yaml")).toThrow(MESSAGE);
  });

  it("patches that nest more and more, each a little", () => {
    const step = { op: "copy", from: "/m/a", path: "/m/a/a" } as const;
    const many = Array.from({ length: 400 }, () => step);
    const section: Section = { a: { b: 1 } };
    expect(() => applyJsonPatch(section, many)).toThrow(MESSAGE);
    expect(() => replayStoredPatches(section, many)).toThrow(MESSAGE);
    expect(applyJsonPatch(section, many.slice(0, 100))).toBeDefined();
  });

  it("a release record is read as far as it is looked at, and not written back cut", async () => {
    const data = release(`{"manifest":"kind: A","config":${TOO_DEEP},"chart":${TOO_DEEP}}`);
    expect((await decodeRelease(data)).manifest).toBe("kind: A");
    await expect(changeEncodedRecord(data, { info: { status: "failed", description: "x" } })).rejects.toThrow(
      DepthError,
    );
  });
});

describe("what is nested as deep as allowed passes everywhere", () => {
  const value = parseJson(nested(MAX_DEPTH)) as JsonObject;

  it.each<readonly [string, () => unknown]>([
    ["canonical JSON", () => canonicalJson(value)],
    ["a digest", () => digestJson(value)],
    ["a merge", () => merge(value, structuredClone(value))],
    ["redaction", () => redactValues(value)],
    ["YAML", () => parseYaml(toYaml(value), "a").value],
    ["a patch", () => toStoredOperations(value, [{ op: "add", path: "/m/x", value: 1 }])],
  ])("%s", (_what, use) => {
    expect(use()).toBeDefined();
  });
});

describe("an object of the API that is nested too deep", () => {
  it("comes without what lies deeper, and says so", () => {
    const object = JSON.parse(TOO_DEEP) as Json;
    expect(cutDeepParts(object)).toBe(object);
    expect(wasCut(object as JsonObject)).toBe(true);
    expect(canonicalJson(object)).toBe(`${'{"a":'.repeat(MAX_DEPTH)}null${"}".repeat(MAX_DEPTH)}`);
    const whole = parseJson(nested(MAX_DEPTH));
    expect(wasCut(cutDeepParts(whole) as JsonObject)).toBe(false);
    expect(whole).toEqual(JSON.parse(nested(MAX_DEPTH)));
  });

  it("is left out of a binding, told with its name, and the watch goes on", async () => {
    const lines: LoggedLine[] = [];
    const lab = bindingsLab({ logger: keepLog(lines) });
    const of = hookOf("h", [binding()]);
    const ready = lab.bindings.enable(of);
    const watch = await lab.serve(10, [
      configMap("a", 1),
      { ...configMap("b", 2), data: JSON.parse(nested(1000)) as object },
    ]);
    await ready;
    lab.bindings.unlock(of);
    expect(lab.bindings.snapshots(of).byBindingName("maps")).toHaveLength(1);
    const fields = {
      hook: "h",
      binding: "maps",
      namespace: "ns",
      name: "b",
      error: `the object is ${MESSAGE}`,
    };
    expect(lines.filter(([level]) => level === "error")).toEqual([
      ["error", "An object is nested too deep, the change is left out", fields],
    ]);
    watch.send(modified(configMap("a", 11)));
    await settle();
    expect(lab.take()).toEqual(["h Modified ns/a"]);
  });
});

const MODULE = "m";
