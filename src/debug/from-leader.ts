/** What a follower answers in place of what only its leader knows: what that answers, or that it is to be asked. */

import { pipeline } from "node:stream";

import type { LeaderAnswer } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { HEADERS } from "../ui/index.ts";
import type { StreamAnswer, WebAnswer, WebRequest } from "./web.ts";

/** The leader of an operator that waits for the lease. */
export interface LeaderSources {
  /** Who leads; undefined where this operator does. */
  readonly leader?: (() => string | undefined) | undefined;
  /** Gets a path of the leader's HTTP port. */
  readonly askLeader?: ((path: string) => Promise<LeaderAnswer>) | undefined;
}

/** Nothing that a browser would run, whoever answers in the leader's place. */
const TYPES = /^(?:text\/plain|application\/json|text\/event-stream)(?:;|$)/;

/** Undefined where this operator leads. */
export async function fromLeader(
  { leader, askLeader }: LeaderSources,
  { method, path, query, follower }: WebRequest,
): Promise<WebAnswer | StreamAnswer | undefined> {
  const name = leader?.();
  if (name === undefined) return undefined;
  if (follower !== undefined || askLeader === undefined) return followerAnswer(name);
  try {
    const {
      status,
      type = "",
      body,
    } = await askLeader(query.size === 0 ? path : `${path}?${query.toString()}`);
    const headers = { ...HEADERS, "content-type": TYPES.test(type) ? type : "text/plain; charset=utf-8" };
    if (method !== "HEAD") return { status, headers, stream: (to) => void pipeline(body, to, () => {}) };
    body.destroy();
    return { status, headers, body: "" };
  } catch (error) {
    return followerAnswer(name, `, but cannot be asked: ${oneLine(error)}`);
  }
}

function followerAnswer(leader: string, why = ""): WebAnswer {
  return { status: 503, body: `this operator is a follower: ask ${leader}, which leads${why}\n` };
}
