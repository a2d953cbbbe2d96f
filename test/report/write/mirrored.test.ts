import { expect, test } from "vitest";

import { KnownSecrets } from "../../../src/base/index.ts";
import { requiredKey } from "../../../src/base/model/index.ts";
import type { ModuleView, View } from "../../../src/engine/state/index.ts";
import { differsInTextOnly } from "../../../src/report/write/mirrored.ts";
import { Projector } from "../../../src/report/project/projector.ts";
import type { ModuleStatus } from "../../../src/report/models/kinds.ts";
import { T0, moduleView, viewOf } from "../views.ts";

// docs/reference/status.md, "States of a module": what a module requires, one by one.

const secret = { apiVersion: "v1", kind: "Secret", namespace: "ns", name: "ca" };

function requiring(requires: ModuleView["module"]["requires"], change: Partial<ModuleView> = {}): ModuleView {
  const view = moduleView("a", { blockedSince: T0, ...change });
  return { ...view, module: { ...view.module, requires } };
}

function shower(): (view: View, later?: number) => ModuleStatus {
  const projector = new Projector("none", new KnownSecrets());
  return (view, later = 0) => {
    const status = projector.project({ view, queues: [] }, T0 + later).modules.get("a")?.status;
    if (status === undefined) throw new Error("nothing is shown");
    return status;
  };
}

const three = requiring({ kubernetes: ">=1.30", modules: { b: ">=1" }, objects: [secret] });
const found = (message?: string): Partial<View> => ({
  serverVersion: "v1.31.2",
  objects: new Map([[requiredKey(secret), { message }]]),
});

test("each requirement is shown with its state, what is not met first, and since when", () => {
  const show = shower();
  const [first, later] = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"];
  const off = moduleView("b", { enabled: false });
  expect(show(viewOf([three, off], found("is not there")))).toMatchObject({
    requiresMet: "1/3",
    requires: [
      {
        of: "module",
        name: "b",
        range: ">=1",
        met: false,
        reason: "DependencyDisabled",
        message: "is disabled",
      },
      {
        of: "object",
        name: "ns/Secret/ca",
        met: false,
        reason: "DependencyMissing",
        message: "is not there",
      },
      { of: "kubernetes", name: "Kubernetes", range: ">=1.30", met: true, since: first },
    ],
  });
  expect(show(viewOf([three, moduleView("b")], found("is not Issued")), 9000)).toMatchObject({
    requiresMet: "2/3",
    requires: [
      // Other words for what is still not met.
      { name: "ns/Secret/ca", message: "is not Issued", since: first },
      { name: "Kubernetes", since: first },
      { name: "b", met: true, since: later },
    ],
  });
});

test("of very many, twenty are shown, and all are counted", () => {
  const modules = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`m${n}`, "*"]));
  const { requires = [], requiresMet } = shower()(viewOf([requiring({ modules })]));
  expect(requires).toHaveLength(20);
  expect(requiresMet).toBe("0/60");
});

test("of a module that runs, what is only being worked on is met, and what is broken is not", () => {
  const show = shower();
  const runs = requiring({ modules: { b: "*" } }, { blockedSince: undefined });
  const met = (change: Partial<ModuleView>): boolean | undefined =>
    show(viewOf([runs, moduleView("b", change)])).requires?.[0]?.met;
  expect(met({ activity: "running" })).toBe(true);
  expect(met({ retry: { reason: "HelmFailed", message: "no", failures: 1, since: 0 } })).toBe(false);
});

test("nothing is shown of a module that is off, or that requires nothing", () => {
  for (const module of [requiring({ modules: { b: "*" } }, { enabled: false }), moduleView("a")])
    expect(Object.keys(shower()(viewOf([module])))).not.toContain("requires");
});

test("other words are no news by themselves, another count is", () => {
  const show = shower();
  const before = show(viewOf([three, moduleView("b")], found("is not there")));
  const words = show(viewOf([three, moduleView("b")], found("is not Issued")));
  const fewer = show(viewOf([three], found("is not there")));
  expect(words.requires).not.toEqual(before.requires);
  expect(words.reasons).not.toEqual(before.reasons);
  expect([differsInTextOnly(before, words), differsInTextOnly(before, fewer)]).toEqual([true, false]);
});
