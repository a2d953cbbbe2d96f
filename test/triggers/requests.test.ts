import { expect, it } from "vitest";

import { silentLogger } from "../../src/lib/index.ts";
import type { Module } from "../../src/model/index.ts";
import { annotationToken, State } from "../../src/state/index.ts";
import { REQUESTED_AT, Requests } from "../../src/triggers/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

function world(refresh: () => Promise<boolean> = () => Promise.resolve(true)) {
  const state = new State({ clock: new ManualClock(0) });
  const asked: string[] = [];
  const warnings: string[] = [];
  state.recordRequest = (module, token) => void asked.push(`${module}: ${token}`);
  const logger = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  return { state, asked, warnings, requests: new Requests({ state, config: { refresh }, logger }) };
}

it("takes each token once", async () => {
  const { requests, asked } = world();
  requests.look("a", { [REQUESTED_AT]: "one" });
  requests.look("a", { [REQUESTED_AT]: "one" });
  requests.look("a", undefined);
  requests.look("a", { [REQUESTED_AT]: "one" });
  requests.look(undefined, { [REQUESTED_AT]: "two" });
  await settle();
  expect(asked).toEqual(["a: one", "undefined: two"]);
});

it("takes no token that is long, or no plain text", async () => {
  const { requests, asked, warnings } = world();
  for (const token of ["x".repeat(257), "a\nb", "\u00e9", "", "x".repeat(256)])
    requests.look("a", { [REQUESTED_AT]: token });
  await settle();
  expect(asked).toEqual([`a: ${"x".repeat(256)}`]);
  expect(warnings).toHaveLength(4);
});

it("reads the ConfigMap before it takes a request, which counts even if that fails", async () => {
  const { promise, reject } = Promise.withResolvers<boolean>();
  const { requests, asked, warnings } = world(() => promise);
  requests.look("a", { [REQUESTED_AT]: "one" });
  await settle();
  expect(asked).toEqual([]);
  reject(new Error("no answer"));
  await settle();
  expect([asked, warnings]).toEqual([["a: one"], ["The ConfigMap cannot be read"]]);
});

it("keeps what a person confirms of a module, and its end", () => {
  const { state, requests } = world();
  state.recordTree({ ...state.tree, modules: [{ name: "a", valuesKey: "a" } as Module] });
  const told = (): unknown[] => {
    const { confirmedCrds, confirmedTakeover } = state.module("a") ?? {};
    return [confirmedCrds, confirmedTakeover];
  };
  requests.look("a", { "addon-operator.io/confirm-crds": "c", "addon-operator.io/confirm-takeover": "t" });
  expect(told()).toEqual(["c", "t"]);
  requests.look("a", {});
  expect(told()).toEqual([undefined, undefined]);
});

it("takes the confirmation of a removal from the AddonOperator alone, and its end", () => {
  const { state, requests } = world();
  const confirmed = { "addon-operator.io/confirm-delete": "7" };
  requests.look("a", confirmed);
  expect(state.view.confirmation).toBeUndefined();
  requests.look(undefined, confirmed);
  expect(state.view.confirmation).toBe("7");
  requests.look(undefined, undefined);
  expect(state.view.confirmation).toBeUndefined();
});

it("takes no token that a status names as answered, for modules and for a converge", async () => {
  const state = new State({ clock: new ManualClock(0) });
  const modules = [{ name: "a", valuesKey: "a" }];
  const refresh = () => Promise.resolve(true);
  const requests = new Requests({ state, config: { refresh }, logger: silentLogger });
  requests.look(undefined, { [REQUESTED_AT]: "two" }, "two");
  await settle();
  expect(state.view).toMatchObject({ requestedToken: "two", handledToken: "two" });
  requests.look(undefined, { [REQUESTED_AT]: "four" }, "not\nplain");
  await settle();
  expect(state.view).toMatchObject({ requestedToken: "four", handledToken: "two" });

  state.recordTree({ ...state.tree, modules } as unknown as typeof state.tree);
  requests.look("a", { [REQUESTED_AT]: "one" }, "one");
  await settle();
  expect(state.module("a")).toMatchObject({ requestedToken: "one", run: { handled: { token: "one" } } });
  requests.look("a", { [REQUESTED_AT]: "three" }, "one");
  await settle();
  expect(state.module("a")).toMatchObject({ requestedToken: "three", run: { handled: { token: "one" } } });
});

it("keeps the token of the annotation through requests that have none, each of which counts", () => {
  const state = new State({ clock: new ManualClock(0) });
  state.recordRequest(undefined, "one");
  const seen = [state.view.requestedToken];
  for (let request = 0; request < 2; request++) {
    state.recordRequest(undefined);
    seen.push(state.view.requestedToken);
  }
  expect(new Set(seen).size).toBe(3);
  expect(seen.map(annotationToken)).toEqual(["one", "one", "one"]);
  const fresh = new State({ clock: new ManualClock(0) });
  fresh.recordRequest(undefined);
  expect(fresh.view.requestedToken).toBeDefined();
  expect(annotationToken(fresh.view.requestedToken)).toBeUndefined();
});
