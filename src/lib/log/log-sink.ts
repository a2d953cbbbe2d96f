/** Where log lines go, and in which form. */

import { KnownSecrets } from "../redact/known-secrets.ts";
import { systemClock } from "../time/clock.ts";
import type { LogLevel, LogSink, LogType } from "./log.ts";

interface LogSettings {
  readonly logLevel: LogLevel;
  readonly logType: LogType | undefined;
  readonly logNoTime: boolean;
}

/** Log lines go to stdout: text on a terminal, JSON elsewhere. */
export function logSink(settings: LogSettings, secrets = new KnownSecrets()): LogSink {
  const { stdout } = process;
  return {
    level: settings.logLevel,
    type: settings.logType ?? (stdout.isTTY ? "text" : "json"),
    noTime: settings.logNoTime,
    clock: systemClock,
    secrets,
    write: (line) => void stdout.write(line),
  };
}
