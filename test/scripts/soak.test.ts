import { expect, test } from "vitest";

import { differences, expected, initialState } from "../../scripts/soak/model.mjs";
import type { DeclaredState, Found } from "../../scripts/soak/model.mjs";
import { fit, intervals, trend } from "../../scripts/soak/trend.mjs";
import type { Sample } from "../../scripts/soak/trend.mjs";
import { random } from "../support/random.ts";

const [FIRST, SEEN, FED] = ["bench-m001", "bench-m011", "fed-a"];

/** A cluster that is as declared. */
function asDeclared(state: DeclaredState): Found {
  const { objects, releases, states } = expected(state);
  const helm = (name: string): boolean => name !== "ConfigMap told";
  return {
    objects: Object.entries(objects).map(([key, data = {}]) => {
      const [kind = "", name = ""] = key.split(" ");
      return { kind, name, data, helm: helm(key) };
    }),
    releases: Object.fromEntries(releases.map((name) => [name, "deployed"])),
    states,
    tickAge: 1,
  };
}

function changed(change: (state: DeclaredState) => void): DeclaredState {
  const state = initialState();
  change(state);
  return state;
}

const wanted = expected(initialState());

test("a cluster as declared differs in nothing", () => {
  expect(differences(wanted, asDeclared(initialState()))).toEqual([]);
});

test("a disabled module has no objects and no release, and an AddonModule that says so", () => {
  const state = changed(({ modules }) => (modules[FIRST]!.flag = false));
  expect(expected(state).objects).not.toHaveProperty(`ConfigMap ${FIRST}`);
  expect(differences(wanted, asDeclared(state))).toEqual([
    `ConfigMap ${FIRST} is missing`,
    `Service ${FIRST} is missing`,
    `ConfigMap ${FIRST}-extra is missing`,
    `release ${FIRST}: nothing in place of "deployed"`,
    `AddonModule ${FIRST}: "Disabled" in place of "Ready"`,
  ]);
});

test("a module without a directory leaves nothing, and what it left is an orphan", () => {
  const state = changed(({ modules }) => (modules[FIRST]!.present = false));
  expect(differences(expected(state), asDeclared(initialState()))).toEqual([
    `ConfigMap ${FIRST} belongs to no release`,
    `Service ${FIRST} belongs to no release`,
    `ConfigMap ${FIRST}-extra belongs to no release`,
    `release ${FIRST}: "deployed" in place of nothing`,
    `AddonModule ${FIRST}: "Ready" in place of nothing`,
  ]);
});

test("values, files, versions, and what hooks saw are compared", () => {
  const state = changed(({ modules, events }) => {
    Object.assign(modules[FIRST]!, { text: "file-1", override: "edit-2" });
    Object.assign(modules[SEEN]!, { text: "file-3", extra: undefined });
    modules[FED]!.version = "1.0.4";
    Object.assign(events, { "event-1": 7, "event-2": 10 });
  });
  expect(differences(expected(state), asDeclared(initialState()))).toEqual([
    `ConfigMap ${FIRST} text: "first" in place of "edit-2"`,
    `ConfigMap ${SEEN} seen: "" in place of "10 7"`,
    `ConfigMap ${SEEN} text: "first" in place of "file-3"`,
    `ConfigMap ${FED} version: "1.0.0" in place of "1.0.4"`,
    'ConfigMap told events: "" in place of "10 7"',
    `ConfigMap ${SEEN}-extra belongs to no release`,
  ]);
});

test("a release that is not deployed and a schedule that stands still differ", () => {
  const found = asDeclared(initialState());
  found.releases[FIRST] = "pending-upgrade";
  found.tickAge = 100;
  expect(differences(wanted, found)).toEqual([
    `release ${FIRST}: "pending-upgrade" in place of "deployed"`,
    "the last tick was 100 s ago",
  ]);
});

test("a line is fitted through samples", () => {
  expect(fit([0, 1, 2, 3].map((minute) => [minute, 5 + 2 * minute]))).toEqual({
    slope: 120,
    error: 0,
    rise: 6,
  });
  const { slope, error } = fit([
    [0, 1],
    [1, 3],
    [2, 1],
    [3, 3],
  ]);
  expect(slope).toBeCloseTo(24);
  expect(error).toBeCloseTo(60 * Math.sqrt(3.2 / 2 / 5));
});

/** Samples of two lives: noise about a line that begins at 100. */
function samples(slope: number, shape: (minute: number) => number = () => 0): Sample[] {
  const roll = random(1);
  const life = (from: number, count: number, number: number): Sample[] =>
    Array.from({ length: count }, (_, index) => {
      const memory = 100 + slope * index + shape(index) + 4 * (roll() - 0.5);
      return { minute: from + index, life: number, memory };
    });
  return [...life(0, 8, 1), ...life(8, 60, 2)];
}

test("a figure grows if it rises clearly and by more than the least after the warm-up of the longest life", () => {
  expect(trend(samples(1), "memory", 10)).toMatchObject({ grows: true, samples: 40, minutes: 39 });
  expect(trend(samples(1), "memory", 50)).toMatchObject({ grows: false });
  expect(trend(samples(0), "memory", 10)).toMatchObject({ grows: false });
  expect(trend(samples(-1), "memory", 10)).toMatchObject({ grows: false });
  // A heap that fills at the beginning.
  expect(
    trend(
      samples(0, (at) => Math.min(at, 20) * 3),
      "memory",
      10,
    ),
  ).toMatchObject({ grows: false });
  expect(trend(samples(1).slice(0, 20), "memory", 10)).toBeUndefined();
});

test("a row sums up ten minutes", () => {
  const taken = [1, 2, 9, 10].map((minute) => ({ minute, life: 1, memory: minute * 10 }));
  expect(intervals(taken, ["memory", "other"])).toEqual([
    ["0–10", "3", "20 (90)", "?"],
    ["10–20", "1", "100 (100)", "?"],
  ]);
});
