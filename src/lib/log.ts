/** The logger: a sentence and fields in each line, without secrets. */

import { systemClock, type Clock } from "./time/clock.ts";
import { visible } from "./errors.ts";
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
  readonly work?: LogWork | undefined;
  write(line: string): void;
}

/** Associates log lines with the current work. */
export interface LogWork {
  /** Fields that go with every line. */
  fields(): LogFields | undefined;
  /** Called with each line that is logged, without secrets. */
  keep(entry: LogEntry): void;
}

/** A logger over `sink`. */
export function createLogger(sink: LogSink, bound: LogFields = {}): Logger {
  const at = (level: LogLevel) => (message: string, fields?: LogFields) => {
    if (LOG_LEVELS.indexOf(level) < LOG_LEVELS.indexOf(sink.level)) return;
    const time = sink.noTime ? undefined : new Date(sink.clock.now()).toISOString();
    const line = { message, fields: present({ ...bound, ...fields, ...sink.work?.fields() }) };
    const entry = { level, time, ...(sink.secrets?.redactDeep(line) ?? line) };
    sink.write(format(sink.type, entry));
    sink.work?.keep(entry);
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => createLogger(sink, { ...bound, ...fields }),
  };
}

/** Drops fields without a value, such as the module of a global hook. */
function present(fields: LogFields): LogFields {
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

function format(type: LogType, line: LogEntry): string {
  if (type === "json") {
    const { level, time, message, fields } = line;
    return `${JSON.stringify({ level, ...(time === undefined ? {} : { time }), msg: message, ...fields })}\n`;
  }
  const name = line.level.toUpperCase().padEnd(5);
  const level = type === "color" ? `\u001B[${COLORS[line.level]}m${name}\u001B[0m` : name;
  return `${line.time === undefined ? "" : `${line.time} `}${level} ${logMessage(line)}\n`;
}

/** The sentence of an entry with its fields. */
export function logMessage({ message, fields }: Pick<LogEntry, "message" | "fields">): string {
  const displayed = Object.entries(fields).map(([key, value]) => ` ${key}=${show(value)}`);
  return visible(`${message}${displayed.join("")}`);
}

/** An entry as a line of text. */
export function logText(entry: LogEntry): string {
  return format("text", entry).trimEnd();
}

function show(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return /^[^\s"=]+$/.test(text) ? text : JSON.stringify(text);
}

interface LogSettings {
  readonly logLevel: LogLevel;
  readonly logType: LogType | undefined;
  readonly logNoTime: boolean;
}

/** Log lines go to stdout: text on a terminal, JSON elsewhere. */
export function logSink(settings: LogSettings, secrets = new KnownSecrets(), work?: LogWork): LogSink {
  const { stdout } = process;
  return {
    level: settings.logLevel,
    type: settings.logType ?? (stdout.isTTY ? "text" : "json"),
    noTime: settings.logNoTime,
    clock: systemClock,
    secrets,
    work,
    write: (line) => void stdout.write(line),
  };
}
