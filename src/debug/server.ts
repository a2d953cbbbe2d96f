/** Serves the debug socket: paths, formats, errors, and the log level that is set there. */

import { oneLine, toYaml, type Logger, type LogLevel } from "../lib/index.ts";
import type { Json } from "../model/index.ts";
import { isOfPage, isPageFile, type PageAnswer } from "../ui/index.ts";
import { fromLeader } from "./from-leader.ts";
import { queueText } from "./queue-dump.ts";
import { answer, type Answer, type Answers, type Sources } from "./routes.ts";
import { SocketFile } from "./socket-file.ts";
import { serve, type Limits, type StreamAnswer, type WebAnswer, type WebRequest } from "./web.ts";

const FORMATS = ["text", "yaml", "json"];
/** Rendering a chart may take this long. */
const IDLE_MS = 600_000;

/**
 * Serves the debug routes at the first of `places` that can be used, and again there where the file was removed;
 * undefined where none can.
 */
export async function serveSocketAt(
  places: readonly string[],
  sources: Sources,
  logger: Logger,
): Promise<SocketFile | undefined> {
  const errors: string[] = [];
  for (const place of places) {
    try {
      const socket = await serveSocket(place, sources);
      socket.watch(sources.clock, logger);
      return socket;
    } catch (error) {
      errors.push(`${place}: ${oneLine(error)}`);
    }
  }
  logger.warn("There is no debug socket: set --debug-unix-socket", { errors });
  return undefined;
}

/** Serves the debug routes on a unix socket. Throws as `SocketFile.open`. */
export function serveSocket(
  path: string,
  sources: Sources,
  limits: Partial<Limits> = {},
): Promise<SocketFile> {
  const answers = { ...sources, level: new TemporaryLevel(sources) };
  return SocketFile.open(path, (at) =>
    serve(
      { path: at },
      {
        methods: ["GET", "HEAD", "POST"],
        limits: { idleMs: IDLE_MS, ...limits },
        failed: sources.failed,
        answer: (request) => respond(answers, request),
      },
    ),
  );
}

async function respond(
  answers: Answers,
  request: WebRequest,
): Promise<WebAnswer | StreamAnswer | PageAnswer> {
  const { method, path, query, body } = request;
  if (answers.page !== undefined && isOfPage(path) && method !== "POST")
    return (
      (isPageFile(path) ? undefined : await fromLeader(answers, request)) ?? answers.page.answer(request)
    );
  const { words, format } = split(path);
  if (words === undefined) return { status: 400, body: "the path has a % that stands for nothing\n" };
  try {
    const given = await answer(answers, { method, path: words, query, form: new URLSearchParams(body) });
    return { status: given.status, body: render(given, format) };
  } catch (error) {
    return { status: 500, body: `${oneLine(error)}\n` };
  }
}

/** The segments of a path, and the format at its end. */
function split(path: string): { words: string[] | undefined; format: string | undefined } {
  const format = FORMATS.find((each) => path.endsWith(`.${each}`));
  const bare = format === undefined ? path : path.slice(0, -format.length - 1);
  try {
    return { words: bare.split("/").filter(Boolean).map(decodeURIComponent), format };
  } catch {
    return { words: undefined, format };
  }
}

/** Text for people, or the data as YAML or JSON. */
function render(given: Answer, format: string | undefined): string {
  if ("text" in given) return given.text;
  if ("queues" in given && (format ?? "text") === "text") return queueText(given.queues);
  const value = "queues" in given ? (given.queues as unknown as Json) : given.data;
  return format === "json" ? `${JSON.stringify(value)}\n` : toYaml(value);
}

/**
 * The log level as `config set` changes it: the last change counts; one with a duration falls back to the level
 * before the first of them.
 */
export class TemporaryLevel {
  readonly #sources: Pick<Sources, "log" | "clock">;
  /** The level that timed changes fall back to; undefined while none is in force. */
  #lasting: LogLevel | undefined;
  #changes = 0;

  constructor(sources: Pick<Sources, "log" | "clock">) {
    this.#sources = sources;
  }

  get now(): LogLevel {
    return this.#sources.log.level;
  }

  /** Sets the level for `ms` milliseconds, or for good. */
  set(level: LogLevel, ms: number | undefined): void {
    const { log, clock } = this.#sources;
    const lasting = this.#lasting ?? log.level;
    const change = ++this.#changes;
    log.level = level;
    this.#lasting = ms === undefined ? undefined : lasting;
    if (ms === undefined) return;
    clock.setTimer(ms, () => {
      if (change !== this.#changes) return;
      log.level = lasting;
      this.#lasting = undefined;
    });
  }
}
