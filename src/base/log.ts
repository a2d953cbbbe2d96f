/** The logger: a sentence and fields in each line, without secrets. */

import { systemClock, type Clock } from "./time/clock.ts";
import { escapeLine } from "./errors.ts";
import { KnownSecrets } from "./redact/known-secrets.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
export const LOG_TYPES = ["text", "json", "color"] as const;
type LogType = (typeof LOG_TYPES)[number];

/** Keys that go with a log line: ids, names, counts. Never values of a user's secrets. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Writes one line per call: a constant sentence plus fields. `child` binds fields to every later line. */
export interface Logger {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  child(fields: LogFields): Logger;
}

/** How log lines are written; `level` may be changed while running (`config set log.level`). */
export interface LogSink {
  level: LogLevel;
  readonly type: LogType;
  readonly noTime: boolean;
  readonly clock: Clock;
  /** Redacts secrets in every line. */
  readonly secrets?: Pick<KnownSecrets, "redact" | "redactDeep">;
  readonly context?: LogContext | undefined;
  write(line: string): void;
}

/** Associates log lines with the work during which they are logged: a trace gets the lines, and the lines get its ids. */
export interface LogContext {
  /** Fields that go with every line. */
  fields(): LogFields | undefined;
  /** Called with each line that is logged, without secrets. */
  onEntry(entry: LogEntry): void;
}

/**
 * A logger that writes its lines to `sink`, each with the fields `bound`. Drops entries below the level of the sink. The context of
 * the sink is the current trace: it adds its ids to the entry, and gets the entry.
 */
export function createLogger(sink: LogSink, bound: LogFields = {}): Logger {
  const logAt = (level: LogLevel) => (message: string, fields?: LogFields) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(sink.level)) return;
    const time = sink.noTime ? undefined : new Date(sink.clock.now()).toISOString();
    const line = { message, fields: withoutUndefined({ ...bound, ...fields, ...sink.context?.fields() }) };
    const entry = { level, time, ...(sink.secrets?.redactDeep(line) ?? line) };
    sink.write(formatEntry(sink.type, entry));
    sink.context?.onEntry(entry);
  };
  return {
    debug: logAt("debug"),
    info: logAt("info"),
    warn: logAt("warn"),
    error: logAt("error"),
    child: (fields) => createLogger(sink, { ...bound, ...fields }),
  };
}

/** Drops fields without a value, such as the module of a global hook, which would appear as `module=undefined`. */
function withoutUndefined(fields: LogFields): LogFields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** A logger that drops everything. */
export const silentLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silentLogger,
};

/** A line, before it is written. */
export interface LogEntry {
  readonly level: LogLevel;
  readonly time: string | undefined;
  readonly message: string;
  readonly fields: LogFields;
}

const COLORS: Readonly<Record<LogLevel, number>> = { debug: 36, info: 32, warn: 33, error: 31 };

/** An entry as the line to write, with a line end. */
function formatEntry(type: LogType, line: LogEntry): string {
  if (type === "json") {
    const { level, time, message, fields } = line;
    return `${escapeLine(JSON.stringify({ level, time, msg: message, ...fields }))}\n`;
  }
  const name = line.level.toUpperCase().padEnd(5);
  const level = type === "color" ? `\u001B[${COLORS[line.level]}m${name}\u001B[0m` : name;
  return `${line.time === undefined ? "" : `${line.time} `}${level} ${formatMessage(line)}\n`;
}

/** The sentence of an entry with its fields as `key=value`, safe to print on a terminal. */
export function formatMessage({ message, fields }: Pick<LogEntry, "message" | "fields">): string {
  const displayed = Object.entries(fields).map(
    ([key, value]) => ` ${formatFieldValue(key)}=${formatFieldValue(value)}`,
  );
  return escapeLine(`${message}${displayed.join("")}`);
}

/** An entry as a line of text without a line end, for displays of stored entries. */
export function formatEntryAsText(entry: LogEntry): string {
  return formatEntry("text", entry).trimEnd();
}

/** The value of a field, in quotes where white space or quotes would make it ambiguous. */
function formatFieldValue(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(text);
}

interface LogSettings {
  readonly logLevel: LogLevel;
  readonly logType: LogType | undefined;
  readonly logNoTime: boolean;
}

/** The sink that writes log lines to stdout: by default as text on a terminal, and as JSON elsewhere. */
export function createStdoutSink(
  settings: LogSettings,
  secrets = new KnownSecrets(),
  context?: LogContext,
): LogSink {
  const { stdout } = process;
  return {
    level: settings.logLevel,
    type: settings.logType ?? (stdout.isTTY ? "text" : "json"),
    noTime: settings.logNoTime,
    clock: systemClock,
    secrets,
    context,
    write: (line) => void stdout.write(line),
  };
}
