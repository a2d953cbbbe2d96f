/** The frame of the page: the operator's state, and the selected view. */

import { effect } from "@preact/signals";
import type { ComponentType } from "preact";

import { describeProgress } from "../src/base/time/progress.ts";
import type { OperatorRow } from "../src/surface/ui/wire.ts";
import { Graph } from "./graph.tsx";
import { connection, modules, now, operator, queues } from "./live.ts";
import { ModuleView } from "./module.tsx";
import { Modules } from "./modules.tsx";
import { Queues } from "./queues.tsx";
import { route, buildHref } from "./router.ts";
import { Runs } from "./runs.tsx";
import { State } from "./state.tsx";
import { formatDuration, getTone, withoutRepetition } from "./format.ts";

/** The views with a tab, by name. The view of one module has none. */
const TABS: Readonly<Record<string, { readonly title: string; readonly View: ComponentType }>> = {
  modules: { title: "Modules", View: Modules },
  graph: { title: "Graph", View: Graph },
  queues: { title: "Queues", View: Queues },
  runs: { title: "Runs", View: Runs },
};

/** Displayed beside the state while all modules are suspended. */
const MAINTENANCE = "Maintenance";

/** The title of the browser tab: a state that needs a user, then the operator. */
function documentTitle(row: OperatorRow | undefined): string {
  if (row === undefined) return "addon-operator";
  const name = `${row.namespace}/${row.name}`;
  const states = [row.suspended === true && MAINTENANCE, getTone(row.state) === "bad" && row.state];
  return [...states, name].filter(Boolean).join(" · ");
}

effect(() => {
  document.title = documentTitle(operator.value);
});

export function App() {
  const [name = ""] = route.value;
  const chosen = Object.hasOwn(TABS, name) ? name : "modules";
  const View = name === "module" ? ModuleView : (TABS[chosen]?.View ?? Modules);
  return (
    <>
      <Head chosen={chosen} />
      <main tabIndex={-1}>{modules.value === undefined ? <p class="hint">Connecting …</p> : <View />}</main>
    </>
  );
}

function Head({ chosen }: { readonly chosen: string }) {
  const waiting = [...queues.value.values()].reduce((sum, { length }) => sum + length, 0);
  const counts: Readonly<Record<string, number>> = { modules: modules.value?.size ?? 0, queues: waiting };
  return (
    <header>
      <h1>addon-operator</h1>
      <nav aria-label="Views">
        {Object.entries(TABS).map(([name, { title }]) => (
          <a key={name} href={buildHref(name)} aria-current={name === chosen ? "page" : undefined}>
            {title} {counts[name] !== undefined && <span class="count">{counts[name]}</span>}
          </a>
        ))}
      </nav>
      <OperatorState />
    </header>
  );
}

/** The operator's message with the progress of a converge. Omits the message of the displayed module, which is below. */
function Message({
  row: { message, warnings = [], progress, waitingSeconds },
}: {
  readonly row: OperatorRow;
}) {
  const [done = 0, total = 0] = (progress ?? "").split("/").map(Number);
  const inState = (wanted: string) =>
    [...(modules.value?.values() ?? [])].flatMap(({ name, state, lastRun, usualSeconds }) =>
      state === wanted && lastRun !== undefined
        ? { name, seconds: (now.value - Date.parse(lastRun.startedAt)) / 1000, usualSeconds }
        : [],
    );
  const parts = { running: inState("Running"), removing: inState("Deleting") };
  const state =
    progress === undefined
      ? message
      : `${message}; ${describeProgress({ done, total, ...parts, waitingSeconds }, formatDuration)}`;
  const text = [state, ...warnings].join("; ");
  const [view, module = ""] = route.value;
  const displayed = view === "module" ? modules.value?.get(module)?.message : undefined;
  return (
    <span class="message" title={text}>
      {withoutRepetition(text, displayed ?? "", "see below")}
    </span>
  );
}

function OperatorState() {
  const row = operator.value;
  return (
    <div
      class={row !== undefined && needsUser(row) ? "operator-state expanded" : "operator-state"}
      role="status"
    >
      {connection.value === "lost" && (
        <State name="Failed" text="Disconnected: the page can be out of date" />
      )}
      {row !== undefined && <About row={row} />}
    </div>
  );
}

/** Whether a user has to act: the message is then displayed in full. */
function needsUser({ state, suspended }: OperatorRow): boolean {
  return suspended === true || state === "Invalid";
}

function About({ row }: { readonly row: OperatorRow }) {
  return (
    <>
      {row.suspended === true && <State name="Suspended" text={MAINTENANCE} />}
      <State name={row.state} />
      <Message row={row} />
      <span class="about">
        {row.namespace}/{row.name} · {row.version}
      </span>
    </>
  );
}
