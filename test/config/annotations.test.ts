import { expect, it } from "vitest";

import { silentLogger } from "../../src/base/index.ts";
import type { Module } from "../../src/base/model/index.ts";
import { readAnnotationToken, State } from "../../src/engine/state/index.ts";
import { REQUESTED_AT } from "../../src/base/model/index.ts";
import { Annotations } from "../../src/config/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

function world(refresh: () => Promise<boolean> = () => Promise.resolve(true)) {
  const state = new State({ clock: new ManualClock(0) });
  const requested: string[] = [];
  const warnings: string[] = [];
  const record = state.record.bind(state);
  const recordModule = state.recordModule.bind(state);
  state.record = (event, ...details) => {
    if (event === "convergeRequested") requested.push(`undefined: ${String(details[0])}`);
    record(event, ...details);
  };
  state.recordModule = (module, event, ...details) => {
    if (event === "runRequested") requested.push(`${module}: ${String(details[0])}`);
    recordModule(module, event, ...details);
  };
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  return { state, requested, warnings, annotations: new Annotations({ state, config: { refresh }, logger }) };
}

it("takes each token once", async () => {
  const { annotations, requested } = world();
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "one" });
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "one" });
  annotations.handleAnnotations("a", undefined);
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "one" });
  annotations.handleAnnotations(undefined, { [REQUESTED_AT]: "two" });
  await settle();
  expect(requested).toEqual(["a: one", "undefined: two"]);
});

it("takes no token that is long, or no plain text", async () => {
  const { annotations, requested, warnings } = world();
  for (const token of ["x".repeat(257), "a\nb", "\u00e9", "", "x".repeat(256)])
    annotations.handleAnnotations("a", { [REQUESTED_AT]: token });
  await settle();
  expect(requested).toEqual([`a: ${"x".repeat(256)}`]);
  expect(warnings).toHaveLength(4);
});

it("reads the ConfigMap before it takes a request, which counts even if that fails", async () => {
  const { promise, reject } = Promise.withResolvers<boolean>();
  const { annotations, requested, warnings } = world(() => promise);
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "one" });
  await settle();
  expect(requested).toEqual([]);
  reject(new Error("no answer"));
  await settle();
  expect([requested, warnings]).toEqual([["a: one"], ["The ConfigMap cannot be read"]]);
});

it("keeps what a person confirms of a module, and its end", () => {
  const { state, annotations } = world();
  state.recordTree({ ...state.tree, modules: [{ name: "a", valuesKey: "a" } as Module] });
  const reported = (): unknown[] => {
    const { confirmedCrds, confirmedTakeover } = state.module("a") ?? {};
    return [confirmedCrds, confirmedTakeover];
  };
  annotations.handleAnnotations("a", {
    "addon-operator.io/confirm-crds": "c",
    "addon-operator.io/confirm-takeover": "t",
  });
  expect(reported()).toEqual(["c", "t"]);
  annotations.handleAnnotations("a", {});
  expect(reported()).toEqual([undefined, undefined]);
});

it("ignores an ended confirmation until its annotation is removed, and accepts the same token after that", () => {
  const { state, annotations } = world();
  state.recordTree({ ...state.tree, modules: [{ name: "a", valuesKey: "a" } as Module] });
  const given = { "addon-operator.io/confirm-crds": "c", "addon-operator.io/confirm-takeover": "t" };
  const reported = (): unknown[] => {
    const { confirmedCrds, confirmedTakeover, endedConfirmations } = state.module("a") ?? {};
    return [confirmedCrds, confirmedTakeover, endedConfirmations];
  };
  annotations.handleAnnotations("a", given);
  state.recordModule("a", "confirmationEnded", "confirmedCrds", "c");
  const ended = { "addon-operator.io/confirm-crds": "c" };
  expect(reported()).toEqual([undefined, "t", ended]);
  annotations.handleAnnotations("a", { ...given });
  expect(reported()).toEqual([undefined, "t", ended]);
  annotations.handleAnnotations("a", { "addon-operator.io/confirm-takeover": "t" });
  expect(reported()).toEqual([undefined, "t", {}]);
  annotations.handleAnnotations("a", given);
  expect(reported()).toEqual(["c", "t", {}]);
  // A token that a user gives while the run with the earlier one is in progress stays.
  state.recordModule("a", "confirmationEnded", "confirmedTakeover", "earlier");
  expect(reported()).toEqual(["c", "t", {}]);
});

it("takes the confirmation of a removal from the AddonOperator alone, and its end", () => {
  const { state, annotations } = world();
  const confirmed = { "addon-operator.io/confirm-delete": "7" };
  annotations.handleAnnotations("a", confirmed);
  expect(state.view.confirmation).toBeUndefined();
  annotations.handleAnnotations(undefined, confirmed);
  expect(state.view.confirmation).toBe("7");
  annotations.handleAnnotations(undefined, undefined);
  expect(state.view.confirmation).toBeUndefined();
});

it("takes no token that a status names as answered, for modules and for a converge", async () => {
  const state = new State({ clock: new ManualClock(0) });
  const modules = [{ name: "a", valuesKey: "a" }];
  const refresh = () => Promise.resolve(true);
  const annotations = new Annotations({ state, config: { refresh }, logger: silentLogger });
  annotations.handleAnnotations(undefined, { [REQUESTED_AT]: "two" }, "two");
  await settle();
  expect(state.view).toMatchObject({ requestedToken: "two", handledToken: "two", convergedToken: "two" });
  annotations.handleAnnotations(undefined, { [REQUESTED_AT]: "four" }, "not\nplain");
  await settle();
  expect(state.view).toMatchObject({ requestedToken: "four", handledToken: "two", convergedToken: "two" });

  state.recordTree({ ...state.tree, modules } as unknown as typeof state.tree);
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "one" }, "one");
  await settle();
  expect(state.module("a")).toMatchObject({ requestedToken: "one", run: { handled: { token: "one" } } });
  annotations.handleAnnotations("a", { [REQUESTED_AT]: "three" }, "one");
  await settle();
  expect(state.module("a")).toMatchObject({ requestedToken: "three", run: { handled: { token: "one" } } });
});

it("keeps the token of the annotation through annotations that have none, each of which counts", () => {
  const state = new State({ clock: new ManualClock(0) });
  state.record("convergeRequested", "one");
  const seen = [state.view.requestedToken];
  for (let request = 0; request < 2; request++) {
    state.record("convergeRequested");
    seen.push(state.view.requestedToken);
  }
  expect(new Set(seen).size).toBe(3);
  expect(seen.map(readAnnotationToken)).toEqual(["one", "one", "one"]);
  const fresh = new State({ clock: new ManualClock(0) });
  fresh.record("convergeRequested");
  expect(fresh.view.requestedToken).toBeDefined();
  expect(readAnnotationToken(fresh.view.requestedToken)).toBeUndefined();
});
