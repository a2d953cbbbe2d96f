import { expect, it } from "vitest";

import {
  describeConfigProblem,
  explainState,
  toOverview,
} from "../../../src/commands/cluster/from-resources.ts";
import { readyExitCode } from "../../../src/commands/operator/overview.ts";
import { formatMicroTime } from "../../../src/kube/resources.ts";
import { KnownSecrets } from "../../../src/lib/index.ts";
import type { ModuleView } from "../../../src/state/index.ts";
import {
  Projector,
  buildOverview,
  type IAddonModule,
  type IAddonOperator,
} from "../../../src/status/index.ts";
import { moduleView, T0, viewOf } from "../../status/views.ts";
import { ailingView } from "../../support/overviews.ts";
import { describeEnablement, explainModule } from "../../../src/status/index.ts";

interface LeaseLike {
  readonly holderIdentity?: string;
  readonly renewTime?: number;
}

const READY = { state: "Ready", conditions: [{ type: "Ready", status: "True", message: "all well" }] };

/** The resources as the operator writes them. */
function resources(): { operator: IAddonOperator; modules: IAddonModule[] } {
  const projected = new Projector("none", new KnownSecrets()).project({ view: ailingView(), queues: [] }, T0);
  const modules = [...projected.modules].map(([name, each]) => ({ metadata: { name }, ...each }));
  return { operator: { status: projected.operatorStatus }, modules } as unknown as ReturnType<
    typeof resources
  >;
}

it("returns the same overview from AddonModules as the operator", () => {
  const { operator, modules } = resources();
  const known = buildOverview({ view: ailingView(), queues: [] }, T0);
  const displayed = toOverview({ operator, modules: modules.toReversed() }, T0);
  expect(displayed).toMatchObject({ state: known.state, ready: known.ready, message: known.message });
  const short = ({ modules: rows }: typeof known) =>
    rows.map(({ name, state, ready, message, waitsFor, enabled }) => [
      name,
      state,
      ready,
      message,
      waitsFor,
      enabled,
    ]);
  const byName = (rows: ReturnType<typeof short>) =>
    rows.toSorted((a, b) => String(a[0]).localeCompare(String(b[0])));
  expect(byName(short(displayed))).toEqual(byName(short(known)));
  expect(displayed.modules.find(({ name }) => name === "db")?.lastRun).toMatchObject({
    seconds: 5,
    attempts: 3,
  });
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
    const overview = toOverview(
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
  const { message, ready } = toOverview(late, T0);
  const at = new Date(T0 - 18_000).toISOString().slice(0, 19);
  expect(message).toBe(
    `The operator last renewed its Lease 18 s ago, at ${at}Z: this status may be outdated. all well`,
  );
  expect(ready).toBe("True");
});

it("a run under way has lasted since its start, and a cluster without an operator says so", () => {
  const lastRun = { startedAt: "2026-01-01T00:00:00Z", step: "helm" };
  const module = { metadata: { name: "web" }, status: { lastRun } } as unknown as IAddonModule;
  expect(toOverview({ operator: undefined, modules: [module] }, T0 + 4000)).toMatchObject({
    ready: "Unknown",
    message: "the AddonOperator does not exist",
    modules: [{ name: "web", state: "Pending", lastRun: { seconds: 4 } }],
  });
});

it("explains a module by all that is not as it should be", () => {
  const web = resources().modules.find(({ metadata }) => metadata?.name === "web");
  const lines = explainState(web ?? ({} as IAddonModule));
  expect(lines[0]).toMatch(/^web: Pending: waits for db, which is not Ready/);
  expect(lines).toContain("it requires db, which is not Ready");
});

it("says the same of an AddonModule as `module why` says of the module", () => {
  const web = moduleView("web", {
    suspended: true,
    missingObjects: ["default/Deployment/web"],
    health: {
      status: "False",
      reason: "Unhealthy",
      message: "Pod web-0: CrashLoopBackOff",
    } as ModuleView["health"],
  });
  const at = { view: viewOf([web]), queues: [] };
  const status = {
    state: "Running",
    absent: web.missingObjects,
    conditions: [
      { type: "Ready", status: "Unknown", message: "Running helm" },
      { type: "Enabled", status: "True", message: describeEnablement(web) },
      { type: "Suspended", status: "True", message: "The ConfigMap sets NoResourceReconciliation" },
      { type: "Healthy", status: "False", message: "Pod web-0: CrashLoopBackOff" },
    ],
  };
  const object = { metadata: { name: "web" }, status } as unknown as IAddonModule;
  expect(explainState(object)).toEqual(["web: Running: Running helm", ...explainModule(web, at)]);
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
