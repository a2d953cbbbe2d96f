import { beforeEach, describe, expect, test } from "vitest";

import type { MetricOperation } from "../../../src/hooks/index.ts";
import { HookMetricError, HookMetrics, type HookMetricOwner } from "../../../src/report/metrics/index.ts";

let missing: string[] = [];
let metrics: HookMetrics;
beforeEach(() => {
  missing = [];
  const exists = ({ hook, module }: HookMetricOwner): boolean => !missing.includes(`${hook} of ${module}`);
  metrics = new HookMetrics("addon_operator_", exists);
});

const HOOK = { hook: "a.sh" };

/** The sample lines, without comments. */
function samples(): string[] {
  return metrics
    .renderText()
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
}

/** What may be given beside name and value. */
interface More {
  readonly labels?: Readonly<Record<string, string>>;
  readonly group?: string;
}

function add(name: string, value: number, { labels = {}, group }: More = {}): MetricOperation {
  return { action: "add", name, value, labels, group };
}

function set(name: string, value: number, { labels = {}, group }: More = {}): MetricOperation {
  return { action: "set", name, value, labels, group };
}

function observe(name: string, buckets: readonly number[], { value = 1, labels = {} } = {}): MetricOperation {
  return { action: "observe", name, value, buckets, labels, group: undefined };
}

function expire(of: { readonly name?: string; readonly group?: string } = {}): MetricOperation {
  return { action: "expire", name: of.name, group: of.group };
}

describe("metrics made by hooks", () => {
  test("ungrouped ones accumulate over runs", () => {
    metrics.apply([add("jobs", 2), set("level", 5)], HOOK);
    metrics.apply([add("jobs", 0.5), set("level", 3)], HOOK);
    expect(metrics.renderText()).toBe(
      [
        "# HELP jobs jobs",
        "# TYPE jobs counter",
        'jobs{hook="a.sh"} 2.5',
        "# HELP level level",
        "# TYPE level gauge",
        'level{hook="a.sh"} 3',
        "",
      ].join("\n"),
    );
  });

  test("labels hook and module are the owner's", () => {
    metrics.apply([add("jobs", 1, { labels: { hook: "forged", module: "forged", x: "1" } })], {
      hook: "a.sh",
      module: "m",
    });
    expect(samples()).toEqual(['jobs{hook="a.sh",module="m",x="1"} 1']);
  });

  test("labels of a hook are left as they are, secrets too", () => {
    metrics.apply([add("jobs", 1, { labels: { url: "https://me:hunter2@db", password: "x" } })], HOOK);
    expect(samples()).toEqual(['jobs{hook="a.sh",password="x",url="https://me:hunter2@db"} 1']);
  });

  test("a histogram", () => {
    const took = (value: number) => observe("took", [1, 5], { value, labels: { le2: "x" } });
    metrics.apply([took(0.5), took(1)], HOOK);
    metrics.apply([took(3), took(100)], HOOK);
    expect(samples()).toEqual([
      'took_bucket{le="1",hook="a.sh",le2="x"} 2',
      'took_bucket{le="5",hook="a.sh",le2="x"} 3',
      'took_bucket{le="+Inf",hook="a.sh",le2="x"} 4',
      'took_sum{hook="a.sh",le2="x"} 104.5',
      'took_count{hook="a.sh",le2="x"} 4',
    ]);
  });

  test("different label sets of one name are filled up to their union", () => {
    metrics.apply([set("x", 1, { labels: { a: "1" } }), set("x", 2, { labels: { b: "2" } })], HOOK);
    expect(samples()).toEqual(['x{a="1",b="",hook="a.sh"} 1', 'x{a="",b="2",hook="a.sh"} 2']);
  });

  test("a label that is called like a member of every object is empty where it lacks", () => {
    metrics.apply([add("m", 1, { labels: { constructor: "x" } }), add("m", 1)], HOOK);
    expect(samples()).toContain('m{constructor="",hook="a.sh"} 1');
  });

  test("label values are escaped", () => {
    metrics.apply([set("x", 1, { labels: { a: 'q"b\\n\n' } })], HOOK);
    expect(samples()).toEqual(['x{a="q\\"b\\\\n\\n",hook="a.sh"} 1']);
  });

  test("the same label values in another order are the same series", () => {
    metrics.apply(
      [add("x", 1, { labels: { a: "1", b: "2" } }), add("x", 1, { labels: { b: "2", a: "1" } })],
      HOOK,
    );
    expect(samples()).toEqual(['x{a="1",b="2",hook="a.sh"} 2']);
  });

  test("a group is replaced by each run that names it, whichever hook made it; others stay", () => {
    metrics.apply(
      [set("x", 1, { group: "g", labels: { o: "old" } }), set("y", 1, { group: "h" }), add("z", 1)],
      HOOK,
    );
    metrics.apply([set("x", 2, { group: "g", labels: { o: "new" } })], { hook: "b.sh" });
    expect(samples()).toEqual(['x{hook="b.sh",o="new"} 2', 'y{hook="a.sh"} 1', 'z{hook="a.sh"} 1']);
  });

  test("within a run a group adds up", () => {
    metrics.apply([add("x", 1, { group: "g" }), add("x", 2, { group: "g" })], HOOK);
    metrics.apply([add("x", 1, { group: "g" }), add("x", 3, { group: "g" })], HOOK);
    expect(samples()).toEqual(['x{hook="a.sh"} 4']);
  });

  test("expire without a group drops what this hook accumulated, or one name of it", () => {
    metrics.apply([add("x", 1), add("y", 1), set("z", 1, { group: "g" })], HOOK);
    metrics.apply([add("x", 1)], { hook: "b.sh" });
    metrics.apply([expire({ name: "x" })], HOOK);
    expect(samples()).toEqual(['x{hook="b.sh"} 1', 'y{hook="a.sh"} 1', 'z{hook="a.sh"} 1']);
    metrics.apply([expire(), add("y", 5)], HOOK);
    expect(samples()).toEqual(['x{hook="b.sh"} 1', 'y{hook="a.sh"} 5', 'z{hook="a.sh"} 1']);
  });

  test("all that a hook made goes with it", () => {
    metrics.apply([add("x", 1), set("y", 1, { group: "g" })], HOOK);
    metrics.apply([add("x", 1)], { hook: "b.sh" });
    metrics.apply([add("x", 1)], { ...HOOK, module: "other" });
    missing.push("a.sh of undefined");
    expect(samples()).toEqual(['x{hook="b.sh",module=""} 1', 'x{hook="a.sh",module="other"} 1']);
    missing.push("b.sh of undefined", "a.sh of other");
    expect(metrics.renderText()).toBe("");
  });

  test("hooks of two modules may have one name", () => {
    metrics.apply([add("x", 1)], { hook: "a.sh", module: "one" });
    metrics.apply([add("x", 1)], { hook: "a.sh", module: "two" });
    metrics.apply([expire()], { hook: "a.sh", module: "one" });
    expect(samples()).toEqual(['x{hook="a.sh",module="two"} 1']);
  });

  test("a name that lost its last series may come back with another type", () => {
    metrics.apply([add("x", 1, { group: "g" })], HOOK);
    metrics.apply([set("x", 4, { group: "g" })], HOOK);
    expect(metrics.renderText()).toContain("# TYPE x gauge");
  });

  test("other buckets start the histogram anew", () => {
    metrics.apply([observe("t", [1])], HOOK);
    metrics.apply([observe("t", [2])], HOOK);
    expect(samples()).toContain('t_count{hook="a.sh"} 1');
  });

  test("expire of a group removes what the lines before it report, and nothing of later lines", () => {
    const expireGroup: MetricOperation = { ...expire(), group: "g" };
    metrics.apply([set("a", 1, { group: "g" }), expireGroup], HOOK);
    expect(samples()).toEqual([]);
    metrics.apply([set("a", 1, { group: "g" }), set("c", 3), expireGroup, set("b", 2, { group: "g" })], HOOK);
    expect(samples()).toEqual(['b{hook="a.sh"} 2', 'c{hook="a.sh"} 3']);
  });

  test("{PREFIX} in a name is the operator's prefix", () => {
    metrics.apply([add("{PREFIX}x", 1)], HOOK);
    expect(samples()).toEqual(['addon_operator_x{hook="a.sh"} 1']);
  });

  describe("at the limit of series", () => {
    const label = (x: string) => ({ labels: { x } });
    beforeEach(() => {
      const exists = ({ hook }: HookMetricOwner): boolean => !missing.includes(hook);
      metrics = new HookMetrics("", exists, 5);
      metrics.apply([add("x", 1, label("1")), add("x", 1, label("2")), set("y", 1, { group: "g" })], HOOK);
    });

    test.each<[string, MetricOperation[]]>([
      ["x", [add("x", 1, label("1")), add("x", 1, label("3")), add("x", 1, label("4")), add("x", 1)]],
      ["t", [set("y", 9, { group: "g" }), observe("t", [1])]],
      ["x", [add("x", 1, label("a".repeat(1000)))]],
    ])("a run that exceeds it with %s changes nothing", (name, operations) => {
      const before = metrics.renderText();
      const message =
        `metric ${name}: the hooks would have more than 5 series of metrics: report the metrics in a group, ` +
        'which each run replaces, or remove old ones with the action "expire"';
      expect(() => metrics.apply(operations, HOOK)).toThrow(new HookMetricError(message));
      expect(metrics.renderText()).toBe(before);
      metrics.apply([add("x", 1, label("3")), add("x", 1, label("4"))], HOOK);
      expect(samples()).toHaveLength(5);
    });

    test("series that exist, that a run replaces or removes, and of deleted hooks do not count", () => {
      for (const value of [1, 2, 3]) {
        const grouped = ["1", "2", "3"].map((x) => set("y", value, { group: "g", labels: { x } }));
        metrics.apply([add("x", 1, label("1")), add("x", 1, label("2")), ...grouped], HOOK);
      }
      expect(samples()).toHaveLength(5);
      expect(samples()).toContain('x{hook="a.sh",x="1"} 4');
      metrics.apply([expire(), expire({ group: "g" }), observe("t", [1, 2])], HOOK);
      expect(samples()).toHaveLength(5);
      missing.push("a.sh");
      metrics.apply([observe("u", [1, 2])], { hook: "b.sh" });
      expect(samples()).toHaveLength(5);
    });
  });

  test.each<[string, MetricOperation[]]>([
    ['metric x is a counter already, "set" makes a gauge', [set("x", 1)]],
    ['metric x is a counter already, "observe" makes a histogram', [observe("x", [1])]],
    [
      'metric addon_operator_x is a gauge already, "add" makes a counter',
      [set("{PREFIX}x", 1), add("addon_operator_x", 1)],
    ],
    ["metric y: a value is needed", [set("y", Infinity)]],
    ['metric y: the label "le" is the histogram\'s own', [observe("y", [1], { labels: { le: "1" } })]],
    ['"a-b" is no name for a metric', [set("a-b", 1)]],
  ])("refused: %s", (message, operations) => {
    metrics.apply([add("x", 1), set("kept", 1, { group: "g" })], HOOK);
    const before = metrics.renderText();
    const batch: MetricOperation[] = [set("kept", 2, { group: "g" }), expire(), ...operations];
    expect(() => metrics.apply(batch, { hook: "b.sh" })).toThrow(new HookMetricError(message));
    expect(metrics.renderText()).toBe(before);
  });
});
