/** A follower answers requests for the leader's data by proxying them to the leader. */

import { pipeline } from "node:stream";

import type { LeaderAnswer } from "../../kube/index.ts";
import { oneLine } from "../../base/index.ts";
import { SECURITY_HEADERS } from "../ui/index.ts";
import type { StreamResponse, WebResponse, WebRequest } from "./web.ts";

/** How to reach the leader. */
export interface LeaderSources {
  /** The name of the leader; undefined while this operator leads. */
  readonly leader?: (() => string | undefined) | undefined;
  /** Requests a path from the leader's HTTP port. */
  readonly queryLeader?: ((path: string) => Promise<LeaderAnswer>) | undefined;
}

/** Allowed content types: nothing that a browser executes, even if another server takes the leader's address. */
const ALLOWED_TYPES = /^(?:text\/plain|application\/json|text\/event-stream)(?:;|$)/;

/**
 * Forwards a request to the leader and returns its response; undefined while this operator leads. A request that another
 * follower has forwarded (`follower`) is refused: while the leader changes, two followers would proxy to each other.
 */
export async function proxyToLeader(
  { leader, queryLeader }: LeaderSources,
  { method, path, query, follower }: WebRequest,
): Promise<WebResponse | StreamResponse | undefined> {
  const leaderName = leader?.();
  if (leaderName === undefined) return undefined;
  if (follower !== undefined || queryLeader === undefined) return followerResponse(leaderName);
  const pathAndQuery = query.size === 0 ? path : `${path}?${query.toString()}`;
  try {
    const { status, contentType = "", body } = await queryLeader(pathAndQuery);
    const type = ALLOWED_TYPES.test(contentType) ? contentType : "text/plain; charset=utf-8";
    const headers = { ...SECURITY_HEADERS, "content-type": type };
    if (method !== "HEAD") return { status, headers, stream: (to) => void pipeline(body, to, () => {}) };
    body.destroy();
    return { status, headers, body: "" };
  } catch (error) {
    return followerResponse(leaderName, ` The request to it failed: ${oneLine(error)}`);
  }
}

/** The response of a follower that does not proxy a request: names the leader to query. */
export function followerResponse(leader: string, error = ""): { status: number; body: string } {
  return { status: 503, body: `this operator is a follower. Query the leader: ${leader}.${error}\n` };
}
