/** What the operator tells: its stream of news, kept as tables. */

import { computed, signal, type Signal } from "@preact/signals";

import type { Change, ModuleRow, News, OperatorRow, QueueRow } from "../src/ui/wire.ts";

type Table<T> = ReadonlyMap<string, T>;

/** Undefined before the first news. */
export const modules: Signal<Table<ModuleRow> | undefined> = signal(undefined);
export const queues: Signal<Table<QueueRow>> = signal(new Map());
const operators: Signal<Table<OperatorRow>> = signal(new Map());
export const operator = computed(() => [...operators.value.values()][0]);
/** Whether news come, and else what is wrong. */
export const connection = signal<"" | "connecting" | "lost">("connecting");

/** How far the operator's clock is ahead of the browser's. */
let aheadMs = 0;
/** The operator's time, which moves each second while the page is seen. */
export const now = signal(Date.now());

const AGAIN_MS = 3000;
let stream: EventSource | undefined;
let watchdog: ReturnType<typeof setTimeout> | undefined;

/** Follows the operator while the page is seen. */
export function follow(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() + aheadMs;
  }, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : connect()));
  connect();
}

function leave(): void {
  clearTimeout(watchdog);
  stream?.close();
  stream = undefined;
}

function connect(): void {
  leave();
  if (connection.value === "") connection.value = "connecting";
  const own = (stream = new EventSource("events"));
  own.addEventListener("message", ({ data }: MessageEvent<string>) => take(JSON.parse(data) as News));
  own.addEventListener("error", () => {
    connection.value = "lost";
    // The browser tries again by itself, unless it was refused.
    if (own.readyState === EventSource.CLOSED && own === stream) later();
  });
}

function later(): void {
  clearTimeout(watchdog);
  watchdog = setTimeout(connect, AGAIN_MS);
}

function take(news: News): void {
  connection.value = "";
  aheadMs = news.now - Date.now();
  now.value = news.now;
  modules.value = changed(modules.value ?? new Map(), news, news.modules);
  queues.value = changed(queues.value, news, news.queues);
  operators.value = changed(operators.value, news, news.operator);
}

function changed<T extends { readonly name: string }>(
  table: Table<T>,
  { whole }: News,
  change: Change<T> | undefined,
): Table<T> {
  if (change === undefined) return table;
  const next = new Map(whole === true ? [] : table);
  for (const row of change.set) next.set(row.name, row);
  for (const name of change.gone) next.delete(name);
  return next;
}

/** Asks the operator; what is wrong is thrown as a text. */
export async function ask(what: string, query: Readonly<Record<string, string>> = {}): Promise<string> {
  const answer = await fetch(`${what}?${new URLSearchParams(query)}`).catch(() => undefined);
  if (answer === undefined) throw new Error("The operator does not answer.");
  const text = await answer.text();
  if (!answer.ok) throw new Error(text.trim());
  return text;
}
