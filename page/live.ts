/** The stream of the operator, kept as tables, and requests to the operator. */

import { computed, signal, type Signal } from "@preact/signals";

import type {
  TableChange,
  PageModuleRow,
  StreamMessage,
  OperatorRow,
  QueueRow,
} from "../src/surface/ui/wire.ts";

type Table<T> = ReadonlyMap<string, T>;

/** Undefined before the first message. */
export const modules: Signal<Table<PageModuleRow> | undefined> = signal(undefined);
export const queues: Signal<Table<QueueRow>> = signal(new Map());
const operators: Signal<Table<OperatorRow>> = signal(new Map());
export const operator = computed(() => [...operators.value.values()][0]);
/** "" while the stream is open. */
export const connection = signal<"" | "connecting" | "lost">("connecting");

/** The operator's clock minus the browser's clock. */
let clockSkewMs = 0;
/** The operator's time; ticks each second while the page is visible. */
export const now = signal(Date.now());

const RECONNECT_MS = 3000;
let stream: EventSource | undefined;
let reconnectTimer: ReturnType<typeof setTimeout> | undefined;

/** Keeps the stream open while the page is visible. */
export function startStream(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now() + clockSkewMs;
  }, 1000);
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  connect();
}

function disconnect(): void {
  clearTimeout(reconnectTimer);
  stream?.close();
  stream = undefined;
}

/** Opens a new stream, whose first message is a snapshot. */
function connect(): void {
  disconnect();
  if (connection.value === "") connection.value = "connecting";
  const opened = (stream = new EventSource("events"));
  opened.addEventListener("message", ({ data }: MessageEvent<string>) =>
    applyMessage(JSON.parse(data) as StreamMessage),
  );
  opened.addEventListener("error", () => {
    connection.value = "lost";
    // The browser reconnects by itself, except after a refusal.
    if (opened.readyState !== EventSource.CLOSED || opened !== stream) return;
    clearTimeout(reconnectTimer);
    reconnectTimer = setTimeout(connect, RECONNECT_MS);
  });
}

/** Applies the changes in a message of the stream to the tables, and follows the operator's clock. */
function applyMessage(message: StreamMessage): void {
  connection.value = "";
  clockSkewMs = message.now - Date.now();
  now.value = message.now;
  modules.value = applyChange(modules.value ?? new Map(), message, message.modules);
  queues.value = applyChange(queues.value, message, message.queues);
  operators.value = applyChange(operators.value, message, message.operator);
}

/** Returns a new table with the change applied, because signals compare by identity; the same table without a change. */
function applyChange<T extends { readonly name: string }>(
  table: Table<T>,
  { snapshot }: StreamMessage,
  change: TableChange<T> | undefined,
): Table<T> {
  if (change === undefined) return table;
  const next = new Map(snapshot === true ? [] : table);
  for (const row of change.set) next.set(row.name, row);
  for (const name of change.missing) next.delete(name);
  return next;
}

/** Requests a path from the operator. Throws an Error with a message for the user. */
export async function fetchText(path: string, query: Readonly<Record<string, string>> = {}): Promise<string> {
  const response = await fetch(`${path}?${new URLSearchParams(query)}`).catch(() => undefined);
  if (response === undefined) throw new Error("The operator does not respond.");
  const text = await response.text();
  if (!response.ok) throw new Error(text.trim());
  return text;
}
