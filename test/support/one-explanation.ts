import { expect } from "vitest";

import { toOverview } from "../../src/commands/cluster/from-resources.ts";
import { KnownSecrets } from "../../src/lib/index.ts";
import { buildOverview, Projector, type IAddonModule, type IAddonOperator } from "../../src/status/index.ts";
import { buildPageState } from "../../src/ui/view-model.ts";
import type { EngineLab } from "./engine-lab.ts";
import { type StateSnapshot } from "../../src/status/index.ts";

const ABOUT = { version: "0", name: "addon-operator", namespace: "addons" };

/** What all ways to look at a module must agree on, word for word. */
interface Explanation {
  readonly state: string;
  readonly reason?: string;
  readonly message: string;
  readonly ready: string;
  readonly healthy?: string;
}

const pick = ({ state, reason, message, ready, healthy }: Explanation): Explanation => ({
  state,
  message,
  ready,
  ...(reason !== undefined && { reason }),
  ...(healthy !== undefined && { healthy }),
});

/**
 * Compares what a user reads of one moment in three ways: `status` (from the memory of the operator), `kubectl addon` (from the
 * AddonModules and the AddonOperator), and the page. Throws if they differ in state, reason, or message. One checker follows an
 * operator from its start: projections keep what they displayed before.
 */
export function explanationCheck(): (lab: EngineLab) => void {
  const projector = new Projector("none", new KnownSecrets());
  return (lab) => {
    const snapshot: StateSnapshot = { view: lab.state.view, queues: lab.queues.views() };
    const now = lab.clock.now();
    const { operatorStatus, modules } = projector.project(snapshot, now);
    const addonModules = [...modules].map(
      ([name, { spec, status }]) => ({ metadata: { name }, spec, status }) as IAddonModule,
    );
    const operator = { metadata: { name: ABOUT.name }, status: operatorStatus } as IAddonOperator;
    const fromMemory = buildOverview(snapshot, now);
    const fromCluster = toOverview({ operator, modules: addonModules }, now);
    const page = buildPageState(snapshot, now, ABOUT);
    expect(pick(fromCluster), "the operator").toEqual(pick(fromMemory));
    const { reason: _notOnPage, ...headline } = pick(fromMemory);
    expect(page.operator.map(pick), "the operator on the page").toEqual([headline]);
    const byName = (rows: readonly (Explanation & { readonly name: string })[]) =>
      Object.fromEntries(rows.map((row) => [row.name, pick(row)]));
    const ofModules = byName(fromMemory.modules);
    expect(byName(fromCluster.modules), "modules in the cluster").toEqual(ofModules);
    expect(byName(page.modules), "modules on the page").toEqual(ofModules);
  };
}
