import type { LogFields, Logger, LogLevel } from "../../src/base/index.ts";

export type LoggedLine = readonly [LogLevel, string, LogFields | undefined];

/** A logger that keeps what it is reported in `lines`. */
export function keepLog(lines: LoggedLine[]): Logger {
  const at = (level: LogLevel) => (message: string, fields?: LogFields) =>
    void lines.push([level, message, fields]);
  const [debug, info, warn, error] = [at("debug"), at("info"), at("warn"), at("error")];
  return { debug, info, warn, error, child: () => keepLog(lines) };
}
