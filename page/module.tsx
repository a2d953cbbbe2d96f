/** One module: the reasons for its state, its values, what a run would change, and its runs. */

import { signal } from "@preact/signals";
import type { ComponentType } from "preact";

import type { ModuleDetail, PageModuleRow, ValuesDetail } from "../src/surface/ui/wire.ts";
import { Pending, useFetched } from "./fetched.tsx";
import { modules, now } from "./live.ts";
import { route, buildHref } from "./router.ts";
import { ModuleRuns } from "./runs.tsx";
import { Search, State } from "./state.tsx";
import { formatAge, withoutRepetition } from "./format.ts";

interface RowProps {
  readonly row: PageModuleRow;
}

const PARTS: readonly (readonly [name: string, title: string, part: ComponentType<RowProps>])[] = [
  ["why", "Why", Why],
  ["values", "Values", Values],
  ["diff", "Difference", Difference],
  ["runs", "Runs", ModuleRuns],
];

export function ModuleView() {
  const [, name = "", part = "why"] = route.value;
  const row = modules.value?.get(name);
  if (row === undefined) return <p class="hint">Module "{name}" does not exist.</p>;
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
          <a
            key={each}
            href={buildHref("module", name, each)}
            aria-current={each === chosen ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
      <Part row={row} />
    </article>
  );
}

function Why({ row }: RowProps) {
  const response = useFetched("module", { name: row.name }, row);
  if (response.text === undefined) return <Pending {...response} />;
  const detail = JSON.parse(response.text) as ModuleDetail;
  return (
    <div class="columns">
      <div>
        <section>
          <h3>Why</h3>
          <ul>
            {detail.why
              .filter((sentence) => sentence !== row.message)
              .map((sentence) => (
                <li key={sentence}>{withoutRepetition(sentence, row.message)}</li>
              ))}
          </ul>
        </section>
        <Conditions {...detail} displayed={row.message} />
        <Objects {...detail} />
      </div>
      <div>
        <Facts {...detail} displayed={row.message} />
        <Requirements {...detail} name={row.name} />
      </div>
    </div>
  );
}

function TableHead({ titles }: { readonly titles: readonly string[] }) {
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

interface Displayed {
  /** The message of the state, which is displayed above. */
  readonly displayed: string;
}

function Conditions({ conditions, displayed }: ModuleDetail & Displayed) {
  if (conditions.length === 0) return null;
  return (
    <section>
      <h3>Conditions</h3>
      <table>
        <TableHead titles={["Type", "Status", "Reason", "Message", "Since"]} />
        <tbody>
          {conditions.map(({ type, status, reason, message, lastTransitionTime }) => (
            <tr key={type}>
              <th scope="row">{type}</th>
              <td>
                <State name={getConditionState(type, status)} text={status} />
              </td>
              <td>{reason}</td>
              <td class="wrap">{withoutRepetition(message, displayed)}</td>
              <td class="faint" title={lastTransitionTime}>
                {formatAge(lastTransitionTime, now.value)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A state with the tone of a condition: `True` is good for some conditions and bad for others. */
function getConditionState(type: string, status: string): string {
  if (type === "Enabled") return status === "True" ? "True" : "Disabled";
  if (type === "Ready" || type === "Healthy" || status === "Unknown") return status;
  if (status === "False") return "Disabled";
  return type === "Reconciling" ? "Running" : type === "Stalled" ? "Failed" : "Drifted";
}

function Objects({ objects }: ModuleDetail) {
  if (objects.length === 0) return null;
  return (
    <section>
      <h3>Objects with problems</h3>
      <table>
        <TableHead titles={["Object", "State", "Details"]} />
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

function Facts({ facts, displayed }: ModuleDetail & Displayed) {
  return (
    <section>
      <h3>Facts</h3>
      <dl>
        {facts.map(([name, text]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{withoutRepetition(text, displayed)}</dd>
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
            Requires <ModuleLink name={name} /> {text}{" "}
            <State name={met ? "True" : "False"} text={met ? "met" : "not met"} />
          </li>
        ))}
        {requiredBy.map((name) => (
          <li key={name}>
            Required by <ModuleLink name={name} />
          </li>
        ))}
        <li>
          All related modules: <a href={buildHref("graph", name)}>Graph</a>
        </li>
      </ul>
    </section>
  );
}

function ModuleLink({ name }: { readonly name: string }) {
  return modules.value?.has(name) === true ? (
    <a href={buildHref("module", name)}>{name}</a>
  ) : (
    <span>{name}</span>
  );
}

const leafSearch = signal("");

function Values({ row }: RowProps) {
  const response = useFetched("values", { name: row.name }, row);
  if (response.text === undefined) return <Pending {...response} />;
  const { leaves, note } = JSON.parse(response.text) as ValuesDetail;
  const words = leafSearch.value.toLowerCase();
  const found = leaves.filter(({ path, layer }) => `${path} ${layer}`.toLowerCase().includes(words));
  return (
    <section>
      <h3 class="visually-hidden">Values</h3>
      <div class="filter">
        <Search label="Find values" value={leafSearch.value} onText={(text) => (leafSearch.value = text)} />
        {note !== undefined && <span class="faint">{note}</span>}
      </div>
      <table class="code">
        <TableHead titles={["Path", "Value", "Set by"]} />
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

const LINE_CLASSES: Readonly<Record<string, string>> = { "#": "head", "-": "out", "+": "in" };

function Difference({ row }: RowProps) {
  const response = useFetched("diff", { name: row.name }, row.lastRun?.startedAt);
  if (response.text === undefined) return <Pending {...response} />;
  if (response.text.trim() === "") return <p class="hint">A run would change nothing.</p>;
  return (
    <section>
      <h3>Changes that a run would make now</h3>
      <pre class="diff" tabIndex={0} aria-label="Difference">
        {response.text.split("\n").map((line, index) => (
          <span key={index} class={LINE_CLASSES[line.charAt(0)]}>
            {line}
            {"\n"}
          </span>
        ))}
      </pre>
    </section>
  );
}
