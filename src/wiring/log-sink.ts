import { KnownSecrets, systemClock } from "../lib/index.ts";
import type { LogSink } from "../lib/index.ts";
import type { Settings } from "../settings.ts";

/** Log lines go to stdout: text on a terminal, JSON elsewhere. */
export function logSink(settings: Settings, secrets = new KnownSecrets()): LogSink {
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
