/** The list of modules, the most urgent first. It renders only the visible rows. */

import { computed, signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

import type { PageModuleRow } from "../src/surface/ui/wire.ts";
import { modules, now } from "./live.ts";
import { previousModule, buildHref, focusFirstResult } from "./router.ts";
import { Search, State } from "./state.tsx";
import { TONES_BY_URGENCY, formatAge, formatDuration, getTone, type Tone } from "./format.ts";

type Order = "state" | "name" | "order" | "run";

const search = signal("");
const tone = signal<Tone | "">("");
const order = signal<Order>("state");

const rows = computed(() => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [...(modules.value?.values() ?? [])];
  const found = all.filter(
    (row) =>
      (tone.value === "" || getTone(row.state) === tone.value) &&
      words.every((word) => searchText(row).includes(word)),
  );
  return found.sort(COMPARE[order.value]);
});

const searchText = ({ name, state, message, source }: PageModuleRow): string =>
  `${name} ${state} ${message} ${source?.next?.message ?? ""}`.toLowerCase();
const urgency = ({ state, healthy, drifted }: PageModuleRow): number =>
  2 * TONES_BY_URGENCY.indexOf(getTone(state)) - (healthy === "False" || drifted > 0 ? 1 : 0);
const startedAt = ({ lastRun }: PageModuleRow): string => lastRun?.startedAt ?? "";

const byName = (a: PageModuleRow, b: PageModuleRow): number => (a.name < b.name ? -1 : 1);
const byOrder = (a: PageModuleRow, b: PageModuleRow): number => a.order - b.order || byName(a, b);
const COMPARE: Readonly<Record<Order, (a: PageModuleRow, b: PageModuleRow) => number>> = {
  state: (a, b) => urgency(a) - urgency(b) || byOrder(a, b),
  name: byName,
  order: byOrder,
  run: (a, b) => (startedAt(a) === startedAt(b) ? byOrder(a, b) : startedAt(a) < startedAt(b) ? 1 : -1),
};

export function Modules() {
  return (
    <>
      <h2 class="visually-hidden">Modules</h2>
      <Filter />
      <Table />
    </>
  );
}

const TONE_NAMES: Readonly<Record<Tone, string>> = {
  bad: "Failing",
  wait: "Waiting",
  busy: "Running",
  good: "Ready",
  off: "Disabled",
};

function Filter() {
  const all = [...(modules.value?.values() ?? [])];
  const count = (of: Tone): number => all.filter(({ state }) => getTone(state) === of).length;
  return (
    <div class="filter" role="search">
      <Search
        label="Find modules"
        value={search.value}
        onText={(text) => (search.value = text)}
        onKeyDown={focusFirstResult}
      />
      {TONES_BY_URGENCY.map((each) => (
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
const OVERSCAN_ROWS = 12;
const top = signal(0);
const height = signal(900);
const visibleRange = computed(() => {
  const first = Math.max(0, Math.floor(top.value / ROW_PX) - OVERSCAN_ROWS);
  return { first, last: Math.ceil((top.value + height.value) / ROW_PX) + OVERSCAN_ROWS };
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
  const { first, last } = visibleRange.value;
  const visible = rows.value.slice(first, last);
  const after = Math.max(0, rows.value.length - first - visible.length);
  const measure = (): void => {
    top.value = box.current?.scrollTop ?? 0;
    height.value = box.current?.clientHeight ?? height.value;
  };
  useLayoutEffect(() => {
    box.current?.scrollTo(0, top.value);
    const links = [...(box.current?.querySelectorAll<HTMLElement>("th a") ?? [])];
    links.find(({ textContent }) => textContent === previousModule)?.focus();
  }, []);
  return (
    <div
      class="scroll"
      ref={box}
      onScroll={measure}
      onKeyDown={moveFocus}
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
          <Spacer px={first * ROW_PX} />
          {visible.map((row, index) => (
            <Row key={row.name} row={row} index={first + index + 2} />
          ))}
          <Spacer px={after * ROW_PX} />
        </tbody>
      </table>
      {rows.value.length === 0 && <p class="hint">No module matches.</p>}
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

/** Takes the space of rows that are not rendered. */
function Spacer({ px }: { readonly px: number }) {
  return px === 0 ? null : (
    <tr class="space" aria-hidden="true">
      <td colSpan={COLUMNS.length} style={{ height: `${px}px` }} />
    </tr>
  );
}

function Row({ row, index }: { readonly row: PageModuleRow; readonly index: number }) {
  return (
    <tr aria-rowindex={index}>
      <td>
        <State name={row.state} />
      </td>
      <th scope="row">
        <a href={buildHref("module", row.name)}>{row.name}</a>
      </th>
      <Message row={row} />
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

/** The message of the state, and the new version of the module that waits, if there is one. */
function Message({ row: { message, source } }: { readonly row: PageModuleRow }) {
  const { version, message: why } = source?.next ?? {};
  if (version === undefined)
    return (
      <td class="message" title={message}>
        {message}
      </td>
    );
  return (
    <td class="message" title={`${message}; ${why}`}>
      <State name="Waits" text={`${version} waits`} /> {message}
    </td>
  );
}

function LastRun({ row: { lastRun } }: { readonly row: PageModuleRow }) {
  if (lastRun === undefined) return <td class="faint">–</td>;
  const { startedAt, seconds, cause } = lastRun;
  const since = (now.value - Date.parse(startedAt)) / 1000;
  return (
    <td class="faint" title={`${startedAt}: ${cause}`}>
      {seconds === undefined
        ? `for ${formatDuration(Math.floor(since))}`
        : `${formatAge(startedAt, now.value)}, ${formatDuration(seconds)}`}
    </td>
  );
}

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

/** Arrow keys move the focus from module to module. */
function moveFocus(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  if (step === undefined || !(event.currentTarget instanceof HTMLElement)) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>("th[scope=row] a")];
  const at = links.findIndex((link) => link === document.activeElement);
  const next = at < 0 ? links[0] : links[at + step];
  event.preventDefault();
  next?.focus();
}
