/** The frame of the page: what operator it is, how it stands, and the view that is chosen. */

import { effect } from "@preact/signals";
import type { ComponentType } from "preact";

import { progressText } from "../src/lib/time/progress.ts";
import type { OperatorRow } from "../src/ui/wire.ts";
import { Graph } from "./graph.tsx";
import { connection, modules, now, operator, queues } from "./live.ts";
import { ModuleView } from "./module.tsx";
import { Modules } from "./modules.tsx";
import { Queues } from "./queues.tsx";
import { route, to } from "./router.ts";
import { Runs } from "./runs.tsx";
import { State } from "./state.tsx";
import { duration, toneOf } from "./words.ts";

const VIEWS: Readonly<Record<string, ComponentType>> = {
  modules: Modules,
  module: ModuleView,
  graph: Graph,
  queues: Queues,
  runs: Runs,
};

const TABS = [
  ["modules", "Modules"],
  ["graph", "Graph"],
  ["queues", "Queues"],
  ["runs", "Runs"],
] as const;

/** What the tab says: the state where a person is needed, then whose page it is. */
function titleOf(is: OperatorRow | undefined): string {
  if (is === undefined) return "addon-operator";
  const whose = `${is.namespace}/${is.name}`;
  return toneOf(is.state) === "bad" ? `${is.state} · ${whose}` : whose;
}

effect(() => {
  document.title = titleOf(operator.value);
});

export function App() {
  const [name = ""] = route.value;
  const chosen = Object.hasOwn(VIEWS, name) ? name : "modules";
  const View = VIEWS[chosen] ?? Modules;
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
        {TABS.map(([name, title]) => (
          <a
            key={name}
            href={to(name)}
            aria-current={name === chosen || (name === "modules" && chosen === "module") ? "page" : undefined}
          >
            {title} {counts[name] !== undefined && <span class="count">{counts[name]}</span>}
          </a>
        ))}
      </nav>
      <Standing />
    </header>
  );
}

/** What the operator says of itself, and how far a reload has come. */
function Message({ is: { state, message, progress, waitingSeconds } }: { readonly is: OperatorRow }) {
  const [done = 0, total = 0] = (progress ?? "").split("/").map(Number);
  const inState = (wanted: string) =>
    [...(modules.value?.values() ?? [])].flatMap(({ name, state, lastRun, usualSeconds }) =>
      state === wanted && lastRun !== undefined
        ? { name, seconds: (now.value - Date.parse(lastRun.startedAt)) / 1000, usualSeconds }
        : [],
    );
  const parts = { running: inState("Running"), removing: inState("Deleting") };
  const text =
    progress === undefined
      ? message
      : `${message}: ${progressText({ done, total, ...parts, waitingSeconds }, duration)}`;
  return (
    <span class={state === "Invalid" ? "message whole" : "message"} title={text}>
      {text}
    </span>
  );
}

function Standing() {
  const is = operator.value;
  return (
    <div class="standing" role="status">
      {connection.value === "lost" && <State name="Failed" text="Not connected: what is shown may be old" />}
      {is !== undefined && <State name={is.state} text={is.state} />}
      {is !== undefined && <Message is={is} />}
      {is !== undefined && (
        <span class="about">
          {is.namespace}/{is.name} · {is.version}
        </span>
      )}
    </div>
  );
}
