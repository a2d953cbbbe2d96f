import { describe, expect, it } from "vitest";

import { redactValues } from "../../../src/base/index.ts";
import { ProblemError } from "../../../src/base/model/index.ts";
import type { Json, JsonObject } from "../../../src/base/model/index.ts";
import { compileSchemas } from "../../../src/values/index.ts";
import type { Schemas, Violation } from "../../../src/values/index.ts";

const CONFIG = "/m/openapi/config-values.yaml";
const VALUES = "/m/openapi/values.yaml";

function schemas(config?: string, values?: string): Schemas {
  return compileSchemas({
    ...(config === undefined ? {} : { config: { file: CONFIG, text: config } }),
    ...(values === undefined ? {} : { values: { file: VALUES, text: values } }),
  });
}

const config = (text: string) => schemas(text);
const paths = (violations: readonly Violation[]): string[] =>
  violations.map(({ path, rule }) => `${path} ${rule}`);
const judge = (text: string, value: Json): string[] => paths(config(text).validateConfig(value));

function problemsOf(configText?: string, valuesText?: string): string {
  try {
    schemas(configText, valuesText);
  } catch (error) {
    if (error instanceof ProblemError) return error.message;
    throw error;
  }
  throw new Error("was accepted");
}

describe("levels that say nothing about other properties", () => {
  it.each<[string, string, Json, string[]]>([
    ["are closed", "{properties: {a: {}}}", { b: 1 }, ["/b additionalProperties"]],
    [
      "are closed with patterns only",
      "{patternProperties: {^x: {}}}",
      { x1: 1, b: 1 },
      ["/b additionalProperties"],
    ],
    ["are closed without properties", "{type: object}", { b: 1 }, ["/b additionalProperties"]],
    ["are closed with nothing that means anything", "{a: 1}", { b: 1 }, ["/b additionalProperties"]],
    ["are closed where null is allowed", "{type: [object, 'null']}", { b: 1 }, ["/b additionalProperties"]],
    ["stay open without a type", "{properties: {a: {}}}", { a: { b: 1 } }, []],
    ["stay open where branches say more", "{type: object, oneOf: [{required: [b]}]}", { b: 1 }, []],
    ["stay open in a file without keys", "{}", { b: 1 }, []],
    [
      "stay open where unknown fields are preserved",
      "{type: object, x-kubernetes-preserve-unknown-fields: true}",
      { b: 1 },
      [],
    ],
    ["stay open when they say so", "{properties: {a: {}}, additionalProperties: true}", { b: 1 }, []],
    [
      "follow their own schema",
      "{properties: {a: {}}, additionalProperties: {type: string}}",
      { b: 1 },
      ["/b type"],
    ],
    [
      "are closed in items",
      "{properties: {l: {items: {properties: {a: {}}}}}}",
      { l: [{ b: 1 }] },
      ["/l/0/b additionalProperties"],
    ],
    [
      "are closed below open ones",
      "{additionalProperties: {properties: {a: {}}}}",
      { x: { b: 1 } },
      ["/x/b additionalProperties"],
    ],
    [
      "are closed in definitions",
      "{properties: {a: {$ref: '#/definitions/x'}}, definitions: {x: {properties: {a: {}}}}}",
      { a: { b: 1 } },
      ["/a/b additionalProperties"],
    ],
    [
      "stay open in branches of allOf",
      "{allOf: [{properties: {a: {}}}, {properties: {b: {type: string}}}]}",
      { a: 1, b: "" },
      [],
    ],
    [
      "stay open in branches of oneOf",
      "{oneOf: [{required: [a], properties: {a: {}}}]}",
      { a: 1, b: "" },
      [],
    ],
    [
      "stay open in definitions that branches use",
      "{allOf: [{$ref: '#/definitions/x'}, {properties: {b: {}}}], definitions: {x: {properties: {a: {}}}}}",
      { a: 1, b: 1 },
      [],
    ],
  ])("%s", (_, ...[schema, value, wanted]) => {
    expect(judge(schema, value)).toEqual(wanted);
  });
});

describe("words of OpenAPI 3.0", () => {
  it.each<[string, string, Json, string[]]>([
    ["nullable", "{properties: {a: {type: string, nullable: true}}}", { a: null }, []],
    ["nullable enums", "{properties: {a: {type: string, enum: [x], nullable: true}}}", { a: null }, []],
    [
      "nullable references",
      "{properties: {a: {$ref: '#/definitions/x', nullable: true}}, definitions: {x: {type: string}}}",
      { a: null },
      [],
    ],
    ["no null without it", "{properties: {a: {type: string}}}", { a: null }, ["/a type"]],
    [
      "exclusiveMinimum as a flag",
      "{properties: {a: {minimum: 1, exclusiveMinimum: true}}}",
      { a: 1 },
      ["/a exclusiveMinimum"],
    ],
    ["int32", "{properties: {a: {type: integer, format: int32}}}", { a: 2 ** 40 }, ["/a format"]],
    ["int64", "{properties: {a: {type: integer, format: int64}}}", { a: 2 ** 40 }, []],
    [
      "double, byte, password, unknown formats",
      "{properties: {a: {format: double}, b: {format: byte}, c: {format: password}, d: {format: zip}}}",
      { a: 0.5, b: "aGk=", c: "x", d: "y" },
      [],
    ],
    ["ipv4", "{properties: {a: {format: ipv4}}}", { a: "1.2.3" }, ["/a format"]],
    [
      "durations of Go",
      "{properties: {a: {format: duration}, b: {format: duration}}}",
      { a: "1m30s", b: "soon" },
      ["/b format"],
    ],
    [
      "example, discriminator, x-*",
      "{properties: {a: {example: 1, x-doc: y, discriminator: {propertyName: b}}}}",
      { a: 1 },
      [],
    ],
    [
      "anchors and merge keys",
      "x-a: &a {type: string}\nproperties:\n  a: {<<: *a, maxLength: 1}\n  b: *a",
      { a: "xy", b: 1 },
      ["/a maxLength", "/b type"],
    ],
  ])("%s", (_, ...[schema, value, wanted]) => {
    expect(judge(schema, value)).toEqual(wanted);
  });

  it("local references may be recursive through members", () => {
    const tree =
      "$ref: '#/definitions/t'\ndefinitions: {t: {properties: {v: {type: integer}, kids: {items: {$ref: '#/definitions/t'}}}}}";
    expect(judge(tree, { v: 1, kids: [{ v: 2, kids: [{ v: "x" }] }] })).toEqual(["/kids/0/kids/0/v type"]);
  });
});

describe("violations", () => {
  it("tell path and rule, and never a value", () => {
    const text =
      "{required: [host], properties: {password: {type: string, minLength: 20, pattern: ^x, enum: [xx]}, num: {type: integer}}}";
    const violations = config(text).validateConfig({ password: "hunter2", num: "hunter2" });
    expect(paths(violations).toSorted()).toEqual([
      "/host required",
      "/num type",
      "/password enum",
      "/password minLength",
      "/password pattern",
    ]);
    expect(JSON.stringify(violations)).not.toContain("hunter2");
  });

  it("keep several patterns apart", () => {
    const text = "{properties: {a: {pattern: ^x}, b: {pattern: ^y}}, patternProperties: {^p: {pattern: ^z}}}";
    expect(judge(text, { a: "x", b: "y", p: "z" })).toEqual([]);
    expect(judge(text, { a: "y", b: "x", p: "x" })).toEqual(["/a pattern", "/b pattern", "/p pattern"]);
  });

  it("are none without a file", () => {
    expect(schemas().validateConfig({ a: 1 })).toEqual([]);
    expect(schemas("{properties: {}}").validateValues({ a: 1 })).toEqual([]);
  });
});

describe("x-extend", () => {
  const base = `
type: object
title: T
description: D
x-mark: from config
required: [a]
definitions: {s: {type: string}}
patternProperties: {^p-: {type: string}}
properties: {a: {type: integer}, b: {type: integer}}
`;
  const own =
    "{x-extend: {schema: config-values.yaml}, required: [c], properties: {b: {type: string}, c: {$ref: '#/definitions/s'}}}";

  it("takes over definitions, required, properties, patternProperties; own entries win", () => {
    const both = schemas(base, own);
    expect(paths(both.validateValues({ b: "x", "p-x": 1 }))).toEqual([
      "/a required",
      "/c required",
      "/p-x type",
    ]);
    expect(both.validateValues({ a: 1, b: "x", c: "y", "p-x": "z" })).toEqual([]);
    expect(paths(both.validateConfig({ a: 1, b: "x", c: "y" }))).toEqual([
      "/c additionalProperties",
      "/b type",
    ]);
  });

  it("takes over x-* fields", () => {
    const both = schemas(
      "{properties: {a: {}}, x-required-for-helm: [a]}",
      "{x-extend: {schema: config-values.yaml}}",
    );
    expect(paths(both.validateHelm({}))).toEqual(["/a required"]);
  });

  it.each([
    ["another file", "{x-extend: {schema: other.yaml}}"],
    ["a file elsewhere", "{x-extend: {schema: ../../n/openapi/config-values.yaml}}"],
    ["nothing", "{x-extend: {}}"],
    ["a text", "{x-extend: config-values.yaml}"],
  ])("extends config-values.yaml also where it names %s, with a warning", (_, text) => {
    const both = schemas("{properties: {a: {type: integer}}}", text);
    expect(paths(both.validateValues({ a: "x", b: 1 }))).toEqual(["/a type", "/b additionalProperties"]);
    expect(both.warnings).toEqual([
      "/m/openapi/values.yaml: /x-extend: it always extends config-values.yaml; write schema: config-values.yaml",
    ]);
  });

  it("means nothing without config-values.yaml, and in it", () => {
    const text = "{x-extend: {schema: config-values.yaml}, properties: {a: {}}}";
    const alone = schemas(undefined, text);
    expect(paths(alone.validateValues({ a: 1, b: 1 }))).toEqual(["/b additionalProperties"]);
    expect(alone.warnings).toEqual([expect.stringContaining("config-values.yaml does not exist beside it")]);
    const inConfig = schemas(text);
    expect(paths(inConfig.validateConfig({ a: 1, b: 1 }))).toEqual(["/b additionalProperties"]);
    expect(inConfig.warnings).toEqual([expect.stringContaining(`${CONFIG}: /x-extend: only values.yaml`)]);
  });
});

describe("x-required-for-helm", () => {
  it.each<[string, string, Json, string[]]>([
    ["a list", "{x-required-for-helm: [a], properties: {a: {}, b: {}}}", {}, ["/a required"]],
    [
      "a name",
      "{x-required-for-helm: a, required: [b], properties: {a: {}, b: {}}}",
      {},
      ["/b required", "/a required"],
    ],
    [
      "deep down",
      "{properties: {a: {properties: {b: {}}, x-required-for-helm: b}}}",
      { a: {} },
      ["/a/b required"],
    ],
    [
      "in items",
      "{properties: {a: {items: {properties: {b: {}}, x-required-for-helm: b}}}}",
      { a: [{}] },
      ["/a/0/b required"],
    ],
    [
      "in definitions",
      "{$ref: '#/definitions/x', definitions: {x: {x-required-for-helm: b}}}",
      {},
      ["/b required"],
    ],
  ])("as %s counts before helm only", (_, ...[text, value, wanted]) => {
    const both = schemas(undefined, text);
    expect(paths(both.validateHelm(value)).toSorted()).toEqual(wanted.toSorted());
    expect(paths(both.validateValues(value))).toEqual(
      wanted.filter((each) => each === "/b required" && text.includes("required: [b]")),
    );
  });
});

describe("defaults", () => {
  const fill = (text: string, value: JsonObject): Json => config(text).fillConfigDefaults(value);

  it.each<[string, string, JsonObject, Json]>([
    ["fill what is absent", "{properties: {a: {default: 1}}}", {}, { a: 1 }],
    ["leave what is there", "{properties: {a: {default: 1}}}", { a: 0 }, { a: 0 }],
    ["leave null", "{properties: {a: {default: 1}}}", { a: null }, { a: null }],
    ["go deep", "{properties: {a: {default: {}, properties: {b: {default: [1]}}}}}", {}, { a: { b: [1] } }],
    ["make no parents", "{properties: {a: {properties: {b: {default: 1}}}}}", {}, {}],
    [
      "go into items",
      "{properties: {l: {items: {properties: {b: {default: 1}}}}}}",
      { l: [{}, { b: 2 }] },
      { l: [{ b: 1 }, { b: 2 }] },
    ],
    [
      "go into other members",
      "{additionalProperties: {properties: {b: {default: 1}}}}",
      { x: {} },
      { x: { b: 1 } },
    ],
    [
      "go into members named by a pattern",
      "{patternProperties: {^x: {properties: {b: {default: 1}}}}}",
      { x: {}, y: {} },
      { x: { b: 1 }, y: {} },
    ],
    [
      "come through references",
      "{properties: {a: {$ref: '#/definitions/d'}}, definitions: {d: {default: 7}}}",
      {},
      { a: 7 },
    ],
    ["come through allOf", "{allOf: [{properties: {a: {default: 1}}}]}", {}, { a: 1 }],
    [
      "may be false, 0 and empty",
      "{properties: {a: {default: false}, b: {default: 0}, c: {default: ''}}}",
      {},
      { a: false, b: 0, c: "" },
    ],
  ])("%s", (_, ...[text, value, wanted]) => {
    expect(fill(text, value)).toEqual(wanted);
  });

  it("change nothing in place and share what needs no change", () => {
    const text = "{properties: {a: {default: 1}, b: {properties: {c: {default: 1}}}}}";
    const value = { b: { c: 5 } };
    const filled = fill(text, value) as JsonObject;
    expect(value).toEqual({ b: { c: 5 } });
    expect(filled["b"]).toBe(value.b);
    expect(fill(text, filled)).toBe(filled);
  });
});

describe("secret paths", () => {
  it("come from keywords that the validation ignores, too", () => {
    const leaf = "{properties: {NAME: {x-secret: true}}}";
    const text = ["if", "then", "else"].map((word) => `${word}: ${leaf.replace("NAME", word)}`).join("\n");
    const { secretPaths } = compileSchemas({ config: { file: "a.yaml", text } });
    expect([...secretPaths].toSorted()).toEqual(["/else", "/if", "/then"]);
  });

  it("come from writeOnly, format: password, x-secret and x-sensitive, at any depth", () => {
    const text = `
properties:
  a: {writeOnly: true}
  b: {properties: {c: {format: password}, o/p: {x-secret: true}}}
  l: {items: {properties: {d: {x-sensitive: true}}}}
  m: {additionalProperties: {format: password}}
  r: {$ref: '#/definitions/x'}
definitions: {x: {properties: {e: {writeOnly: true}, r: {$ref: '#/definitions/x'}}}}
`;
    expect([...config(text).secretPaths].toSorted()).toEqual([
      "/a",
      "/b/c",
      "/b/o~1p",
      "/l/*/d",
      "/m/*",
      "/r/**/e",
      "/r/e",
    ]);
  });

  it("are found at each level of a schema that refers to itself", () => {
    const text = `
definitions:
  node: {properties: {pin: {x-secret: true}, children: {type: array, items: {$ref: "#/definitions/node"}}}}
properties: {tree: {$ref: "#/definitions/node"}}`;
    const paths = config(text).secretPaths;
    const tree = { tree: { pin: "a1", children: [{ pin: "b2", children: [{ pin: "c3", name: "d4" }] }] } };
    const displayed = JSON.stringify(redactValues(tree, paths));
    expect(["a1", "b2", "c3", "d4"].filter((text) => displayed.includes(`"${text}"`))).toEqual(["d4"]);
  });

  it("are all values where references make more places than can be listed", () => {
    const definition = (at: number): string =>
      `  d${at}: {properties: {a: {$ref: "#/definitions/d${at + 1}"}, b: {$ref: "#/definitions/d${at + 1}"}}}`;
    const definitions = Array.from({ length: 15 }, (_, at) => definition(at)).join("\n");
    const schema = (last: string): string =>
      `definitions:\n${definitions}\n  d15: ${last}\nproperties: {a: {$ref: "#/definitions/d0"}}`;
    expect([...config(schema("{x-secret: true}")).secretPaths]).toEqual([""]);
    expect([...config(schema("{type: string}")).secretPaths]).toEqual([]);
  });
});

describe("what Go's schemas may say", () => {
  it.each<[string, string, Json, string[], RegExp]>([
    ["a misspelt type refuses each value", "{type: bool}", true, ["/a unusableType"], /unknown type "bool"/],
    ["and null", "{type: bool}", null, ["/a unusableType"], /unknown type "bool"/],
    ["but not null where that is allowed", "{type: bool, nullable: true}", null, [], /unknown type "bool"/],
    ["nor in a list of types", "{type: [bool, 'null']}", null, [], /unknown type "bool"/],
    ["of several types the known ones count", "{type: [strng, integer]}", 1, [], /unknown type "strng"/],
    ["and only they", "{type: [strng, integer]}", "x", ["/a type"], /unknown type "strng"/],
    ["items that are a text check nothing", "{items: strings}", [1], [], /items must be a schema/],
    [
      "items of a misspelt type are refused",
      "{items: {type: strings}}",
      [1],
      ["/a/0 unusableType"],
      /strings/,
    ],
    ["a list without items is not", "{items: {type: strings}}", [], [], /strings/],
    ["const is not evaluated", "{const: 1}", 2, [], /"const" is not evaluated/],
    ["if and then are not", "{if: {}, then: {type: string}}", 2, [], /"if" is not evaluated/],
    [
      "a pattern that is none refuses each text",
      "{pattern: '(['}",
      "x",
      ["/a unusablePattern"],
      /pattern "\(\["/,
    ],
    ["as does one that Go does not know", "{pattern: '(?=x)'}", "x", ["/a unusablePattern"], /pattern/],
    ["but nothing else", "{pattern: '(?=x)'}", 1, [], /pattern/],
    ["y without quotes is the word true", "{type: string, enum: [y, x]}", "true", [], /quote y, n/],
    ["on and yes are one value", "{enum: [on, yes, auto]}", "auto", [], /more than once/],
    [
      "a required y is the key true",
      "{required: [x, y], properties: {x: {}, y: {}}}",
      { x: 1, true: 2 },
      [],
      /required has/,
    ],
    [
      "and refuses what lacks it",
      "{required: [x, y, yes], properties: {x: {}, y: {}}}",
      { x: 1 },
      ["/a/true required"],
      /required has/,
    ],
  ])("%s", (_, ...[schema, value, wanted, warning]) => {
    const compiled = config(`{properties: {a: ${schema}}}`);
    expect(paths(compiled.validateConfig({ a: value }))).toEqual(wanted);
    expect(compiled.warnings[0]).toMatch(/^\/m\/openapi\/config-values.yaml: \/properties\/a/);
    expect(compiled.warnings[0]).toMatch(warning);
    expect(compiled.validateConfig({})).toEqual([]);
  });

  it("an enum of a text allows each word once", () => {
    const compiled = config("{properties: {a: {type: string, enum: [on, yes, auto]}}}");
    expect(paths(compiled.validateConfig({ a: "true" }))).toEqual([]);
    expect(paths(compiled.validateConfig({ a: "off" }))).toEqual(["/a enum"]);
    expect(compiled.warnings).toHaveLength(2);
  });

  it("a refused value is reported from its schema", () => {
    const compiled = config("{properties: {a: {type: bool}, b: {pattern: '('}}}");
    expect(compiled.validateConfig({ a: "s3cret", b: "s3cret" }).map(({ message }) => message)).toEqual([
      'cannot be set: the schema has the unknown type "bool"',
      expect.stringMatching(/^cannot be set: pattern "\(" cannot be used: .* in the schema$/),
    ]);
  });

  it("x-required-for-helm and examples are no faults", () => {
    expect(config("{properties: {a: {examples: {x: 1}, x-nullable: true}}}").warnings).toEqual([]);
  });
});

describe("broken schemas", () => {
  it.each<[string, string, RegExp]>([
    ["no YAML", "a: b: c", /config-values.yaml: line 1, column 5: not valid YAML/],
    ["a list", "- a", /must be a map/],
    ["a number as a text", "{properties: {a: {minLength: '3'}}}", /\/properties\/a\/minLength: must be/],
    ["an enum as a text", "{properties: {a: {enum: x}}}", /\/properties\/a\/enum: must be array/],
    ["required as a text", "{required: a}", /\/required: must be array/],
    ["required as a flag", "{properties: {a: {required: true}}}", /\/properties\/a\/required: must be array/],
    ["properties as a list", "{properties: [a]}", /\/properties: must be object/],
    [
      "a reference to nothing",
      "{properties: {a: {$ref: '#/definitions/x'}}}",
      /\/properties\/a: .*points to nothing/,
    ],
    [
      "a reference elsewhere",
      "{properties: {a: {$ref: 'http://example.com/x'}}}",
      /\/properties\/a: .*leaves the file/,
    ],
    [
      "a reference to another file",
      "{properties: {a: {$ref: 'values.yaml#/definitions/x'}}}",
      /\/properties\/a: \$ref to \/m\/openapi\/values.yaml: the file was not read/,
    ],
    ["a reference to itself", "{properties: {a: {$ref: '#/properties/a'}}}", /leads back to itself/],
    [
      "references in a circle",
      "{$ref: '#/definitions/a', definitions: {a: {allOf: [{$ref: '#/definitions/b'}]}, b: {$ref: '#/definitions/a'}}}",
      /leads back to itself/,
    ],
    ["a broken name pattern", "{patternProperties: {'(': {}}}", /pattern/],
    [
      "defaults without end",
      "{$ref: '#/definitions/x', definitions: {x: {properties: {x: {$ref: '#/definitions/x', default: {}}}}}}",
      /without end/,
    ],
  ])("%s is a problem that names file and path", (_, text, wanted) => {
    expect(problemsOf(text)).toMatch(wanted);
  });

  it("a catastrophic pattern neither stalls loading nor judging", () => {
    expect(judge("{properties: {a: {pattern: '^(a+)+$'}}}", { a: `${"a".repeat(50_000)}!` })).toEqual([
      "/a pattern",
    ]);
  });

  it("warns of misspelt words and unknown formats", () => {
    const { warnings } = config(
      "{propertes: {}, properties: {a: {format: zip, x-deckhouse-validations: []}}}",
    );
    expect(warnings).toEqual([
      expect.stringContaining('unknown keyword "propertes"'),
      expect.stringContaining('/properties/a: unknown format "zip"'),
    ]);
  });
});

it("schemas of equal text are compiled once", () => {
  expect(config("{properties: {a: {}}}")).toBe(config("{properties: {a: {}}}"));
});

describe("hostile schemas and values", () => {
  const tower = (height: number): string => {
    const level = (at: number): string => `{$ref: "#/definitions/d${at - 1}"}`;
    const levels = Array.from({ length: height }, (_, at) => at + 1);
    const definitions = levels.map((at) => `  d${at}: {allOf: [${level(at)}, ${level(at)}, ${level(at)}]}`);
    const text = ["definitions:", "  d0: {type: string}", ...definitions].join("\n");
    return `${text}\nproperties: {x: {$ref: "#/definitions/d${height}"}}`;
  };

  it("are refused where references multiply the checks of one value", () => {
    expect(problemsOf(tower(39))).toMatch(/references make more than 1000000 checks of one value/);
    expect(judge(tower(5), { x: 1 })).toEqual(["/x type"]);
  });

  describe("where several branches refer back to the root", () => {
    const branch = (at: number): string =>
      `{properties: {x: {$ref: "#"}, d${at}: {type: string, default: a}}}`;
    const text = `type: object\nallOf: [${branch(1)}, ${branch(2)}, ${branch(3)}]`;
    const made = schemas(text, text);
    const nested = (levels: number, inner: Json = {}): JsonObject => ({
      x: levels === 1 ? inner : nested(levels - 1, inner),
    });

    it("a deep value is filled and checked once for each part", () => {
      const all = { d1: "a", d2: "a", d3: "a" };
      expect(made.fillValuesDefaults(nested(1))).toEqual({ ...all, x: all });
      expect(made.validateValues(made.fillValuesDefaults(nested(100)) as Json)).toEqual([]);
      const found = made.validateValues(nested(100, { d1: 1, d2: 2 }));
      expect(paths(found)).toEqual([`${"/x".repeat(100)}/d1 type`, `${"/x".repeat(100)}/d2 type`]);
      expect(made.secretPaths.size).toBe(0);
    });

    it("the part that the config schema judges is found", () => {
      const value = nested(100);
      expect(made.selectConfigPart(value, undefined)).toBe(value);
    });
  });

  it("defaults that make each other only below a given value are an error that names the file", () => {
    const text =
      'properties: {c: {$ref: "#/definitions/c"}}\ndefinitions: {c: {properties: {c: {$ref: "#/definitions/c", default: {}}}}}';
    const made = config(text);
    expect(() => made.fillConfigDefaults({ c: {} })).toThrow(
      `${CONFIG}: defaults make each other without end`,
    );
  });

  it.each([
    ["members", (next: string) => `{properties: {x: ${next}}}`],
    ["allOf", (next: string) => `{allOf: [${next}]}`],
    ["references", (next: string) => next],
  ])("thousands of definitions that lead to each other by %s are refused", (_by, step) => {
    const to = (at: number): string => `{$ref: "#/definitions/d${at}"}`;
    const levels = Array.from({ length: 3000 }, (_, at) => `  d${at}: ${step(to(at + 1))}`);
    const text = [
      "definitions:",
      ...levels,
      "  d3000: {type: string, x-secret: true}",
      `properties: {x: ${to(0)}}`,
    ];
    expect(problemsOf(text.join("\n"))).toMatch(/references lead on through more than 1000 schemas/);
  });

  it("a reference that is no valid encoding points to nothing", () => {
    expect(problemsOf('properties: {x: {$ref: "#/%zz"}}')).toMatch(/points to nothing/);
  });

  it("finds equal items of a long list in linear time", () => {
    const text =
      "properties: {x: {type: array, uniqueItems: true, items: {type: object, additionalProperties: true}}}";
    const items = Array.from({ length: 60_000 }, (_, a) => ({ a }));
    expect(judge(text, { x: items })).toEqual([]);
    expect(judge(text, { x: [...items, { a: 7 }] })).toEqual(["/x uniqueItems"]);
  });
});
