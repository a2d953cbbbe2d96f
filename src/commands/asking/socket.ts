/** Asks a running operator over its debug socket. */

import { request } from "node:http";

import { socketPlaces } from "../../config.ts";
import type { Line, World } from "../table/row.ts";
import { NoOperatorError, type Call } from "./call.ts";

/** What an operator answers. */
export interface Answer {
  readonly status: number;
  readonly body: string;
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

/** Sends the request to the socket. Throws NoOperatorError when no operator listens there. */
export function callSocket(
  socketPath: string,
  { method, path, form }: Call,
  signal?: AbortSignal,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, method, signal }, (response) => {
      let body = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => void (body += chunk));
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body }));
    });
    sent.on("error", (error) => {
      reject(
        new NoOperatorError(
          `no operator listens on ${socketPath} (${error.message}); set --debug-unix-socket`,
        ),
      );
    });
    sent.end(form === undefined ? "" : new URLSearchParams(form).toString());
  });
}
