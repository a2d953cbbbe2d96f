import { beforeAll, describe, expect, it } from "vitest";

import { loadCel } from "../../../src/base/index.ts";
import type { Json } from "../../../src/base/model/index.ts";
import { compileSchemas } from "../../../src/values/index.ts";

// docs/reference/values.md, "Schemas": rules in CEL, as the Go operator evaluates them.

beforeAll(loadCel);

const RULES = `
type: object
x-deckhouse-validations:
  - expression: "!has(self.min) || !has(self.max) || self.min <= self.max"
    message: min must not exceed max
  - expression: self.replicas >= 1
    message: at least one
  - expression: self.items.all(x, x in oldSelf.items)
    message: items may only be removed
properties:
  min: {type: integer}
  max: {type: integer}
  replicas: {type: integer}
  items: {type: array, items: {type: string}}
  frozen: {type: string, x-deckhouse-validations: [{expression: self == oldSelf, message: frozen is immutable}]}
  registry: {$ref: "#/definitions/registry"}
definitions:
  registry:
    type: object
    properties: {mode: {type: string}}
    x-deckhouse-validations: [{expression: self.mode == oldSelf.mode, message: mode is immutable}]
`;

const compile = () => compileSchemas({ config: { file: "config-values.yaml", text: RULES } });

const describeAll = (found: readonly { path: string; message: string }[]): string[] =>
  found.map(({ path, message }) => `${path}: ${message}`);

describe("rules", () => {
  it.each<readonly [value: Json, violations: readonly string[]]>([
    [{}, []],
    [{ min: 1, max: 5 }, []],
    [{ min: 9, max: 5 }, ["/: min must not exceed max"]],
    [{ replicas: 0, min: 2, max: 1 }, ["/: min must not exceed max", "/: at least one"]],
    // Nothing is in force that these could be compared with.
    [{ frozen: "a", items: ["a"], registry: { mode: "x" } }, []],
  ])("of %j", (value, violations) => {
    expect(describeAll(compile().validateConfig(value))).toEqual(violations);
    expect(compile().warnings).toEqual([]);
  });

  it.each<readonly [old: Json, value: Json, violations: readonly string[]]>([
    [{ frozen: "a" }, { frozen: "a" }, []],
    [{ frozen: "a" }, { frozen: "b" }, ["/frozen: frozen is immutable"]],
    [{ frozen: "a" }, {}, []],
    [{}, { frozen: "b", registry: { mode: "x" } }, []],
    [{ registry: { mode: "x" } }, { registry: { mode: "y" } }, ["/registry: mode is immutable"]],
    [{ registry: {} }, { registry: { mode: "y" } }, []],
    [{ items: ["a", "b"] }, { items: ["a"] }, []],
    [{ items: ["a", "b"] }, { items: ["a", "c"] }, ["/: items may only be removed"]],
    // A rule without `oldSelf` is no rule about changes.
    [{ min: 1, max: 5 }, { min: 9, max: 5 }, []],
  ])("of a change from %j to %j", (old, value, violations) => {
    expect(describeAll(compile().validateTransition(value, old))).toEqual(violations);
  });

  it("say why they cannot be evaluated, without data", () => {
    const text = `x-deckhouse-validations: [{expression: self.pin + 1 > 2, message: the pin}]\nproperties: {pin: {type: string}}`;
    const [found] = compileSchemas({ config: { file: "a.yaml", text } }).validateConfig({ pin: "s3cret" });
    expect(found?.message).toMatch(/^the pin \(fails: /);
    expect(found?.message).not.toContain("s3cret");
  });

  it.each([
    ["text", "it must be a list"],
    ["[{message: x}]", "it has no expression"],
    ['[{expression: "self ==", message: x}]', "a rule of x-deckhouse-validations is not evaluated"],
  ])("that are wrong are warnings: %s", (rules, warning) => {
    const text = `type: object\nx-deckhouse-validations: ${rules}\n`;
    const compiled = compileSchemas({ config: { file: "b.yaml", text } });
    expect(compiled.warnings).toEqual([expect.stringContaining(warning)]);
    expect(compiled.validateConfig({})).toEqual([]);
  });
});
