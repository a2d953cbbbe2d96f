/** The client of the debug socket (a Unix socket) of a running operator. It speaks HTTP/1.0, where the end of the connection ends the response. */

import { statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, resolve } from "node:path";

import { socketPaths } from "../../../config/settings/index.ts";
import { attempt, findPathProblem, isTrustedUser } from "../../../base/index.ts";
import { isJsonObject, ProblemError, type Json } from "../../../base/model/index.ts";
import { NoOperatorError, type SocketRequest, type CommandLine, type Terminal } from "../table/row.ts";

/** Requests that the operator answers from memory take longer only if it hangs. */
const TIMEOUT_MS = 10_000;

/** The time limit for a request that the operator answers from memory. */
export function quickTimeout(): AbortSignal {
  return AbortSignal.timeout(TIMEOUT_MS);
}

/** Parses a response body. Throws ProblemError if it is not a JSON object. */
export function parseObject(body: string): object {
  const value = attempt(() => JSON.parse(body) as Json);
  if (isJsonObject(value)) return value;
  const remedy = "check --debug-unix-socket";
  throw new ProblemError({ file: "the debug socket", message: NOT_AN_OPERATOR, remedy });
}

/** Creates a function that sends a request to the operator that a command line selects, and throws as `queryFirstOperator`. Throws UsageError. */
export function operatorClient(
  line: CommandLine,
  { env }: Terminal,
): (call: SocketRequest, signal?: AbortSignal) => Promise<SocketResponse> {
  const paths = socketPaths(line.settings(env).settings);
  return (call, signal) => queryFirstOperator(paths, call, signal);
}

/** Sends the request to the first path on which an operator listens. Throws NoOperatorError. */
export async function queryFirstOperator(
  paths: readonly string[],
  call: SocketRequest,
  signal?: AbortSignal,
): Promise<SocketResponse> {
  for (const path of paths) {
    try {
      return await querySocket(path, call, signal);
    } catch (error) {
      if (!(error instanceof NoOperatorError)) throw error;
    }
  }
  throw new NoOperatorError(noOperatorMessage(paths.join(" or ")));
}

function noOperatorMessage(paths: string): string {
  return `no operator listens on ${paths}. If the operator uses another socket, set --debug-unix-socket. Without a socket, run kubectl addon status`;
}

export interface SocketResponse {
  readonly status: number;
  readonly body: string;
}

/** Longest response: a program that imitates an operator cannot fill the memory. */
const MAX_BYTES = 256 * 1024 * 1024;
const NOT_AN_OPERATOR = "the program on this socket is not an operator";
/** An operator that has lost its Lease closes its connections. */
const NO_ANSWER = "the operator is ending: it closed the connection without an answer";
const HEADERS_END = "\r\n\r\n";

/**
 * Sends one request. It avoids node:http, which takes longer to load than the rest of the program. Throws NoOperatorError
 * if no server listens, and ProblemError for an invalid or incomplete response.
 */
export function querySocket(
  socketPath: string,
  call: SocketRequest,
  signal?: AbortSignal,
): Promise<SocketResponse> {
  const problem = explainDistrust(socketPath);
  if (problem !== undefined) {
    const remedy = "run this command as the operator's user, or set --debug-unix-socket to its socket";
    return Promise.reject(new ProblemError({ file: socketPath, message: problem, remedy }));
  }
  return new Promise((resolve, reject) => {
    const socket = connect(socketPath, () => socket.write(formatRequest(call)));
    const chunks: Buffer[] = [];
    let bytes = 0;
    const fail = (message: string): void => {
      reject(new ProblemError({ file: socketPath, message, remedy: REMEDY }));
      socket.destroy();
    };
    const abort = (): void => fail("the operator did not respond in time");
    signal?.addEventListener("abort", abort, { once: true });
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > MAX_BYTES) fail("the response is too long");
    });
    socket.on("end", () => {
      const answer = parseResponse(Buffer.concat(chunks));
      if (typeof answer === "string") fail(answer);
      else resolve(answer);
    });
    socket.on("error", (error) => {
      // Without an answer, nobody listens: the socket file may be left over.
      if (socket.connecting || bytes === 0) reject(unreachableError(socketPath, error));
      else fail(`the response is incomplete: ${error.message}`);
    });
    socket.on("close", () => signal?.removeEventListener("abort", abort));
  });
}

/** Why this user must not trust a socket: another user may have created it to imitate the operator. Undefined if it is trusted or does not exist. */
function explainDistrust(path: string): string | undefined {
  const uid = statSync(path, { throwIfNoEntry: false })?.uid;
  if (uid === undefined) return undefined;
  if (!isTrustedUser(uid)) return `this socket belongs to user ${uid} and is not trusted`;
  const problem = findPathProblem(resolve(dirname(path)));
  return problem && `this socket is not trusted: ${problem}`;
}

const REMEDY = "check that this is the operator's socket and that the operator is running";

/** The error for a socket on which nobody listens, or which this user may not use. */
function unreachableError(path: string, { message, code }: NodeJS.ErrnoException): Error {
  if (code === "EACCES") {
    const remedy = "run this command as the operator's user, or with kubectl exec in its Pod";
    return new ProblemError({ file: path, message: "you are not allowed to use this socket", remedy });
  }
  return new NoOperatorError(noOperatorMessage(`${path} (${message})`));
}

/** The request as bytes of HTTP/1.0. */
function formatRequest({ method, path, form }: SocketRequest): string {
  const body = form === undefined ? "" : new URLSearchParams(form).toString();
  // Only visible ASCII characters may stay as they are.
  const encodedPath = path.replaceAll(/[^!-~]/gu, encodeURIComponent);
  return `${method} ${encodedPath} HTTP/1.0\r\nHost: localhost\r\nContent-Length: ${body.length}${HEADERS_END}${body}`;
}

/** Parses an HTTP response; returns an error message for an invalid or incomplete one. */
function parseResponse(bytes: Buffer): SocketResponse | string {
  if (bytes.length === 0) return NO_ANSWER;
  const headersEnd = bytes.indexOf(HEADERS_END);
  const head = bytes.toString("latin1", 0, Math.max(0, headersEnd));
  const [statusLine = "", ...headers] = head.split("\r\n");
  const [version = "", code = ""] = statusLine.split(" ");
  const isHttp = version.startsWith("HTTP/1.") && /^\d{3}$/.test(code);
  if (headersEnd < 0 || !isHttp) return NOT_AN_OPERATOR;
  const body = bytes.subarray(headersEnd + HEADERS_END.length);
  const length = headers.find((each) => each.toLowerCase().startsWith("content-length:"))?.split(":")[1];
  if (length !== undefined && Number(length) !== body.length) return "the response is incomplete";
  return { status: Number(code), body: body.toString("utf8") };
}
