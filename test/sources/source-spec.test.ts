import { expect, it } from "vitest";

import type { IModuleSource } from "../../src/report/index.ts";
import { SourceList } from "../../src/sources/source-list.ts";
import { parseSourceSpec } from "../../src/sources/source-spec.ts";
import { random } from "../support/random.ts";
import { diceOf, violate } from "../support/violate.ts";
import type { Schema } from "../support/violate.ts";

const REGISTRY = "oci://registry.example.com/modules";
const DIGEST = `sha256:${"a".repeat(64)}`;
const read = (spec: object) =>
  parseSourceSpec({
    apiVersion: "addon-operator.io/v1alpha1",
    kind: "ModuleSource",
    metadata: { name: "s" },
    spec: { registry: REGISTRY, ...spec } as NonNullable<IModuleSource["spec"]>,
  } as IModuleSource);

it("reads ranges, channels, digests and the policy of updates", () => {
  const modules = {
    a: { version: "~1.4" },
    b: { tag: "stable" },
    c: { version: "1.4.2", digest: DIGEST },
    d: { version: "^2 || >=4 <5" },
  };
  const windows = [
    { cron: "0 2 * * 1-5", for: "2h" },
    { cron: "CRON_TZ=Europe/Berlin 0 3 * * *", for: "90m" },
  ];
  const spec = read({ modules, update: { approval: "patch", windows, after: "24h", parallel: 3 } });
  expect(Object.fromEntries(spec.modules)).toEqual(modules);
  expect(spec.update).toEqual({
    approval: "patch",
    parallel: 3,
    minAgeMs: 86_400_000,
    windows: [
      { cron: "0 2 * * 1-5", forMs: 7_200_000 },
      { cron: "CRON_TZ=Europe/Berlin 0 3 * * *", forMs: 5_400_000 },
    ],
  });
  expect(read({}).update).toBeUndefined();
  expect(read({ update: {} }).update).toEqual({ approval: "auto", windows: [], minAgeMs: 0, parallel: 1 });
});

it.each<[string, object, string]>([
  ["neither", { modules: { a: {} } }, "spec.modules.a: has neither version nor digest nor tag"],
  [
    "tag and version",
    { modules: { a: { tag: "x", version: "1.0.0" } } },
    "has a tag, and also a version or a digest",
  ],
  [
    "tag and digest",
    { modules: { a: { tag: "x", digest: DIGEST } } },
    "has a tag, and also a version or a digest",
  ],
  ["no tag", { modules: { a: { tag: "a/b" } } }, '"a/b" is no tag'],
  ["no range", { modules: { a: { version: "newest" } } }, '"newest" is neither a version nor a range'],
  [
    "a range with a digest",
    { modules: { a: { version: "~1.4", digest: DIGEST } } },
    '"~1.4" is no exact version, which a digest needs',
  ],
  ["no digest", { modules: { a: { digest: "sha256:1" } } }, "is no sha256 digest"],
  ["no crontab", { update: { windows: [{ cron: "x", for: "1h" }] } }, "spec.update.windows[0].cron: "],
  [
    "no time zone",
    { update: { windows: [{ cron: "TZ=Mars 0 0 * * *", for: "1h" }] } },
    "unknown time zone Mars",
  ],
  ["@every", { update: { windows: [{ cron: "@every 1h", for: "1h" }] } }, "not @every"],
  [
    "a window that is never open",
    { update: { windows: [{ cron: "@daily", for: "0s" }] } },
    "spec.update.windows[0].for: is never open",
  ],
  [
    "a name that is read as another one",
    { modules: { "10-web": { tag: "x" } } },
    'spec.modules.10-web: "10-web" begins with a number, which is the order in the name of a directory',
  ],
  ["a name of a file", { modules: { "values.yaml": { tag: "x" } } }, "is a file of each modules directory"],
  ["a name of all", { modules: { global: { tag: "x" } } }, "is the section of values that all modules share"],
  ["no CA", { ca: "junk" }, "spec.ca: contains no PEM certificate"],
  [
    "a CA that cannot be read",
    { ca: "-----BEGIN CERTIFICATE-----\njunk\n-----END CERTIFICATE-----" },
    "spec.ca: has a certificate that cannot be read (number 1)",
  ],
  ["no duration", { update: { after: "a day" } }, 'spec.update.after: "a day" is no duration'],
])("%s is one error with field and remedy", (_, spec, message) => {
  expect(() => read(spec)).toThrow(message);
  expect(() => read(spec)).toThrow(/ModuleSource s.*\(.+\)/s);
});

it("names a window without a duration once", () => {
  const spec = { update: { windows: [{ cron: "@daily", for: "a day" }] } };
  expect(() => read(spec)).toThrow('spec.update.windows[0].for: "a day" is no duration');
  expect(() => read(spec)).not.toThrow("never open");
});

it("names all errors at once", () => {
  const bad = { modules: { a: {}, b: { tag: "a/b" } }, update: { after: "x" }, interval: "1s" };
  expect(() => read(bad)).toThrow(/modules\.a(.|\n)*modules\.b|interval/);
});

const CHARTS = { registry: undefined, charts: "https://charts.example.org/a/", unsigned: true };

it("reads sources of charts", () => {
  const spec = read({ ...CHARTS, modules: { a: { version: "^1", chart: "b", module: { retries: 2 } } } });
  expect(spec).toMatchObject({
    charts: "https://charts.example.org/a",
    unsigned: true,
    registry: { host: "charts.example.org", name: "a" },
  });
  expect(read({ registry: undefined, charts: "oci://r.example/charts" })).toMatchObject({
    charts: "oci://r.example/charts",
    unsigned: false,
    registry: { host: "r.example", name: "charts" },
  });
  const mirrors = ["oci://m.example/charts"];
  expect(read({ registry: undefined, charts: "oci://r.example/charts", mirrors }).mirrors).toEqual([
    { host: "m.example", name: "charts" },
  ]);
});

it.each<[string, object, string]>([
  ["both places", { charts: "oci://r.example/charts" }, "spec: needs either registry or charts"],
  ["no place", { registry: undefined }, "spec: needs either registry or charts"],
  ["unsigned modules", { unsigned: true }, "spec.unsigned: requires charts"],
  ["a repository without unsigned", { ...CHARTS, unsigned: false }, "spec.unsigned: is missing"],
  [
    "a user in the URL",
    { ...CHARTS, charts: "https://u:p@charts.example.org" },
    "is not a location of charts",
  ],
  [
    "mirrors of a repository",
    { ...CHARTS, mirrors: ["oci://m.example/a"] },
    "spec.mirrors: require a registry",
  ],
  [
    "mirrors of unsigned charts",
    { ...CHARTS, charts: "oci://r.example/charts", mirrors: ["oci://m.example/a"] },
    "spec.mirrors: require a registry",
  ],
  ["no TLS", { ...CHARTS, charts: "http://charts.example.org" }, "spec.charts: is called without TLS"],
  [
    "a chart of a registry of modules",
    { modules: { a: { version: "1.0.0", chart: "b" } } },
    "spec.modules.a: has chart or module",
  ],
  [
    "a path as chart",
    { ...CHARTS, modules: { a: { version: "1.0.0", chart: "../b" } } },
    "spec.modules.a.chart",
  ],
  [
    "a tag in a repository",
    { ...CHARTS, modules: { a: { tag: "stable" } } },
    "spec.modules.a.tag: is for registries",
  ],
  [
    "an unknown key of addon.yaml",
    { ...CHARTS, modules: { a: { version: "1.0.0", module: { onFailures: "retry" } } } },
    "spec.modules.a.module.onFailures: is no key of",
  ],
  [
    "a range that is none",
    { ...CHARTS, modules: { a: { version: "1.0.0", module: { requires: { kubernetes: "new" } } } } },
    "spec.modules.a.module.requires.kubernetes",
  ],
  [
    "the place of the chart",
    { ...CHARTS, modules: { a: { version: "1.0.0", module: { chart: { path: "x" } } } } },
    "spec.modules.a.module.chart: is set by the operator",
  ],
])("refuses of charts: %s", (_, spec, problem) => {
  expect(() => read(spec)).toThrow(problem);
});

const VALID = {
  registry: "oci://registry.example.com/modules",
  mirrors: ["oci://mirror.example.com/modules"],
  secret: "s",
  plainHttp: true,
  interval: "30s",
  suspend: false,
  verify: { keys: ["ci.pub"] },
  update: { approval: "auto", windows: [{ cron: "0 2 * * *", for: "2h" }], after: "24h", parallel: 3 },
  modules: { web: { version: "1.4.2", order: 10, enabled: true } },
};

/** A source after an edit of its spec that only a changed CRD lets through. */
function afterEdit(spec: unknown) {
  const source = (generation: number, value: unknown) =>
    ({ metadata: { name: "s", uid: "1", generation }, spec: value }) as never;
  const before = new SourceList().withObjects([source(1, VALID)]);
  return before.withObjects([source(2, spec)]).get("s");
}

it.each([
  ["spec", null],
  ["spec.modules", { ...VALID, modules: 5 }],
  ["spec.modules", { ...VALID, modules: null }],
  ["spec.modules", { ...VALID, modules: [] }],
  ["spec.modules.web", { ...VALID, modules: { web: null } }],
  ["spec.suspend", { ...VALID, suspend: "false" }],
  ["spec.mirrors", { ...VALID, mirrors: "oci://a/b" }],
])("without the rules of the CRD, a wrong type of %s removes no module: %j", (key, spec) => {
  const entry = afterEdit(spec);
  expect(entry?.problem).toContain(`ModuleSource s: ${key}: must be a `);
  expect([...(entry?.spec?.modules.keys() ?? [])]).toEqual(["web"]);
});

it("survives any type in any field", () => {
  const schemaOf = (value: unknown): Schema => {
    if (Array.isArray(value)) return { type: "array", items: schemaOf(value[0]) };
    if (!(value instanceof Object)) return { type: typeof value };
    const properties = Object.entries(value).map(([key, inner]) => [key, schemaOf(inner)]);
    return { type: "object", properties: Object.fromEntries(properties) };
  };
  const schema = schemaOf(VALID);
  const problems = Array.from({ length: 500 }, (_, seed) => {
    const { value } = violate(VALID, schema, diceOf(random(seed)));
    return afterEdit(value)?.problem ?? "ModuleSource s: spec";
  });
  expect(problems.filter((text) => !text.startsWith("ModuleSource s: spec"))).toEqual([]);
});
