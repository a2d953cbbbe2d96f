/** Asks a running operator over its debug socket. */

import { socketPlaces } from "../../config.ts";
import { isJsonObject, ProblemError, type Json } from "../../model/index.ts";
import type { Line, World } from "../table/row.ts";
import { NoOperatorError, type Call } from "./call.ts";
import { callSocket, type Answer } from "./request.ts";

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
