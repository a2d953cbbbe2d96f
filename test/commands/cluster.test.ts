import { expect, it } from "vitest";

import { explanationFrom, overviewFrom } from "../../src/commands/cluster/from-resources.ts";
import { KnownSecrets } from "../../src/lib/index.ts";
import { Projector, overviewOf, type IAddonModule, type IAddonOperator } from "../../src/status/index.ts";
import { T0 } from "../status/views.ts";
import { ailingView } from "../support/overviews.ts";

/** The resources as the operator writes them. */
function resources(): { operator: IAddonOperator; modules: IAddonModule[] } {
  const projected = new Projector("none", new KnownSecrets()).project({ view: ailingView(), queues: [] }, T0);
  const modules = [...projected.modules].map(([name, each]) => ({ metadata: { name }, ...each }));
  return { operator: projected.operator, modules } as unknown as ReturnType<typeof resources>;
}

it("tells of AddonModules what the operator tells of itself", () => {
  const { operator, modules } = resources();
  const known = overviewOf({ view: ailingView(), queues: [] }, T0);
  const shown = overviewFrom(operator, modules.toReversed(), T0);
  expect(shown).toMatchObject({ state: known.state, ready: known.ready, message: known.message });
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
  expect(byName(short(shown))).toEqual(byName(short(known)));
  expect(shown.modules.find(({ name }) => name === "db")?.lastRun).toMatchObject({ seconds: 5, attempts: 3 });
});

it("a run under way has lasted since its start, and a cluster without an operator says so", () => {
  const lastRun = { startedAt: "2026-01-01T00:00:00Z", step: "helm" };
  const module = { metadata: { name: "web" }, status: { lastRun } } as unknown as IAddonModule;
  expect(overviewFrom(undefined, [module], T0 + 4000)).toMatchObject({
    ready: "Unknown",
    message: "there is no AddonOperator",
    modules: [{ name: "web", state: "Pending", lastRun: { seconds: 4 } }],
  });
});

it("explains a module by all that is not as it should be", () => {
  const web = resources().modules.find(({ metadata }) => metadata?.name === "web");
  const lines = explanationFrom(web ?? ({} as IAddonModule));
  expect(lines[0]).toMatch(/^web: Pending: waits for db, which is not Ready/);
  expect(lines).toContain("it requires db, which is not Ready");
});
