import { describe, expect, it } from "vitest";

import { ProblemError } from "../../../src/base/model/index.ts";
import type { Json, JsonObject, Section } from "../../../src/base/model/index.ts";
import { compileSchemas } from "../../../src/values/index.ts";
import type { Schemas } from "../../../src/values/index.ts";

const schemas = (config: string, values?: string): Schemas =>
  compileSchemas({
    config: { file: "c.yaml", text: config },
    ...(values === undefined ? {} : { values: { file: "v.yaml", text: values } }),
  });
const judge = (text: string, value: Json): string[] =>
  schemas(text)
    .validateConfig(value)
    .map(({ path, rule }) => `${path} ${rule}`);

describe("words of OpenAPI beside others", () => {
  it.each<[string, Json, string[]]>([
    ["{properties: {a: {maximum: 5, exclusiveMaximum: true}}}", { a: 5 }, ["/a exclusiveMaximum"]],
    ["{properties: {a: {maximum: 5, exclusiveMaximum: false}}}", { a: 5 }, []],
    ["{properties: {a: {maximum: 5, exclusiveMaximum: false}}}", { a: 6 }, ["/a maximum"]],
    ["{properties: {a: {exclusiveMinimum: true}}}", { a: 0 }, []],
    ["{properties: {a: {exclusiveMinimum: 3}}}", { a: 3 }, ["/a exclusiveMinimum"]],
    ["{properties: {a: {type: string, nullable: false}}}", { a: null }, ["/a type"]],
    ["{properties: {a: {enum: [x, null], nullable: true}}}", { a: null }, []],
    ["{properties: {a: {enum: [x], nullable: true}}}", { a: "y" }, ["/a enum"]],
    ["{properties: {a: {type: [string, integer], nullable: true}}}", { a: true }, ["/a type"]],
    ["{properties: {a: {nullable: true, minLength: 2}}}", { a: null }, []],
    ["{properties: {a: {nullable: true, minLength: 2}}}", { a: "x" }, ["/a minLength"]],
    [
      "{properties: {a: {$ref: '#/definitions/x', nullable: true}}, definitions: {x: {type: string}}}",
      { a: 1 },
      ["/a type", "/a type", "/a anyOf"],
    ],
    [
      "{$id: 'http://x/y', id: z, $schema: 'http://z/w', properties: {a: {type: string}}}",
      { a: 1 },
      ["/a type"],
    ],
    ["{properties: {a: {anyOf: [{properties: {b: {}}}]}}}", { a: { c: 1 } }, []],
    ["{properties: {a: {not: {properties: {b: {}}, required: [b]}}}}", { a: { c: 1 } }, []],
  ])("%s", (text, value, wanted) => expect(judge(text, value)).toEqual(wanted));
});

describe("defaults, and what is not filled", () => {
  it.each<[string, Section, Json]>([
    ["{items: [{properties: {a: {default: 1}}}, {}]}", [{}, {}, {}], [{ a: 1 }, {}, {}]],
    ["{items: {properties: {a: {default: 1}}}}", [1, null, {}], [1, null, { a: 1 }]],
    [
      `{properties: {p: {default: 0}}, patternProperties: {^x: {properties: {a: {default: 1}}}},
        additionalProperties: {properties: {a: {default: 2}}}}`,
      { x: {}, y: {}, p: {} },
      { x: { a: 1 }, y: { a: 2 }, p: {} },
    ],
    [
      "{properties: {a: {$ref: '#/definitions/d'}}, definitions: {d: {$ref: '#/definitions/e'}, e: {default: 7}}}",
      {},
      { a: 7 },
    ],
    [
      "{properties: {a: {$ref: '#/definitions/d', default: 1}}, definitions: {d: {default: 2}}}",
      {},
      { a: 1 },
    ],
    ["{properties: {a: {default: null}}}", {}, {}],
    ["{$ref: '#/definitions/d', definitions: {d: {properties: {a: {default: 1}}}}}", {}, { a: 1 }],
    ["{properties: {a: {properties: {b: {default: 1}}}}}", { a: 5 }, { a: 5 }],
    ["{properties: {a: {properties: {b: {default: 1}}}}}", { a: [1] }, { a: [1] }],
    ["{anyOf: [{properties: {a: {default: 1}}}]}", {}, {}],
    [
      "{allOf: [{properties: {a: {default: 1}}}, {properties: {a: {default: 2}, b: {default: 3}}}]}",
      {},
      { a: 1, b: 3 },
    ],
    ["{properties: {__proto__: {default: 1}}}", {}, JSON.parse('{"__proto__": 1}') as Json],
  ])("%s", (text, value, wanted) => {
    const before = JSON.stringify(value);
    expect(JSON.stringify(schemas(text).fillConfigDefaults(value))).toBe(JSON.stringify(wanted));
    expect(JSON.stringify(value)).toBe(before);
  });

  it("shares lists that need none", () => {
    const value = { l: [{ a: 5 }], m: [{}] };
    const text =
      "{properties: {l: {items: {properties: {a: {default: 1}}}}, m: {items: {properties: {a: {default: 1}}}}}}";
    const filled = schemas(text).fillConfigDefaults(value) as JsonObject;
    expect(filled["l"]).toBe(value.l);
    expect(filled["m"]).toEqual([{ a: 1 }]);
  });
});

describe("the part that the config schema judges", () => {
  it.each<[string, string, Section, Section | undefined, Section]>([
    ["{properties: {a: {}}}", "properties: {b: {}}", { a: 1, b: 1, c: 1 }, undefined, { a: 1, c: 1 }],
    ["{properties: {a: {}}}", "properties: {b: {}}", { b: 1 }, { b: 2 }, { b: 1 }],
    [
      "{properties: {a: {}}, additionalProperties: true}",
      "properties: {b: {}}",
      { b: 1 },
      undefined,
      { b: 1 },
    ],
    ["{properties: {a: {}}}", "patternProperties: {^b: {}}", { bb: 1, c: 1 }, undefined, { c: 1 }],
    ["{patternProperties: {^a: {}}}", "properties: {b: {}}", { aa: 1, b: 1 }, undefined, { aa: 1 }],
    ["{properties: {a: {}}}", "additionalProperties: {type: string}", { b: 1 }, undefined, {}],
    ["{properties: {a: {}}}", "additionalProperties: true", { b: 1 }, undefined, {}],
    [
      "{properties: {a: {}}, not: {properties: {b: {}}, required: [q]}}",
      "properties: {b: {}}",
      { b: 1 },
      undefined,
      {},
    ],
    [
      "{properties: {m: {$ref: '#/definitions/m'}}, definitions: {m: {properties: {x: {}}}}}",
      "properties: {m: {allOf: [{properties: {z: {}}}]}}",
      { m: { x: 1, z: 1, y: 1 } },
      undefined,
      { m: { x: 1, y: 1 } },
    ],
    [
      "{properties: {m: {properties: {x: {}}}}}",
      "properties: {m: {properties: {z: {}}}}",
      { m: { z: { deep: 1 } }, l: [{ z: 1 }] },
      { m: { z: { deep: 2 } } },
      { m: { z: { deep: 1 } }, l: [{ z: 1 }] },
    ],
    [
      "{additionalProperties: {properties: {x: {}}}}",
      "properties: {m: {properties: {z: {}}}}",
      { m: { x: 1, z: 1 } },
      { m: 5 } as unknown as Section,
      { m: { x: 1 } },
    ],
  ])("%s and %s: %j", (...[config, values, value, written, wanted]) => {
    const left = schemas(config, `{x-extend: {schema: config-values.yaml}, ${values}}`).selectConfigPart(
      value,
      written,
    );
    expect(left).toEqual(wanted);
    expect(left === value).toBe(JSON.stringify(wanted) === JSON.stringify(value));
  });

  it("is the whole where there is but one schema", () => {
    expect(schemas("{properties: {}}").selectConfigPart({ a: 1 }, undefined)).toEqual({ a: 1 });
  });
});

describe("what is extended", () => {
  const both = (config: string, values: string): Schemas =>
    schemas(config, `{x-extend: {schema: config-values.yaml}, ${values}}`);
  const required = (config: string, values: string): string[] =>
    both(config, values)
      .validateValues({})
      .map(({ path }) => path);

  it("asks for what both ask for, once", () => {
    expect(required("{required: [a, b]}", "required: [b, c]")).toEqual(["/a", "/b", "/c"]);
    expect(required("{}", "required: [c]")).toEqual(["/c"]);
    expect(required("{required: [a]}", "properties: {a: {}}")).toEqual(["/a"]);
  });

  it("keeps its own words", () => {
    const requested = both("{x-required-for-helm: a}", "x-required-for-helm: b, properties: {a: {}, b: {}}");
    expect(requested.validateHelm({}).map(({ path }) => path)).toEqual(["/b"]);
    expect(both("{type: object, minProperties: 1}", "properties: {}").validateValues({})).toEqual([]);
  });
});

describe("problems of schemas", () => {
  const problems = (text: string): unknown => {
    try {
      schemas(text);
    } catch (error) {
      if (error instanceof ProblemError) return error.problems;
    }
    return [];
  };
  const file = "c.yaml";

  it.each<[string, unknown[]]>([
    [
      "{$ref: 5}",
      [expect.objectContaining({ key: "/$ref" }), { file, key: "/", message: "$ref must be a string" }],
    ],
    [
      "{properties: {a: {$ref: 'x.yaml'}}}",
      [
        {
          file,
          key: "/properties/a",
          message: expect.stringMatching(/^\$ref to .*x\.yaml: the file was not read$/),
          remedy: "refer to a file in the directory of the module",
        },
      ],
    ],
    ["{$ref: '#/x'}", [{ file, key: "/", message: '$ref "#/x" points to nothing' }]],
    ["{$ref: '#x'}", [{ file, key: "/", message: '$ref "#x" points to nothing' }]],
    ["{$ref: '#'}", [{ file, key: "/", message: '$ref "#" leads back to itself' }]],
    [
      "{properties: {a: {anyOf: [{$ref: '#/properties/a'}]}}}",
      [{ file, key: "/properties/a/anyOf/0", message: '$ref "#/properties/a" leads back to itself' }],
    ],
    [
      "{patternProperties: {'(': {pattern: '['}}}",
      [{ file, key: "/", message: expect.stringMatching(/^pattern "\(" cannot be used: /) }],
    ],
    [
      "{$ref: '#/definitions/x', definitions: {x: {properties: {x: {$ref: '#/definitions/x', default: {}}}}}}",
      [
        {
          file,
          message: "defaults make each other without end",
          remedy: "give the recursive property no default",
        },
      ],
    ],
    ["{properties: {a: {properties: {b: {$ref: '#/properties/a'}}}}}", []],
    ["{properties: {a: {$ref: '#/definitions/l/items/0'}}, definitions: {l: {items: [{}]}}}", []],
    ["{properties: {a: {$ref: '#/definitions/a%20b'}}, definitions: {a b: {}}}", []],
  ])("%s", (text, wanted) => expect(problems(text)).toEqual(wanted));

  it("are at most 50 of the words themselves", () => {
    const many = Array.from({ length: 60 }, (_, index) => `p${index}: {minLength: nope}`).join(", ");
    expect(problems(`{properties: {${many}}}`)).toHaveLength(50);
  });

  it("violations of one value are found once", () => {
    const required = schemas("{required: [a]}");
    const value = {};
    expect(required.validateConfig(value)).toBe(required.validateConfig(value));
  });

  it("and violations too", () => {
    const many = Array.from({ length: 60 }, (_, index) => `p${index}`);
    expect(schemas(`{required: [${many.join(", ")}]}`).validateConfig({})).toHaveLength(50);
  });

  it("secret paths come from both schemas and every branch", () => {
    const text = `{properties: {a: {allOf: [{writeOnly: true}]}, b: {items: [{x-secret: true}]},
      c: {patternProperties: {^x: {format: password}}}, d: {writeOnly: false, x-secret: "true"}}}`;
    const values = "{properties: {e: {x-sensitive: true}}}";
    expect([...schemas(text, values).secretPaths]).toEqual(["/a", "/b/*", "/c/*", "/e"]);
  });

  it("warnings tell the same word once", () => {
    const { warnings } = schemas("{properties: {a: {form: x}, b: {form: x, hidden: 1}, c: {form: x}}}");
    expect(warnings).toEqual([
      'c.yaml: /properties/a: unknown keyword "form", also in 2 other places',
      'c.yaml: /properties/b: unknown keyword "hidden"',
    ]);
  });

  it("a map of definitions that a reference leads into is no schema with unknown words", () => {
    const text = `{definitions: {config: {
      duration: {type: string}, "a/b": {list: {items: {$ref: "#/definitions/config/deep/size"}}}, deep: {size: {}}, durations: {}}},
      properties: {a: {$ref: "#/definitions/config/duration"}, b: {$ref: "#/definitions/config/a~1b/list"}}}`;
    expect(schemas(text).warnings).toEqual(['c.yaml: /definitions/config: unknown keyword "durations"']);
  });

  it("warnings of very many words are counted", () => {
    const { warnings } = schemas("{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1}");
    expect(warnings).toEqual([
      'c.yaml: /: unknown keyword "a"',
      "c.yaml: 5 other unknown keywords or formats",
    ]);
    expect(schemas("{a: 1, b: 1, c: 1, d: 1, e: 1}").warnings).toHaveLength(5);
  });

  it("warnings name file and place", () => {
    const { warnings } = schemas(
      "{typ: object, x-typ: 1, properties: {a: {forma: x, format: ipv4}, b: {format: zip}}}",
    );
    expect(warnings).toEqual([
      'c.yaml: /: unknown keyword "typ"',
      'c.yaml: /properties/a: unknown keyword "forma"',
      'c.yaml: /properties/b: unknown format "zip"',
    ]);
  });
});
