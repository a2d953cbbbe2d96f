/** Requests of a follower to the HTTP port of the leader. */

import { request, type IncomingMessage } from "node:http";

import type { Clock } from "../../lib/index.ts";
import type { Address } from "./address.ts";

/** The response of a leader. The caller reads or destroys the body. */
export interface LeaderAnswer {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: IncomingMessage;
}

/** Header of requests that a follower forwards: the receiver answers them itself, so that two replicas never forward to each other. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

/** Time limit until the headers of the response. */
const TIMEOUT_MS = 3000;

/** Requests a path from the HTTP server of the leader. Rejects if no response arrives in time. */
export function queryLeader({ ip, port }: Address, path: string, clock: Clock): Promise<LeaderAnswer> {
  return new Promise((resolve, reject) => {
    const headers = { [FOLLOWER_HEADER]: "true" };
    const clientRequest = request({ host: ip, port, path, headers, agent: false }, (body) => {
      timeout.cancel();
      resolve({ status: body.statusCode ?? 0, contentType: body.headers["content-type"], body });
    });
    const timeout = clock.setTimer(
      TIMEOUT_MS,
      () => void clientRequest.destroy(new Error("no answer in time")),
    );
    clientRequest.on("error", reject).on("close", () => timeout.cancel());
    clientRequest.end();
  });
}
