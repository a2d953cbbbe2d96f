import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { parseYaml } from "../../src/base/index.ts";
import { type Json, type JsonObject, isJsonObject } from "../../src/base/model/index.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const yaml = (path: string): unknown => parseYaml(read(path), path).value;

interface Metric {
  readonly name: string;
  readonly each: { readonly [type: string]: Json } & { readonly type: string };
}
interface Resource {
  readonly groupVersionKind: { readonly kind: string };
  readonly metricNamePrefix: string;
  readonly metrics: readonly Metric[];
}
interface Config {
  readonly spec: { readonly resources: readonly Resource[] };
}
const { resources } = (yaml("deploy/prometheus/kube-state-metrics.yaml") as Config).spec;
interface Rules {
  readonly spec: {
    readonly groups: readonly {
      readonly rules: readonly { alert: string; expr: string; for?: string; annotations: Json }[];
    }[];
  };
}
const rules = (yaml("deploy/prometheus/alerts.yaml") as Rules).spec.groups.flatMap((group) => group.rules);

interface Crd {
  readonly spec: {
    readonly versions: readonly { readonly schema: { readonly openAPIV3Schema: JsonObject } }[];
  };
}

function schemaOf(kind: string): JsonObject {
  const plural = `${kind.toLowerCase()}s`;
  const crd = yaml(`crds/${plural}.yaml`) as Crd;
  return crd.spec.versions[0]?.schema.openAPIV3Schema ?? {};
}

/** The schema of a field; undefined where the CRD has none. */
function field(schema: JsonObject | undefined, path: readonly string[]): JsonObject | undefined {
  let here = schema;
  for (const key of path) {
    const inside = isJsonObject(here?.["items"]) ? here["items"] : here;
    const properties = isJsonObject(inside?.["properties"]) ? inside["properties"] : {};
    here = isJsonObject(properties[key]) ? properties[key] : undefined;
  }
  return here;
}

interface Each {
  readonly path?: readonly string[];
  readonly labelsFromPath?: Readonly<Record<string, readonly string[]>>;
  readonly valueFrom?: readonly string[];
  readonly list?: readonly string[];
}

describe.each(resources)("kube-state-metrics of $groupVersionKind.kind", ({ groupVersionKind, metrics }) => {
  const schema = schemaOf(groupVersionKind.kind);

  it.each(metrics)("$name reads fields that exist", ({ each }) => {
    const source = (each["info"] ?? each["stateSet"] ?? each["gauge"]) as unknown as Each;
    const root = source.path ?? [];
    const paths = [
      root,
      ...[...Object.values(source.labelsFromPath ?? {}), source.valueFrom ?? []].map((p) => [...root, ...p]),
    ];
    expect(paths.filter((path) => path.length > 0 && field(schema, path) === undefined)).toEqual([]);
    expect(source.list).toEqual(source.list === undefined ? undefined : field(schema, root)?.["enum"]);
  });
});

describe("alerts", () => {
  const documented = new Set(read("docs/reference/metrics.md").match(/addon_operator_[a-z_]+[a-z]/g));
  const custom = resources.flatMap(({ metricNamePrefix, metrics }) =>
    metrics.map(({ name }) => `${metricNamePrefix}_${name}`),
  );
  const known = new Set([...documented, ...custom]);

  // An alert begins anew where a label of its series changes, as a reason does.
  it.each(rules.filter(({ expr, for: time }) => time !== undefined && /Ready|module_waiting/.test(expr)))(
    "$alert counts its time whatever the reason",
    ({ expr, annotations }) => {
      expect(expr).toContain("max without (reason)");
      expect(JSON.stringify(annotations)).not.toContain("$labels.reason");
    },
  );

  it.each(rules)("$alert uses series that exist", ({ expr }) => {
    const used = expr.match(/addon_(?:operator|module)_[a-z_]+/g) ?? [];
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((name) => !known.has(name))).toEqual([]);
  });
});
