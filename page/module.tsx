/** One module: why it is as it is, its values, and what a run would change. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";

import type { ModuleDetail, ModuleRow, ValuesDetail } from "../src/ui/wire.ts";
import { NotYet, useAsked } from "./asked.tsx";
import { modules, now } from "./live.ts";
import { route, to } from "./router.ts";
import { RunsOf } from "./runs.tsx";
import { State } from "./state.tsx";
import { ago } from "./words.ts";

interface Of {
  readonly row: ModuleRow;
}

const PARTS: readonly (readonly [name: string, title: string, part: ComponentType<Of>])[] = [
  ["why", "Why", Why],
  ["values", "Values", Values],
  ["diff", "Difference", Difference],
  ["runs", "Runs", RunsOf],
];

export function ModuleView() {
  const [, name = "", part = "why"] = route.value;
  const row = modules.value?.get(name);
  if (row === undefined) return <p class="hint">There is no module "{name}".</p>;
  const [chosen, , Part] = PARTS.find(([each]) => each === part) ?? ["why", "", Why];
  return (
    <article>
      <div class="title">
        <h2>{name}</h2>
        <State name={row.state} />
        <span>{row.message}</span>
      </div>
      <nav class="parts" aria-label={`Parts of ${name}`}>
        {PARTS.map(([each, title]) => (
          <a key={each} href={to("module", name, each)} aria-current={each === chosen ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <Part row={row} />
    </article>
  );
}

function Why({ row }: Of) {
  const asked = useAsked("module", { name: row.name }, row);
  if (asked.text === undefined) return <NotYet {...asked} />;
  const detail = JSON.parse(asked.text) as ModuleDetail;
  return (
    <div class="columns">
      <div>
        <section>
          <h3>Why</h3>
          <ul>
            {detail.why.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </section>
        <Conditions {...detail} />
        <Objects {...detail} />
      </div>
      <div>
        <Facts {...detail} />
        <Requirements {...detail} name={row.name} />
      </div>
    </div>
  );
}

function Heads({ titles }: { readonly titles: readonly string[] }) {
  return (
    <thead>
      <tr>
        {titles.map((title) => (
          <th key={title} scope="col">
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function Conditions({ conditions }: ModuleDetail) {
  if (conditions.length === 0) return null;
  return (
    <section>
      <h3>Conditions</h3>
      <table>
        <Heads titles={["Type", "Status", "Reason", "Message", "Since"]} />
        <tbody>
          {conditions.map(({ type, status, reason, message, lastTransitionTime }) => (
            <tr key={type}>
              <th scope="row">{type}</th>
              <td>
                <State name={toldBy(type, status)} text={status} />
              </td>
              <td>{reason}</td>
              <td class="wrap">{message}</td>
              <td class="faint" title={lastTransitionTime}>
                {ago(lastTransitionTime, now.value)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** True is good of some conditions, and of others it is not. */
function toldBy(type: string, status: string): string {
  if (type === "Enabled") return status === "True" ? "True" : "Disabled";
  if (type === "Ready" || type === "Healthy" || status === "Unknown") return status;
  if (status === "False") return "Disabled";
  return type === "Reconciling" ? "Running" : type === "Stalled" ? "Failed" : "Drifted";
}

function Objects({ objects }: ModuleDetail) {
  if (objects.length === 0) return null;
  return (
    <section>
      <h3>Objects that are not as they should be</h3>
      <table>
        <Heads titles={["Object", "State", "What"]} />
        <tbody>
          {objects.map(({ object, what, message }, index) => (
            <tr key={index}>
              <th scope="row">{object}</th>
              <td>
                <State name={what} />
              </td>
              <td class="wrap">{message}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Facts({ facts }: ModuleDetail) {
  return (
    <section>
      <h3>Facts</h3>
      <dl>
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function Requirements({ name, requires, requiredBy }: ModuleDetail & { readonly name: string }) {
  if (requires.length === 0 && requiredBy.length === 0) return null;
  return (
    <section>
      <h3>Requirements</h3>
      <ul>
        {requires.map(({ name, text, met }) => (
          <li key={name}>
            requires <ModuleLink name={name} /> {text}{" "}
            <State name={met ? "True" : "False"} text={met ? "met" : "not met"} />
          </li>
        ))}
        {requiredBy.map((name) => (
          <li key={name}>
            required by <ModuleLink name={name} />
          </li>
        ))}
        <li>
          all that is related: <a href={to("graph", name)}>Graph</a>
        </li>
      </ul>
    </section>
  );
}

function ModuleLink({ name }: { readonly name: string }) {
  return modules.value?.has(name) === true ? <a href={to("module", name)}>{name}</a> : <span>{name}</span>;
}

const leafSearch = signal("");

function Values({ row }: Of) {
  const asked = useAsked("values", { name: row.name }, row);
  if (asked.text === undefined) return <NotYet {...asked} />;
  const { leaves, note } = JSON.parse(asked.text) as ValuesDetail;
  const words = leafSearch.value.toLowerCase();
  const found = leaves.filter(({ path, layer }) => `${path} ${layer}`.toLowerCase().includes(words));
  return (
    <section>
      <h3 class="unseen">Values</h3>
      <div class="filter">
        <input
          type="search"
          aria-label="Find values"
          placeholder="Find values"
          value={leafSearch.value}
          onInput={({ currentTarget }) => (leafSearch.value = currentTarget.value)}
        />
        {note !== undefined && <span class="faint">{note}</span>}
      </div>
      <table class="code">
        <Heads titles={["Value", "Is", "Set by"]} />
        <tbody>
          {found.map(({ path, value, layer }) => (
            <tr key={path}>
              <th scope="row">{path}</th>
              <td class="wrap">{value}</td>
              <td class="faint">{layer}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const LINES: Readonly<Record<string, string>> = { "#": "head", "-": "out", "+": "in" };

function Difference({ row }: Of) {
  const asked = useAsked("diff", { name: row.name }, row.lastRun?.startedAt);
  if (asked.text === undefined) return <NotYet {...asked} />;
  if (asked.text.trim() === "") return <p class="hint">A run would change nothing.</p>;
  return (
    <section>
      <h3>What a run would change now</h3>
      <pre class="diff" tabIndex={0} aria-label="Difference">
        {asked.text.split("\n").map((line, index) => (
          <span key={index} class={LINES[line.charAt(0)]}>
            {line}
            {"\n"}
          </span>
        ))}
      </pre>
    </section>
  );
}
