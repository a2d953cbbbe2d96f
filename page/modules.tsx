/** All modules: what is wrong first. Only the rows that are seen are drawn. */

import { computed, signal } from "@preact/signals";
import { useRef } from "preact/hooks";

import type { ModuleRow } from "../src/ui/wire.ts";
import { modules, now } from "./live.ts";
import { to } from "./router.ts";
import { State } from "./state.tsx";
import { TROUBLE, ago, duration, toneOf, type Tone } from "./words.ts";

type Order = "state" | "name" | "order" | "run";

const search = signal("");
const tone = signal<Tone | "">("");
const order = signal<Order>("state");

const rows = computed(() => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...(modules.value?.values() ?? [])];
  const found = all.filter(
    (row) =>
      (tone.value === "" || toneOf(row.state) === tone.value) &&
      words.every((word) => textOf(row).includes(word)),
  );
  return found.sort(BY[order.value]);
});

const textOf = ({ name, state, message }: ModuleRow): string => `${name} ${state} ${message}`.toLowerCase();
const trouble = ({ state, healthy, drifted }: ModuleRow): number =>
  2 * TROUBLE.indexOf(toneOf(state)) - (healthy === "False" || drifted > 0 ? 1 : 0);
const begun = ({ lastRun }: ModuleRow): string => lastRun?.startedAt ?? "";

const byName = (a: ModuleRow, b: ModuleRow): number => (a.name < b.name ? -1 : 1);
const byOrder = (a: ModuleRow, b: ModuleRow): number => a.order - b.order || byName(a, b);
const BY: Readonly<Record<Order, (a: ModuleRow, b: ModuleRow) => number>> = {
  state: (a, b) => trouble(a) - trouble(b) || byOrder(a, b),
  name: byName,
  order: byOrder,
  run: (a, b) => (begun(a) === begun(b) ? byOrder(a, b) : begun(a) < begun(b) ? 1 : -1),
};

export function Modules() {
  return (
    <>
      <h2 class="unseen">Modules</h2>
      <Filter />
      <Table />
    </>
  );
}

const TONE_NAMES: Readonly<Record<Tone, string>> = {
  bad: "Failing",
  wait: "Waiting",
  busy: "At work",
  good: "Ready",
  off: "Off",
};

function Filter() {
  const all = [...(modules.value?.values() ?? [])];
  const count = (of: Tone): number => all.filter(({ state }) => toneOf(state) === of).length;
  return (
    <div class="filter" role="search">
      <input
        type="search"
        id="search"
        aria-label="Find modules"
        placeholder="Find modules  /"
        value={search.value}
        onInput={({ currentTarget }) => (search.value = currentTarget.value)}
      />
      {TROUBLE.map((each) => (
        <button
          key={each}
          type="button"
          class={`tone ${each}`}
          aria-pressed={tone.value === each}
          onClick={() => (tone.value = tone.value === each ? "" : each)}
        >
          {TONE_NAMES[each]} <span class="count">{count(each)}</span>
        </button>
      ))}
    </div>
  );
}

addEventListener("keydown", (event) => {
  const input = document.querySelector<HTMLInputElement>("#search");
  if (event.key !== "/" || input === null || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  input.focus();
});

const ROW_PX = 30;
const AROUND = 12;
const top = signal(0);
const height = signal(900);
const view = computed(() => {
  const first = Math.max(0, Math.floor(top.value / ROW_PX) - AROUND);
  return { first, last: Math.ceil((top.value + height.value) / ROW_PX) + AROUND };
});

const COLUMNS: readonly (readonly [title: string, order?: Order])[] = [
  ["State", "state"],
  ["Module", "name"],
  ["Why"],
  ["Healthy"],
  ["Drift"],
  ["Last run", "run"],
  ["Chart"],
  ["Order", "order"],
];

function Table() {
  const box = useRef<HTMLDivElement>(null);
  const { first, last } = view.value;
  const seen = rows.value.slice(first, last);
  const after = Math.max(0, rows.value.length - first - seen.length);
  const measure = (): void => {
    top.value = box.current?.scrollTop ?? 0;
    height.value = box.current?.clientHeight ?? height.value;
  };
  return (
    <div
      class="scroll"
      ref={box}
      onScroll={measure}
      onKeyDown={walk}
      tabIndex={0}
      role="region"
      aria-label="Modules"
    >
      <table aria-rowcount={rows.value.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map(([title, by]) => (
              <Column key={title} title={title} by={by} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Space px={first * ROW_PX} />
          {seen.map((row, index) => (
            <Line key={row.name} row={row} index={first + index + 2} />
          ))}
          <Space px={after * ROW_PX} />
        </tbody>
      </table>
      {rows.value.length === 0 && <p class="hint">No module is like that.</p>}
    </div>
  );
}

function Column({ title, by }: { readonly title: string; readonly by?: Order | undefined }) {
  if (by === undefined) return <th scope="col">{title}</th>;
  const sorted = order.value === by;
  return (
    <th scope="col" aria-sort={sorted ? "ascending" : "none"}>
      <button type="button" onClick={() => (order.value = by)}>
        {title}
      </button>
    </th>
  );
}

/** In place of rows that are not seen. */
function Space({ px }: { readonly px: number }) {
  return px === 0 ? null : (
    <tr class="space" aria-hidden="true">
      <td colSpan={COLUMNS.length} style={{ height: `${px}px` }} />
    </tr>
  );
}

function Line({ row, index }: { readonly row: ModuleRow; readonly index: number }) {
  return (
    <tr aria-rowindex={index}>
      <td>
        <State name={row.state} />
      </td>
      <th scope="row">
        <a href={to("module", row.name)}>{row.name}</a>
      </th>
      <td class="message" title={row.message}>
        {row.message}
      </td>
      <td>
        {row.healthy === "Unknown" ? (
          <span class="faint">–</span>
        ) : (
          <State name={row.healthy} text={row.healthy === "True" ? "Yes" : "No"} />
        )}
      </td>
      <td>
        {row.drifted === 0 ? (
          <span class="faint">–</span>
        ) : (
          <State name="Drifted" text={`${row.drifted} object${row.drifted === 1 ? "" : "s"}`} />
        )}
      </td>
      <LastRun row={row} />
      <td class="faint">{row.chartVersion ?? "–"}</td>
      <td class="faint number">{row.order}</td>
    </tr>
  );
}

function LastRun({ row: { lastRun } }: { readonly row: ModuleRow }) {
  if (lastRun === undefined) return <td class="faint">–</td>;
  const { startedAt, seconds, cause } = lastRun;
  const since = (now.value - Date.parse(startedAt)) / 1000;
  return (
    <td class="faint" title={`${startedAt}: ${cause}`}>
      {seconds === undefined
        ? `for ${duration(Math.floor(since))}`
        : `${ago(startedAt, now.value)}, ${duration(seconds)}`}
    </td>
  );
}

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

/** Arrows go from module to module. */
function walk(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("th[scope=row] a")];
  const at = links.findIndex((link) => link === document.activeElement);
  const next = at < 0 ? links[0] : links[at + step];
  event.preventDefault();
  next?.focus();
}
