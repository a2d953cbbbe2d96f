/** Asks a running operator over its debug socket. */

import { socketPlaces } from "../../config.ts";
import type { Line, World } from "../table/row.ts";
import { NoOperatorError, type Call } from "./call.ts";
import { callSocket, type Answer } from "./request.ts";

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
