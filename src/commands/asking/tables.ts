/** Tables of modules, for people: `module list` and `status`. */

import { formatDuration, progressText, type Progress } from "../../lib/index.ts";
import type { ModuleRow, Overview } from "../../status/index.ts";
import type { Colour } from "./terminal.ts";

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

function table(rows: readonly ModuleRow[], look: Look): string {
  const texts = rows.map((row) => COLUMNS.map(([, cell]) => cell(row, look)));
  const heads = COLUMNS.map(([head]) => head);
  const widths = heads.map((head, at) =>
    Math.max(head.length, ...texts.map((cells) => cells[at]?.length ?? 0)),
  );
  const lineOf = (cells: readonly string[]): string =>
    cut(
      cells
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join(GAP)
        .trimEnd(),
      look.columns,
    );
  const lines = texts.map((cells, at) => inColour(lineOf(cells), rows[at], look));
  return `${[look.paint("bold", lineOf(heads)), ...lines].join("\n")}\n`;
}

/** The state in its colour, where it was not cut off. */
function inColour(text: string, row: ModuleRow | undefined, { paint }: Look): string {
  const colour = row && colourOf(row);
  return colour === undefined ? text : paint(colour, text);
}

function colourOf({ ready, drifted, healthy }: ModuleRow): Colour | undefined {
  if (ready === "False") return "red";
  return ready === "Unknown" || drifted > 0 || healthy === "False" ? "yellow" : undefined;
}

function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 3))}...`;
}

function lastRun({ lastRun: run }: ModuleRow, { now }: Look): string {
  if (run === undefined) return "-";
  const took = formatDuration(run.seconds * 1000);
  if (run.result === undefined) return `${run.step}, for ${took}`;
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
  const sorted = about.toSorted((a, b) => rank(a) - rank(b));
  const more = sorted.length - MOST;
  const colour = overview.ready === "True" ? "green" : overview.ready === "False" ? "red" : "yellow";
  const parts = [
    `${look.paint(colour, state)}: ${message}`,
    ...converge(overview),
    ...sorted.slice(0, MOST).map((row) => why(row, look)),
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
  const running = modules.flatMap(({ name, state, lastRun: run, usualSeconds }) =>
    state === "Running" && run !== undefined ? { name, seconds: run.seconds, usualSeconds } : [],
  );
  return { done, total, running, waitingSeconds };
}

function converge(overview: Overview): string[] {
  const { phase = "", cause } = overview.converge;
  const progress = progressOf(overview);
  if (progress === undefined) return [];
  const text = progressText(progress, (seconds) => formatDuration(seconds * 1000));
  return [`Reload of all modules: at ${phase}, ${text}${cause === undefined ? "" : ` (${cause})`}`];
}

function why(row: ModuleRow, look: Look): string {
  const { name, state, message, waitsFor, lastRun: run, drifted, healthy } = row;
  const facts = [
    waitsFor !== undefined && !message.includes(waitsFor) && `waits for ${waitsFor}`,
    run !== undefined && `last run: ${lastRun(row, look)}, for ${run.cause}${tries(run.attempts)}`,
    healthy === "False" &&
      state !== "Unhealthy" &&
      "its objects are not healthy: addon-operator module why tells more",
    drifted > 0 &&
      `${drifted} object${drifted === 1 ? " was" : "s were"} changed by others: addon-operator module diff ${name}`,
  ].filter((fact) => typeof fact === "string");
  const head = `\n${look.paint(colourOf(row) ?? "yellow", `${name}: ${state}`)}: ${message}`;
  return [head, ...facts.map((fact) => `  ${fact}`)].join("\n");
}

function tries(attempts: number): string {
  return attempts > 1 ? `, tried ${attempts} times` : "";
}
