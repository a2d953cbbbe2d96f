/** Tables of modules, for people: `module list` and `status`. */

import { formatDuration, progressText, type Progress } from "../../lib/index.ts";
import type { ModuleRow, Overview } from "../../status/index.ts";
import type { Colour } from "./ask.ts";

/** How a table is to look. */
export interface Look {
  /** In ms since the epoch. */
  readonly now: number;
  /** Lines are cut here. */
  readonly columns: number;
  readonly paint: (colour: Colour, text: string) => string;
}

type Cell = (row: ModuleRow, look: Look) => string;

const COLUMNS: readonly (readonly [string, Cell])[] = [
  ["NAME", ({ name }) => name],
  ["STATE", ({ state }) => state],
  ["HEALTHY", ({ healthy }) => healthy],
  ["DRIFTED", ({ drifted }) => (drifted === 0 ? "-" : String(drifted))],
  ["VERSION", ({ chartVersion }) => chartVersion ?? "-"],
  ["LAST RUN", lastRun],
  ["MESSAGE", ({ message }) => message],
];

const GAP = "  ";

/** All modules that are on or not gone yet, and how many are off. */
export function modulesTable({ modules }: Pick<Overview, "modules">, look: Look): string {
  const shown = modules.filter(({ state }) => state !== "Disabled");
  const off = modules.length - shown.length;
  const rest = off === 0 ? "" : `${off} more ${off === 1 ? "is" : "are"} off\n`;
  return shown.length === 0 ? `No module is on\n${rest}` : `${table(shown, look)}${rest}`;
}

/** Left out in this order where a terminal is too narrow for what matters most: the message. */
const FIRST_TO_GO = ["DRIFTED", "VERSION", "LAST RUN", "HEALTHY"];
/** So much of the longest message is to be seen. */
const ENOUGH = 40;

function table(rows: readonly ModuleRow[], look: Look): string {
  const columns = COLUMNS.map(([head, cell]) => {
    const cells = [head, ...rows.map((row) => cell(row, look))];
    return { head, cells, width: Math.max(...cells.map(({ length }) => length)) };
  });
  const shown = fitting(columns, look.columns);
  const lineOf = (at: number): string => {
    const cells = shown.map(({ cells: texts, width }) => (texts[at] ?? "").padEnd(width));
    return cut(cells.join(GAP).trimEnd(), look.columns);
  };
  const lines = rows.map((row, at) => inColour(lineOf(at + 1), row, look));
  return `${[look.paint("bold", lineOf(0)), ...lines].join("\n")}\n`;
}

function fitting<T extends { readonly head: string; readonly width: number }>(
  columns: readonly T[],
  most: number,
): readonly T[] {
  let shown = columns;
  const needed = (): number =>
    shown.reduce((sum, { head, width }) => {
      return sum + GAP.length + (head === "MESSAGE" ? Math.min(width, ENOUGH) : width);
    }, -GAP.length);
  for (const head of FIRST_TO_GO) {
    if (needed() <= most) break;
    shown = shown.filter((column) => column.head !== head);
  }
  return shown;
}

/** The state in its colour, where it was not cut off. */
function inColour(text: string, row: ModuleRow, { paint }: Look): string {
  const colour = colourOf(row);
  return colour === undefined ? text : paint(colour, text);
}

function colourOf({ ready, drifted, healthy, warnings }: ModuleRow): Colour | undefined {
  if (ready === "False") return "red";
  return ready === "Unknown" || drifted > 0 || healthy === "False" || warnings !== undefined
    ? "yellow"
    : undefined;
}

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 3))}...`;
}

function lastRun({ lastRun: run }: ModuleRow, { now }: Look): string {
  if (run === undefined) return "-";
  const took = formatDuration(run.seconds * 1000);
  if (run.result === undefined) return `at ${run.step} for ${took}`;
  return `${ago(Date.parse(run.startedAt) + run.seconds * 1000, now)}, took ${took}`;
}

function ago(then: number, now: number): string {
  return `${formatDuration(Math.max(0, Math.round((now - then) / 1000)) * 1000).replace(/^0ms$/, "0s")} ago`;
}

/** What `status` tells of: more do not fit on a screen. */
const MOST = 10;

/** What is wrong and why, on one screen: what failed first, then what waits or is under way, then what only ails. */
export function statusText(overview: Overview, look: Look): string {
  const { state, message, modules } = overview;
  const about = modules.filter((row) => colourOf(row) !== undefined);
  const groups = alike(about.toSorted((a, b) => rank(a) - rank(b)));
  const more = groups.slice(MOST).flat().length;
  const colour = overview.ready === "True" ? "green" : overview.ready === "False" ? "red" : "yellow";
  const parts = [
    `${look.paint(colour, state)}: ${message}`,
    ...converge(overview),
    ...groups.slice(0, MOST).map((rows) => whyOf(rows, look)),
    ...(more > 0 ? [`\nand ${more} more: addon-operator module list`] : []),
  ];
  return `${parts.join("\n")}\n`;
}

function rank({ ready }: ModuleRow): number {
  return ["False", "Unknown", "True"].indexOf(ready);
}

/** Undefined while modules are not being reloaded. */
function progressOf({ converge: { progress, waitingSeconds }, modules }: Overview): Progress | undefined {
  if (progress === undefined) return undefined;
  const [done = 0, total = 0] = progress.split("/").map(Number);
  const inState = (wanted: ModuleRow["state"]): Progress["running"] =>
    modules.flatMap(({ name, state, lastRun: run, usualSeconds }) =>
      state === wanted && run !== undefined ? { name, seconds: run.seconds, usualSeconds } : [],
    );
  return { done, total, running: inState("Running"), removing: inState("Deleting"), waitingSeconds };
}

function converge(overview: Overview): string[] {
  const { phase = "", cause } = overview.converge;
  const progress = progressOf(overview);
  if (progress === undefined) return [];
  const text = progressText(progress, (seconds) => formatDuration(seconds * 1000));
  return [`Reload of all modules: at ${phase}, ${text}${cause === undefined ? "" : ` (${cause})`}`];
}

/** States in which several modules may have one cause. */
const GROUPED: ReadonlySet<ModuleRow["state"]> = new Set(["Pending", "Unhealthy", "Invalid"]);

/** Modules of which the same is true, but for their own names, are reported together. */
function alike(rows: readonly ModuleRow[]): readonly (readonly ModuleRow[])[] {
  const key = ({ name, state, message }: ModuleRow): string =>
    GROUPED.has(state) ? `${state} ${message.replaceAll(name, "*")}` : ` ${name}`;
  return [...Map.groupBy(rows, key).values()];
}

function whyOf([row, ...others]: readonly ModuleRow[], look: Look): string {
  if (row === undefined) return "";
  if (others.length === 0) return why(row, look);
  const head = look.paint("yellow", `${others.length + 1} modules: ${row.state}`);
  const names = [row, ...others].slice(0, MOST).map(({ name }) => name);
  const more = others.length + 1 - names.length;
  return `\n${head}: ${row.message}\n  ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function why(row: ModuleRow, look: Look): string {
  const { name, state, message, waitsFor, lastRun: run, drifted, healthy, warnings = [] } = row;
  const facts = [
    waitsFor !== undefined && !message.includes(waitsFor) && `waits for ${waitsFor}`,
    run !== undefined && runText(row, run, look),
    healthy === "False" &&
      state !== "Unhealthy" &&
      "its objects are not healthy: addon-operator module why tells more",
    drifted > 0 &&
      `${drifted} object${drifted === 1 ? " was" : "s were"} changed by others: addon-operator module diff ${name}`,
    ...warnings.filter((text) => !message.includes(text)),
  ].filter((fact) => typeof fact === "string");
  const head = `\n${look.paint(colourOf(row) ?? "yellow", `${name}: ${state}`)}: ${message}`;
  return [head, ...facts.map((fact) => `  ${fact}`)].join("\n");
}

function runText(row: ModuleRow, run: NonNullable<ModuleRow["lastRun"]>, look: Look): string {
  const how = run.result === undefined ? "runs" : "last run";
  return `${how}: ${lastRun(row, look)} (${run.cause})${tries(run.attempts)}`;
}

function tries(attempts: number): string {
  return attempts > 1 ? `, tried ${attempts} times` : "";
}
