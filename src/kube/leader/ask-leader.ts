/** Asks the HTTP port of the leader, for a follower. */

import { request, type IncomingMessage } from "node:http";

import type { Clock } from "../../lib/index.ts";

/** Where a leader listens. */
export interface Address {
  readonly ip: string;
  readonly port: number;
}

/** What a leader answers. Whoever asked reads or destroys the body. */
export interface LeaderAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly body: IncomingMessage;
}

/** Header of what a follower asks: it is not passed on once more. */
export const FOLLOWER_HEADER = "x-addon-operator-follower";

/** The beginning of an answer has this long. */
const LIMIT_MS = 3000;

/** Gets a path. Rejects where nothing answers in time. */
export function askLeader({ ip, port }: Address, path: string, clock: Clock): Promise<LeaderAnswer> {
  return new Promise((resolve, reject) => {
    const headers = { [FOLLOWER_HEADER]: "true" };
    const sent = request({ host: ip, port, path, headers, agent: false }, (body) => {
      limit.cancel();
      resolve({ status: body.statusCode ?? 0, type: body.headers["content-type"], body });
    });
    const limit = clock.setTimer(LIMIT_MS, () => void sent.destroy(new Error("no answer in time")));
    sent.on("error", reject).on("close", () => limit.cancel());
    sent.end();
  });
}
