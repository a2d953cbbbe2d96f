/** Text for `module list` (a table) and `status` (problems, and where the on-call guide helps). A *converge* is the run of all modules. */

import { formatDuration, listNames, describeProgress, type Progress } from "../../../base/index.ts";
import { isOperatorReason, getRunbookPath, type OverviewRow, type Overview } from "../../../report/index.ts";
import type { Colour } from "./query.ts";

/** The rendering of a table. */
export interface Style {
  /** In ms since the epoch. */
  readonly now: number;
  /** Longer lines are truncated. */
  readonly columns: number;
  readonly paint: (colour: Colour, text: string) => string;
}

type Cell = (row: OverviewRow, style: Style) => string;

const COLUMNS: readonly (readonly [string, Cell])[] = [
  ["NAME", ({ name }) => name],
  ["STATE", ({ state }) => state],
  ["HEALTHY", ({ healthy }) => healthy],
  ["DRIFTED", ({ drifted }) => (drifted === 0 ? "-" : String(drifted))],
  ["VERSION", ({ chartVersion }) => chartVersion ?? "-"],
  ["LAST RUN", lastRunText],
  ["MESSAGE", ({ message }) => message],
];

const GAP = "  ";

/** A table of all modules except the disabled ones, which it counts. */
export function renderModulesTable({ modules }: Pick<Overview, "modules">, style: Style): string {
  const displayed = modules.filter(({ state }) => state !== "Disabled");
  const disabledCount = modules.length - displayed.length;
  const disabledText =
    disabledCount === 0
      ? ""
      : `${disabledCount} more ${disabledCount === 1 ? "module is" : "modules are"} disabled\n`;
  return displayed.length === 0
    ? `No module is enabled\n${disabledText}`
    : `${renderTable(displayed, style)}${disabledText}`;
}

/** Omitted in this order on a terminal that is too narrow for the message. */
const OPTIONAL_COLUMNS = ["DRIFTED", "VERSION", "LAST RUN", "HEALTHY"];
/** At least this much of the longest message is displayed. */
const MIN_MESSAGE_WIDTH = 40;

/** Renders rows with a header, as lines of at most the terminal's width, coloured by severity. */
function renderTable(rows: readonly OverviewRow[], style: Style): string {
  const columns = COLUMNS.map(([head, cell]) => {
    const cells = [head, ...rows.map((row) => cell(row, style))];
    return { head, cells, width: Math.max(...cells.map(({ length }) => length)) };
  });
  const displayed = fitColumns(columns, style.columns);
  const renderLine = (index: number): string => {
    const cells = displayed.map(({ cells: texts, width }) => (texts[index] ?? "").padEnd(width));
    return truncate(cells.join(GAP).trimEnd(), style.columns);
  };
  // Line 0 is the header.
  const lines = rows.map((row, index) => {
    const colour = rowColour(row);
    return colour === undefined ? renderLine(index + 1) : style.paint(colour, renderLine(index + 1));
  });
  return `${[style.paint("bold", renderLine(0)), ...lines].join("\n")}\n`;
}

/** Omits optional columns, one after the other, until the rest and the begin of the messages fit into the width. */
function fitColumns<T extends { readonly head: string; readonly width: number }>(
  columns: readonly T[],
  maxWidth: number,
): readonly T[] {
  let displayed = columns;
  const neededWidth = (): number => {
    const gaps = GAP.length * (displayed.length - 1);
    const neededWidths = displayed.map(({ head, width }) =>
      head === "MESSAGE" ? Math.min(width, MIN_MESSAGE_WIDTH) : width,
    );
    return neededWidths.reduce((sum, width) => sum + width, gaps);
  };
  for (const head of OPTIONAL_COLUMNS) {
    if (neededWidth() <= maxWidth) break;
    displayed = displayed.filter((column) => column.head !== head);
  }
  return displayed;
}

/** Red for a module that is not Ready, yellow for one that waits or has warnings; undefined if all is well. */
function rowColour({ ready, drifted, healthy, warnings }: OverviewRow): Colour | undefined {
  if (ready === "False") return "red";
  return ready === "Unknown" || drifted > 0 || healthy === "False" || warnings !== undefined
    ? "yellow"
    : undefined;
}

function truncate(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 3))}...`;
}

/** The cell LAST RUN: the step of a run that is not over, or how long ago the last one ended and how long it took. */
function lastRunText({ lastRun: run }: OverviewRow, { now }: Style): string {
  if (run === undefined) return "-";
  const took = formatDuration(run.seconds * 1000);
  if (run.result === undefined) return `at ${run.step} for ${took}`;
  return `${agoText(Date.parse(run.startedAt) + run.seconds * 1000, now)}, took ${took}`;
}

/** How long ago a time was in whole seconds, such as `3m ago`. Both times are in ms since the epoch. */
function agoText(timeMs: number, now: number): string {
  const seconds = Math.max(0, Math.round((now - timeMs) / 1000));
  return seconds === 0 ? "0s ago" : `${formatDuration(seconds * 1000)} ago`;
}

/** The number of groups, and of names in a line, that `status` shows: more do not fit on a screen. */
const MAX_SHOWN = 10;

/** The operator, its converge, and modules with problems on one screen: failures, then modules that wait or run, then warnings. */
export function renderStatus(overview: Overview, style: Style): string {
  const { state, message, modules } = overview;
  const noteworthy = modules.filter((row) => rowColour(row) !== undefined);
  const groups = groupByCause(noteworthy.toSorted((a, b) => severityRank(a) - severityRank(b)));
  const headline = groups.slice(0, MAX_SHOWN).reduce(omitDetail, message);
  const parts = [`${style.paint(READY_COLOURS[overview.ready], state)}: ${headline}`];
  const converge = convergeLine(overview);
  if (converge !== undefined) parts.push(converge);
  parts.push(...(overview.warnings ?? []));
  for (const rows of groups.slice(0, MAX_SHOWN)) parts.push(renderGroup(rows, style));
  const hiddenCount = groups.slice(MAX_SHOWN).flat().length;
  if (hiddenCount > 0) parts.push(`\nand ${hiddenCount} more: addon-operator module list`);
  parts.push(...sourceLines(overview), ...waitingUpdateLines(modules));
  const problem = groups.flat().find((row) => needsHelp(row, overview, style.now));
  if (overview.ready === "False" || isOperatorReason(overview.reason) || problem !== undefined)
    parts.push(`\nWhat to do: ${findRunbook(problem ?? groups[0]?.[0], overview)}`);
  return `${parts.join("\n")}\n`;
}

/** The message of the operator without the message of a module, which follows in full. */
function omitDetail(headline: string, [row]: readonly OverviewRow[]): string {
  return row === undefined ? headline : headline.replace(`: ${row.message}`, () => "");
}

/** A run that takes less than this, or less than twice its usual time, is normal. So is an object that starts within this time. */
const NORMAL_SECONDS = 60;

/** Whether a user should act on the state of a module. What runs, and what waits for that, needs nobody unless it takes unusually long. */
function needsHelp(
  { state, lastRun, usualSeconds = 0 }: OverviewRow,
  overview: Overview,
  now: number,
): boolean {
  if (state === "Pending")
    return !overview.modules.some((row) => IN_PROGRESS.has(row.state) && !needsHelp(row, overview, now));
  if (lastRun === undefined || !IN_PROGRESS.has(state)) return true;
  if (state === "Progressing")
    return now - Date.parse(lastRun.startedAt) > (lastRun.seconds + NORMAL_SECONDS) * 1000;
  return lastRun.seconds > Math.max(NORMAL_SECONDS, 2 * usualSeconds);
}

const IN_PROGRESS: ReadonlySet<OverviewRow["state"]> = new Set(["Running", "Deleting", "Progressing"]);

const READY_COLOURS = { True: "green", False: "red", Unknown: "yellow" } as const;

/** The link to the runbook for the most severe problem. `row`: the most severe problem of a module; problems of the operator come first. */
function findRunbook(row: OverviewRow | undefined, overview: Overview): string {
  const { state, reason } = overview;
  const isConvergeBlocked = reason === "ReloadHeldUp";
  if (isConvergeBlocked) return getRunbookPath(findBlockedStep(overview));
  if (isOperatorReason(reason)) return getRunbookPath(reason);
  // The section about Invalid is about modules, so the link goes to the whole page.
  if (row === undefined) return getRunbookPath(state === "Invalid" ? "" : state);
  return getRunbookPath(runbookSection(row));
}

/** The name of the runbook section about what blocks a converge: a removal of a module that is off, discovery, or a global hook. */
function findBlockedStep({ modules, converge: { phase = "idle" } }: Overview): string {
  if (modules.some(isRemovalFailing)) return "Deleting";
  return phase === "discovery" || phase === "idle" ? "Discovery" : "ReloadHeldUp";
}

const HELM_STEPS: ReadonlySet<string> = new Set(["helm", "rollback", "uninstall"]);

/** Whether the removal of the module fails. A module can also be off because its `enabled` script fails, or because it has no content. */
function isRemovalFailing({ enabled, state, reason }: OverviewRow): boolean {
  return !enabled && state === "Retrying" && reason !== "ScriptFailed" && reason !== "SourceUnavailable";
}

/** Reasons with a section of their own in the runbook. */
const REASONS_WITH_SECTION: ReadonlySet<string> = new Set([
  "HookFailed",
  "ObjectsExist",
  "ReadinessProbeFailed",
  "ScriptFailed",
  "SourceUnavailable",
]);

/** The name of the runbook section about a module's problem. */
function runbookSection(row: OverviewRow): string {
  const { state, reason, drifted, healthy, lastRun: run } = row;
  if (REASONS_WITH_SECTION.has(reason)) return reason;
  if (isRemovalFailing(row)) return "Deleting";
  const runsHook = state === "Running" && run !== undefined && !HELM_STEPS.has(run.step);
  if (runsHook) return "HookFailed";
  const awaitsProbe = state === "Progressing" && healthy === "True";
  if (awaitsProbe) return "ReadinessProbeFailed";
  return state === "Ready" && drifted > 0 ? "Drifted" : state;
}

/** A rank for sorting modules by severity; 0 is the worst. */
function severityRank({ ready }: OverviewRow): number {
  return ["False", "Unknown", "True"].indexOf(ready);
}

/** The progress of a converge: counts of modules, and those that run or are removed now. Undefined while no converge is running. */
function toProgress({ converge: { progress, waitingSeconds }, modules }: Overview): Progress | undefined {
  if (progress === undefined) return undefined;
  const [done = 0, total = 0] = progress.split("/").map(Number);
  const runsInState = (wanted: OverviewRow["state"]): Progress["running"] =>
    modules.flatMap(({ name, state, lastRun: run, usualSeconds }) =>
      state === wanted && run !== undefined ? { name, seconds: run.seconds, usualSeconds } : [],
    );
  return { done, total, running: runsInState("Running"), removing: runsInState("Deleting"), waitingSeconds };
}

const UNCOUNTED_PHASES: ReadonlySet<string> = new Set(["starting", "beforeAll", "discovery"]);

/** The progress of a converge as one line; undefined while no converge is running. */
function convergeLine(overview: Overview): string | undefined {
  const { phase = "", cause } = overview.converge;
  const progress = toProgress(overview);
  if (progress === undefined) return undefined;
  const causeText = cause === undefined ? "" : ` (${cause})`;
  // Only after discovery is it known which modules are to run.
  if (UNCOUNTED_PHASES.has(phase)) return `Converge: at ${phase}${causeText}`;
  const progressText = describeProgress(progress, (seconds) => formatDuration(seconds * 1000));
  return `Converge: at ${phase}, ${progressText}${causeText}`;
}

/** States in which several modules may have one cause. */
const GROUPED_STATES: ReadonlySet<OverviewRow["state"]> = new Set(["Pending", "Unhealthy", "Invalid"]);

/** Groups modules of some states whose messages are equal except for the module's name: one cause, such as a missing node, is one entry. */
function groupByCause(rows: readonly OverviewRow[]): readonly (readonly OverviewRow[])[] {
  // A name alone makes a group of one module.
  const key = ({ name, state, message }: OverviewRow): string =>
    GROUPED_STATES.has(state) ? `${state} ${message.replaceAll(name, "*")}` : ` ${name}`;
  return [...Map.groupBy(rows, key).values()];
}

/** One module in detail, or several with a common cause as one entry. */
function renderGroup([row, ...others]: readonly OverviewRow[], style: Style): string {
  if (row === undefined) return "";
  if (others.length === 0) return renderModule(row, style);
  const headline = style.paint("yellow", `${others.length + 1} modules: ${row.state}`);
  const names = [row, ...others].map(({ name }) => name);
  return `\n${headline}: ${row.message}\n  ${listNames(names, MAX_SHOWN)}`;
}

/** State and message of a module, with facts that the message does not contain. */
function renderModule(row: OverviewRow, style: Style): string {
  const { name, state, message, waitsFor, lastRun: run, drifted, healthy, warnings = [] } = row;
  const facts: string[] = [];
  if (waitsFor !== undefined && !message.includes(waitsFor)) facts.push(`waits for ${waitsFor}`);
  if (run !== undefined) facts.push(describeRun(row, run, style));
  if (healthy === "False" && state !== "Unhealthy")
    facts.push(`objects are unhealthy: addon-operator module why ${name}`);
  const objects = drifted === 1 ? "1 object" : `${drifted} objects`;
  if (drifted > 0) facts.push(`other field managers changed ${objects}: addon-operator module diff ${name}`);
  facts.push(...warnings.filter((text) => !message.includes(text)));
  const headline = `\n${style.paint(rowColour(row) ?? "yellow", `${name}: ${state}`)}: ${message}`;
  return [headline, ...facts.map((fact) => `  ${fact}`)].join("\n");
}

/** The last or current run of a module: when, how long, its cause and its attempts. */
function describeRun(row: OverviewRow, run: NonNullable<OverviewRow["lastRun"]>, style: Style): string {
  const runLabel = run.result === undefined ? "runs" : "last run";
  return `${runLabel}: ${lastRunText(row, style)} (${run.cause})${describeAttempts(run.attempts, row.failingSince)}`;
}

/** How often a run was tried and since when; "" for the first attempt. */
function describeAttempts(attempts: number, since: string | undefined): string {
  const first = since === undefined ? "" : ` since ${since}`;
  return attempts > 1 ? `, tried ${attempts} times${first}` : "";
}

type Update = NonNullable<NonNullable<OverviewRow["source"]>["next"]>;

/** Lines about ModuleSources that are not Ready or cannot be checked; empty if there is none. */
function sourceLines({ sources = [] }: Overview): string[] {
  if (sources.length === 0) return [];
  const more = sources.length > MAX_SHOWN ? [`  and ${sources.length - MAX_SHOWN} more`] : [];
  return [`\nModuleSources:`, ...sources.slice(0, MAX_SHOWN).map((text) => `  ${text}`), ...more];
}

/** The reasons for which updates wait, in the order of the output: what a user has to do comes first. */
const UPDATE_GROUPS: readonly (readonly [Update["waitsFor"], string])[] = [
  ["approval", "for approval"],
  ["older", "for approval, because they are older than the versions in use"],
  ["rejected", "for other content, because they failed"],
  ["refused", "for content with a valid signature"],
  ["blocked", "for content that fits values and requirements"],
  ["turn", "for another update to finish"],
  ["window", "for the next window"],
  ["age", "for their minimum age"],
  ["withdrawn", "for the registry, which does not have the requested content"],
  ["registry", "unknown, because the ModuleSource cannot be checked"],
];

/** Lines about newer content of modules from a ModuleSource that waits (e.g. for an approval), one for each reason; empty if none waits. */
function waitingUpdateLines(modules: readonly OverviewRow[]): string[] {
  const lines = UPDATE_GROUPS.flatMap(([waitsFor, title]) => {
    const names = modules.flatMap(({ name, source }) =>
      source?.next?.waitsFor === waitsFor ? [updateLabel(name, source.next)] : [],
    );
    return names.length === 0 ? [] : [`  ${title}: ${listNames(names, MAX_SHOWN)}`];
  });
  return lines.length === 0 ? [] : [`\nWaiting updates (addon-operator source list):`, ...lines];
}

/** The name of a module with the version that waits, and until when. */
function updateLabel(name: string, { version, until }: Update): string {
  const untilText = until === undefined ? "" : ` (${until})`;
  return version === undefined ? name : `${name} ${version}${untilText}`;
}
