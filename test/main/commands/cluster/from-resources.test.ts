import { expect, it } from "vitest";

import {
  describeConfigProblem,
  explainState,
  readResources,
} from "../../../../src/main/commands/cluster/from-resources.ts";
import { readyExitCode } from "../../../../src/main/commands/operator/overview.ts";
import { formatMicroTime } from "../../../../src/kube/resources.ts";
import { KnownSecrets } from "../../../../src/base/index.ts";
import { Projector, type IAddonModule, type IAddonOperator } from "../../../../src/report/index.ts";
import { T0, overviewOf, whyOf } from "../../../report/views.ts";
import { ailingView } from "../../../support/overviews.ts";

interface LeaseLike {
  readonly holderIdentity?: string;
  readonly renewTime?: number;
}

const byNameOf = (modules: readonly IAddonModule[]) =>
  new Map(modules.map((module) => [module.metadata.name, module]));

const READY = { state: "Ready", conditions: [{ type: "Ready", status: "True", message: "all well" }] };

/** The resources as the operator writes them. */
function resources(): { operator: IAddonOperator; modules: IAddonModule[] } {
  const projected = new Projector("none", new KnownSecrets()).project({ view: ailingView(), queues: [] }, T0);
  const modules = [...projected.modules].map(([name, each]) => ({ metadata: { name }, ...each }));
  return { operator: { status: projected.operatorStatus }, modules } as unknown as ReturnType<
    typeof resources
  >;
}

it("returns the same overview from AddonModules as the operator, in the same order", () => {
  const { operator, modules } = resources();
  const known = overviewOf({ view: ailingView(), queues: [] });
  const displayed = readResources({ operator, modules: modules.toReversed() }, T0);
  const byName = ({ modules: rows, ...rest }: typeof known) => ({
    ...rest,
    modules: Object.fromEntries(rows.map((row) => [row.name, row])),
  });
  expect(byName(displayed)).toEqual(byName(known));
  expect(displayed.modules.map(({ name }) => name)).toEqual(["cache", "db", "shop", "web"]);
  expect(displayed.modules.find(({ name }) => name === "db")).toMatchObject({
    failingSince: "2025-12-31T23:58:00Z",
    lastRun: { seconds: 5, attempts: 3 },
  });
});

it("reads what an operator with an older CRD has written", () => {
  const { operator, modules } = resources();
  const added: ReadonlySet<string> = new Set([
    "reasons",
    "warnings",
    "waitsFor",
    "failingSince",
    "chartVersion",
    "driftedObjects",
  ]);
  const old = modules.map(({ status, ...rest }) => {
    const known = Object.entries(status ?? {}).filter(([field]) => !added.has(field));
    return { ...rest, status: Object.fromEntries(known) };
  });
  const rows = readResources({ operator, modules: old }, T0).modules;
  expect(rows.find(({ name }) => name === "web")).toMatchObject({
    state: "Pending",
    message: expect.stringMatching(/^waits for db, which is not Ready/),
  });
  expect(rows.find(({ name }) => name === "shop")?.drifted).toBe(1);
  expect(explainState("web", byNameOf(old))).toEqual([
    expect.stringMatching(/^web: Pending: waits for db, which is not Ready/),
    "Enabled by the ConfigMap",
  ]);
});

it.each([
  ["is renewed", { holderIdentity: "pod-1/7", renewTime: T0 - 17_000 }, undefined],
  [
    "is not renewed",
    { holderIdentity: "pod-1/7", renewTime: T0 - 66_000 },
    "pod-1 has not renewed its Lease since",
  ],
  ["was released", { holderIdentity: "", renewTime: T0 }, "its Lease has no holder since"],
  ["does not exist", {}, "its Lease has no holder."],
])(
  "where the Lease %s, the status says whether an operator runs",
  (_, { renewTime, ...lease }: LeaseLike, why) => {
    const { operator } = resources();
    const spec =
      renewTime === undefined
        ? lease
        : { ...lease, leaseDurationSeconds: 35, renewTime: formatMicroTime(renewTime) };
    const overview = readResources(
      { operator: { ...operator, status: READY } as unknown as IAddonOperator, modules: [], lease: spec },
      T0,
    );
    expect(readyExitCode(overview)).toBe(why === undefined ? 0 : 1);
    const message =
      why === undefined ? "^all well$" : `^The operator is not running: ${why}.* Its last status: all well$`;
    expect(overview.message).toMatch(new RegExp(message));
  },
);

it("says since when the status was not renewed as soon as the Lease is late", () => {
  const { operator } = resources();
  const lease = {
    holderIdentity: "pod-1/7",
    leaseDurationSeconds: 35,
    renewTime: formatMicroTime(T0 - 18_000),
  };
  const late = { operator: { ...operator, status: READY } as unknown as IAddonOperator, modules: [], lease };
  const { message, ready } = readResources(late, T0);
  const at = new Date(T0 - 18_000).toISOString().slice(0, 19);
  expect(message).toBe(
    `The operator last renewed its Lease 18 s ago, at ${at}Z: this status may be outdated. all well`,
  );
  expect(ready).toBe("True");
});

it("a run under way has lasted since its start, and a cluster without an operator says so", () => {
  const lastRun = { startedAt: "2026-01-01T00:00:00Z", step: "helm" };
  const module = { metadata: { name: "web" }, status: { lastRun } } as unknown as IAddonModule;
  expect(readResources({ operator: undefined, modules: [module] }, T0 + 4000)).toMatchObject({
    ready: "Unknown",
    message: "the AddonOperator does not exist",
    modules: [{ name: "web", state: "Pending", lastRun: { seconds: 4 } }],
  });
});

it("explains a module, and those for which it waits, in the words of `module why`", () => {
  const { modules } = resources();
  const [headline, ...lines] = explainState("web", byNameOf(modules));
  expect(headline).toMatch(/^web: Pending: waits for db, which is not Ready/);
  const why = whyOf({ view: ailingView(), queues: [] }, "web");
  expect(why).toContain(
    "db: failed 3 times since 2025-12-31T23:58:00Z (HelmFailed): helm upgrade: timeout: StatefulSet db/db is not ready",
  );
  expect(lines).toEqual(why.filter((sentence) => !headline?.includes(sentence)));
});

it("lists the objects that are not as they should be, too", () => {
  expect(explainState("shop", byNameOf(resources().modules))).toContain(
    "shop/Deployment/web: kubectl changed spec.replicas",
  );
});

it("names the fault of the ConfigMap for `why`, and no other reason of the AddonOperator", () => {
  const withReady = (reason: string) =>
    ({
      status: {
        conditions: [{ type: "Ready", status: "False", reason, message: "ConfigMap a: webEnabled: wrong" }],
      },
    }) as unknown as IAddonOperator;
  expect(describeConfigProblem(withReady("ConfigMapInvalid"))).toBe("ConfigMap a: webEnabled: wrong");
  expect(describeConfigProblem(withReady("ConfigMapMissing"))).toBe("ConfigMap a: webEnabled: wrong");
  expect(describeConfigProblem(withReady("ReloadHeldUp"))).toBeUndefined();
  expect(describeConfigProblem(undefined)).toBeUndefined();
});
