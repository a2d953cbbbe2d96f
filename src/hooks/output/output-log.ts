/** Writes a hook's output to the log, without the secrets that `hide` and the redaction by keys find. */

import {
  attempt,
  LOG_LEVELS,
  parseExactJson,
  redactValues,
  systemClock,
  type Clock,
} from "../../base/index.ts";
import { type LogFields, type Logger, type LogLevel } from "../../base/index.ts";
import {
  isJsonObject,
  isNumber,
  mapMembers,
  objectOf,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";
import { MAX_LINE, type Stream } from "../../base/process/index.ts";

/** Fields of the log that a hook's own JSON must not overwrite; its own field of that name becomes `hook_<name>`. */
const RESERVED = new Set(["hook", "binding", "event", "queue", "module", "output", "task", "trace"]);
const MAX_JSON_LINES = 200;
const MAX_PEM_LINES = 200;
/** Lines of one run that are logged within a second. */
const MOST_LINES = 1000;
const SECOND_MS = 1000;

interface OutputLogOptions {
  readonly proxyJson: boolean;
  /** Hides secrets of the values in what is logged. */
  readonly hide?: ((text: string) => string) | undefined;
  readonly clock?: Clock;
}

/**
 * Writes the output lines of one hook run to the log, at most {@link MOST_LINES} in a second. With `proxyJson`, JSON objects, on one line or several,
 * become records of their own: level, message and fields as the hook gave them.
 */
export class OutputLog {
  readonly #logger: Logger;
  readonly #options: OutputLogOptions;
  /** How many more lines may belong to a PEM block that has begun. */
  readonly #pemLines: Record<Stream, number> = { stdout: 0, stderr: 0 };
  readonly #pending: Record<Stream, string[]> = { stdout: [], stderr: [] };
  #currentSecond = { from: -Infinity, lines: 0 };

  constructor(logger: Logger, options: OutputLogOptions) {
    this.#logger = logger;
    this.#options = options;
  }

  /** Logs one line of output. With `proxyJson`, collects lines that may form one JSON object first. */
  writeLine(stream: Stream, line: string): void {
    // The lines of an object that has begun.
    const pending = this.#pending[stream];
    const mayBeJson = pending.length > 0 || line.trimStart().startsWith("{");
    if (!this.#options.proxyJson || !mayBeJson) return this.#logPlainLine(stream, line);
    pending.push(line);
    const object = parseJsonLines(pending);
    if (object !== undefined) {
      this.#logJsonRecord(stream, object);
      this.#pending[stream] = [];
    } else if (isTooLong(pending)) {
      this.#logPending(stream);
    }
  }

  /** Call it when the run has ended: lines that never became JSON are logged as they are. */
  flush(): void {
    this.#logPending("stdout");
    this.#logPending("stderr");
    this.#reportDropped();
  }

  /** Counts a line of this second, and returns whether it may be logged: a hook must not flood the log. */
  #countLine(): boolean {
    const { clock = systemClock } = this.#options;
    const now = clock.monotonic();
    if (now >= this.#currentSecond.from + SECOND_MS) {
      this.#reportDropped();
      this.#currentSecond = { from: now, lines: 0 };
    }
    this.#currentSecond.lines += 1;
    return this.#currentSecond.lines <= MOST_LINES;
  }

  /** Logs how many lines of this second were dropped, if any. */
  #reportDropped(): void {
    const dropped = this.#currentSecond.lines - MOST_LINES;
    this.#currentSecond.lines = 0;
    if (dropped > 0)
      this.#logger.warn(`Output is not logged beyond ${MOST_LINES} lines per second; print less`, {
        dropped,
      });
  }

  /** Logs collected lines that are no JSON object as they are. */
  #logPending(stream: Stream): void {
    for (const line of this.#pending[stream].splice(0)) this.#logPlainLine(stream, line);
  }

  /** Logs one line as text, unless it belongs to a key or exceeds the limit. */
  #logPlainLine(stream: Stream, line: string): void {
    if (this.#trackPemBlock(stream, line) || !this.#countLine()) return;
    this.#logger.info(this.#hide(line), { output: stream });
  }

  /**
   * Tracks PEM blocks, and returns whether the line is inside one: such a line may be part of a key, which redaction cannot
   * see. A block without end is over after `MAX_PEM_LINES`.
   */
  #trackPemBlock(stream: Stream, line: string): boolean {
    const linesLeft = this.#pemLines[stream];
    const isEnd = line.includes("-----END ");
    if (linesLeft > 0) this.#pemLines[stream] = isEnd ? 0 : linesLeft - 1;
    else if (line.includes("-----BEGIN ") && !isEnd) this.#pemLines[stream] = MAX_PEM_LINES;
    return linesLeft > 0;
  }

  #hide(text: string): string {
    return this.#options.hide?.(text) ?? text;
  }

  /** Hides secrets in all texts and numbers of a value, at every level. */
  #hideDeep(value: Json): Json {
    if (this.#options.hide === undefined) return value;
    if (Array.isArray(value)) return value.map((item) => this.#hideDeep(item));
    if (isJsonObject(value)) return mapMembers(value, (member) => this.#hideDeep(member));
    if (typeof value !== "string" && !isNumber(value)) return value;
    const text = this.#hide(String(value));
    // An unchanged number stays a number.
    return text === String(value) ? value : text;
  }

  /** Logs a JSON object with its own level, message and fields. */
  #logJsonRecord(stream: Stream, value: JsonObject): void {
    if (!this.#countLine()) return;
    const { level, msg, time: _, ...otherMembers } = objectOf(this.#hideDeep(value));
    // A member must not replace a field that the operator adds itself.
    const toKey = (key: string): string => (RESERVED.has(key) ? `hook_${key}` : key);
    const fields: LogFields = Object.fromEntries(
      Object.entries(otherMembers).map(([key, member]) => [toKey(key), member]),
    );
    const message = typeof msg === "string" ? msg : "hook result";
    this.#logger[toLogLevel(level)](message, {
      ...(redactValues(fields as JsonObject) as JsonObject),
      output: stream,
    });
  }
}

/** The object that the lines form together; undefined if they form none yet. JSON is parsed only where an object may end, so that lines in between are not parsed again and again. */
function parseJsonLines(lines: readonly string[]): JsonObject | undefined {
  if (!lines.at(-1)?.trimEnd().endsWith("}")) return undefined;
  const value = attempt(() => parseExactJson(lines.join("\n")));
  return isJsonObject(value) ? value : undefined;
}

function isTooLong(lines: readonly string[]): boolean {
  const length = lines.reduce((sum, line) => sum + line.length, 0);
  return length > MAX_LINE || lines.length > MAX_JSON_LINES;
}

/** The operator's level for the level in a hook's record; `info` for unknown ones. */
function toLogLevel(level: Json | undefined): LogLevel {
  const name = typeof level === "string" ? level.toLowerCase() : "";
  if (name === "warning") return "warn";
  if (name === "fatal" || name === "panic") return "error";
  return LOG_LEVELS.find((each) => each === name) ?? "info";
}
