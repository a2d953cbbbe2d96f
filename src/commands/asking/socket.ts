/** Asks a running operator over its debug socket, in HTTP/1.0: the answer ends with the connection. */

import { statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, resolve } from "node:path";

import { socketPlaces } from "../../config.ts";
import { faultOfPlace, isTrusted } from "../../lib/index.ts";
import { isJsonObject, ProblemError, type Json } from "../../model/index.ts";
import { NoOperatorError, type Call, type Line, type World } from "../table/row.ts";

/** What is known without any work is answered in this time, or the operator hangs. */
const PATIENCE_MS = 10_000;

/** For a request that takes the operator no work. */
export function inTime(): AbortSignal {
  return AbortSignal.timeout(PATIENCE_MS);
}

/** The object that an answer holds. Throws ProblemError where it holds none. */
export function objectIn(body: string): object {
  const value = parsed(body);
  const [message, remedy] = ["what answers there is no operator", "look at --debug-unix-socket"];
  if (!isJsonObject(value)) throw new ProblemError([{ file: "the debug socket", message, remedy }]);
  return value;
}

function parsed(body: string): Json | undefined {
  try {
    return JSON.parse(body) as Json;
  } catch {
    return undefined;
  }
}

/** How to ask the operator that the settings of a line lead to. Throws UsageError; what it returns, as `callOperator`. */
export function operatorOf(
  line: Line,
  { env }: World,
): (call: Call, signal?: AbortSignal) => Promise<Answer> {
  const places = socketPlaces(line.settings(env).settings);
  return (call, signal) => callOperator(places, call, signal);
}

/** Sends the request to the first of `places` where an operator listens. Throws NoOperatorError. */
export async function callOperator(
  places: readonly string[],
  call: Call,
  signal?: AbortSignal,
): Promise<Answer> {
  for (const place of places) {
    try {
      return await callSocket(place, call, signal);
    } catch (error) {
      if (!(error instanceof NoOperatorError)) throw error;
    }
  }
  throw new NoOperatorError(`no operator listens on ${places.join(" or ")}; set --debug-unix-socket`);
}

/** What an operator answers. */
export interface Answer {
  readonly status: number;
  readonly body: string;
}

const MOST_BYTES = 256 * 1024 * 1024;
const HEAD_END = "\r\n\r\n";

/**
 * One request, without node:http, which takes longer to load than all the rest. Throws NoOperatorError where nobody can
 * be reached, and ProblemError where what comes is no answer, or not all of it.
 */
export function callSocket(socketPath: string, call: Call, signal?: AbortSignal): Promise<Answer> {
  const fault = faultOfSocket(socketPath);
  if (fault !== undefined) {
    const remedy = "ask as the user that the operator runs as, or name its socket: --debug-unix-socket";
    return Promise.reject(new ProblemError([{ file: socketPath, message: fault, remedy }]));
  }
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath, () => socket.write(textOf(call)));
    const parts: Buffer[] = [];
    let bytes = 0;
    const fail = (why: string): void => {
      reject(new ProblemError([{ file: socketPath, message: why, remedy: REMEDY }]));
      socket.destroy();
    };
    const abort = (): void => fail("there was no answer in time");
    signal?.addEventListener("abort", abort, { once: true });
    socket.on("data", (part: Buffer) => {
      parts.push(part);
      bytes += part.length;
      if (bytes > MOST_BYTES) fail("the answer is too long");
    });
    socket.on("end", () => {
      const answer = answerIn(Buffer.concat(parts));
      if (typeof answer === "string") fail(answer);
      else resolve(answer);
    });
    socket.on("error", (error) => {
      if (socket.connecting || bytes === 0) reject(unreachable(socketPath, error));
      else fail(`the answer broke off: ${error.message}`);
    });
    socket.on("close", () => signal?.removeEventListener("abort", abort));
  });
}

/** Why what answers there is not trusted: another user may have made it. */
function faultOfSocket(path: string): string | undefined {
  const uid = statSync(path, { throwIfNoEntry: false })?.uid;
  if (uid === undefined) return undefined;
  if (!isTrusted(uid)) return `this socket belongs to user ${uid} and is not trusted`;
  const fault = faultOfPlace(resolve(dirname(path)));
  return fault && `this socket is not trusted: ${fault}`;
}

const REMEDY = "look whether it is the operator's socket, and whether the operator still runs";

function unreachable(path: string, { message, code }: NodeJS.ErrnoException): Error {
  if (code === "EACCES") {
    const remedy = "ask as the user that the operator runs as, or with kubectl exec in its Pod";
    return new ProblemError([{ file: path, message: "you may not use this socket", remedy }]);
  }
  return new NoOperatorError(`no operator listens on ${path} (${message}); set --debug-unix-socket`);
}

function textOf({ method, path, form }: Call): string {
  const body = form === undefined ? "" : new URLSearchParams(form).toString();
  const place = path.replaceAll(/[^!-~]/gu, encodeURIComponent);
  return `${method} ${place} HTTP/1.0\r\nHost: localhost\r\nContent-Length: ${body.length}${HEAD_END}${body}`;
}

/** The answer, or what is wrong with it. */
function answerIn(bytes: Buffer): Answer | string {
  const end = bytes.indexOf(HEAD_END);
  const [first = "", ...headers] = bytes.toString("latin1", 0, Math.max(0, end)).split("\r\n");
  const [version = "", code = ""] = first.split(" ");
  if (end < 0 || !version.startsWith("HTTP/1.") || !/^\d{3}$/.test(code))
    return "what answers there is no operator";
  const body = bytes.subarray(end + HEAD_END.length);
  const length = headers.find((each) => each.toLowerCase().startsWith("content-length:"))?.split(":")[1];
  if (length !== undefined && Number(length) !== body.length) return "the answer broke off";
  return { status: Number(code), body: body.toString("utf8") };
}
