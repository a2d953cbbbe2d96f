import { expect } from "vitest";

import { explainState, readResources } from "../../src/main/commands/cluster/from-resources.ts";
import { KnownSecrets } from "../../src/base/index.ts";
import { sampleGauges } from "../../src/report/metrics/measure.ts";
import type { Metrics } from "../../src/report/metrics/index.ts";
import type { StateSnapshot } from "../../src/report/index.ts";
import { buildOverview, Projector, type IAddonModule, type IAddonOperator } from "../../src/report/index.ts";
import type { Overview, OverviewRow, Projection } from "../../src/report/index.ts";
import { buildPageState } from "../../src/surface/ui/view-model.ts";
import { overviewOf, whyOf } from "../report/views.ts";
import type { EngineLab } from "./engine-lab.ts";

const ABOUT = { version: "0", name: "addon-operator", namespace: "addons" };

/** What the cluster has of a module, as `kubectl addon` reads it. */
const toAddonModules = ({ modules }: Projection): IAddonModule[] =>
  [...modules].map(([name, { spec, status }]) => ({ metadata: { name }, spec, status }) as IAddonModule);

/** A row without what only the memory of the operator knows: a run that is not displayed yet, and dropped ticks. */
function inCluster({ lastRun: _run, warnings = [], ...row }: OverviewRow): object {
  return { ...row, warnings: warnings.filter((text) => !text.includes(" dropped: ")) };
}

const rowsByName = (rows: readonly OverviewRow[]): object =>
  Object.fromEntries(rows.map((row) => [row.name, inCluster(row)]));

const headlineOf = ({ state, reason, message, ready }: Overview) => ({ state, reason, message, ready });

type Gauge = readonly [name: string, labels: object, value: number];

const MODULE_GAUGES: ReadonlySet<string> = new Set([
  "moduleInfo",
  "moduleWaiting",
  "moduleHealthy",
  "maintenance",
]);

/** The gauges of modules at this moment. */
function gaugesOf(lab: EngineLab): Gauge[] {
  const gauges: Gauge[] = [];
  const set = (...gauge: Gauge) => void (MODULE_GAUGES.has(gauge[0]) && gauges.push(gauge));
  const metrics = { set, clearSeries: () => {} } as unknown as Metrics;
  const bindings = { countObjects: () => [] } as never;
  sampleGauges(metrics, { queues: lab.queues, state: lab.state, clock: lab.clock, bindings });
  return gauges;
}

/** The same gauges, from rows and AddonModules. */
function gaugesFrom(rows: readonly OverviewRow[], { modules }: Projection): Gauge[] {
  return rows.flatMap(({ name: module, enabled, healthy, state, reason, waitsFor }): Gauge[] => {
    const conditions = modules.get(module)?.status.conditions ?? [];
    const isSuspended = conditions.some(({ type, status }) => type === "Suspended" && status === "True");
    const isWaiting = state === "Pending" && waitsFor !== undefined;
    return [
      ...(isWaiting ? [["moduleWaiting", { module, reason }, 1] as const] : []),
      ...(healthy === "Unknown" ? [] : [["moduleHealthy", { module }, healthy === "True" ? 1 : 0] as const]),
      ["moduleInfo", { module, enabled: String(enabled), critical: "false" }, 1],
      ...(isSuspended ? [["maintenance", { module, state: "NoResourceReconciliation" }, 1] as const] : []),
    ];
  });
}

/** The reasons and messages that the last Events of a module repeat, by the state in which they are true. */
function expectEventsToAgree(lab: EngineLab, { name, state, reason, message }: OverviewRow): void {
  const notes = (...reasons: readonly string[]) =>
    lab.events
      .filter((event) => event.module === name && reasons.includes(event.reason))
      .map(({ note }) => note);
  // No Event tells that an enabled script fails, which the state prefers to an earlier failure of a run.
  const isTold = lab.state.view.modules.get(name)?.retry !== undefined && reason !== "ScriptFailed";
  if (state === "Retrying" && isTold)
    expect(notes("RunFailed", "ValuesInvalid").at(-1), `the Event of ${name}`).toBe(`${reason}: ${message}`);
  if (state === "RolledBack")
    expect(message.startsWith(notes("RolledBack").at(-1) ?? "no Event"), `${message} of ${name}`).toBe(true);
}

/**
 * Compares what a user reads of one moment, word for word: `status` and `module why` (from the memory of the operator), `kubectl addon`
 * (from the AddonModules and the AddonOperator), the page, the metrics and the Events. One checker follows an operator from
 * its start: projections keep what they displayed before.
 */
export function explanationCheck(): (lab: EngineLab) => void {
  const projector = new Projector("none", new KnownSecrets());
  return (lab) => {
    const snapshot: StateSnapshot = { view: lab.state.view, queues: lab.queues.views() };
    const now = lab.clock.now();
    const projection = projector.project(snapshot, now);
    const addonModules = toAddonModules(projection);
    const operator = { metadata: { name: ABOUT.name }, status: projection.operatorStatus } as IAddonOperator;
    const fromMemory = overviewOf(snapshot, now);
    const fromCluster = readResources({ operator, modules: addonModules }, now);
    expect(headlineOf(fromCluster), "the operator").toEqual(headlineOf(fromMemory));
    expect(rowsByName(fromCluster.modules), "modules in the cluster").toEqual(rowsByName(fromMemory.modules));
    const page = buildPageState(projection, now, ABOUT);
    const { reason: _notOnPage, ...headline } = headlineOf(buildOverview(projection, now));
    expect(page.operator[0], "the operator on the page").toMatchObject(headline);
    expect(rowsByName(page.modules as readonly OverviewRow[]), "modules on the page").toEqual(
      rowsByName(fromMemory.modules),
    );
    expect(gaugesOf(lab), "the metrics").toEqual(gaugesFrom(fromMemory.modules, projection));
    const byName = new Map(addonModules.map((module) => [module.metadata.name, module]));
    for (const row of fromMemory.modules) {
      expectEventsToAgree(lab, row);
      const why = whyOf(snapshot, row.name, now);
      const isKnown = (sentence: string) =>
        row.message.includes(sentence) || why.some((each) => each.includes(sentence));
      const [first, ...sentences] = explainState(row.name, byName);
      expect(first).toBe(`${row.name}: ${row.state}: ${row.message}`);
      const unsaid = sentences.filter(
        (sentence) => !sentence.startsWith("nothing is due") && !isKnown(sentence),
      );
      expect(unsaid, `what only kubectl addon why says of ${row.name}`).toEqual([]);
    }
  };
}
