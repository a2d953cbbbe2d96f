/** Requests of a follower to the HTTP port of the leader. */

import { request, type IncomingMessage } from "node:http";

import type { Clock } from "../../lib/index.ts";
import type { Address } from "./address.ts";

/** The response of a leader. The caller reads or destroys the body. */
export interface LeaderAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly body: IncomingMessage;
}

/** Header of the requests of followers: the receiver does not forward them again. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

/** Time limit until the headers of the response. */
const TIMEOUT_MS = 3000;

/** Gets a path. Rejects if no response arrives in time. */
export function queryLeader({ ip, port }: Address, path: string, clock: Clock): Promise<LeaderAnswer> {
  return new Promise((resolve, reject) => {
    const headers = { [FOLLOWER_HEADER]: "true" };
    const sent = request({ host: ip, port, path, headers, agent: false }, (body) => {
      limit.cancel();
      resolve({ status: body.statusCode ?? 0, type: body.headers["content-type"], body });
    });
    const limit = clock.setTimer(TIMEOUT_MS, () => void sent.destroy(new Error("no answer in time")));
    sent.on("error", reject).on("close", () => limit.cancel());
    sent.end();
  });
}
