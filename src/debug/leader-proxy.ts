/** A follower answers requests for the leader's data by proxying them to the leader. */

import { pipeline } from "node:stream";

import type { LeaderAnswer } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import { HEADERS } from "../ui/index.ts";
import type { StreamResponse, WebResponse, WebRequest } from "./web.ts";

/** How to reach the leader. */
export interface LeaderSources {
  /** The name of the leader; undefined while this operator leads. */
  readonly leader?: (() => string | undefined) | undefined;
  /** Requests a path from the leader's HTTP port. */
  readonly queryLeader?: ((path: string) => Promise<LeaderAnswer>) | undefined;
}

/** Allowed content types: nothing that a browser executes, even if another server takes the leader's address. */
const TYPES = /^(?:text\/plain|application\/json|text\/event-stream)(?:;|$)/;

/** The leader's response; undefined while this operator leads. A follower does not proxy for another follower. */
export async function proxyToLeader(
  { leader, queryLeader }: LeaderSources,
  { method, path, query, follower }: WebRequest,
): Promise<WebResponse | StreamResponse | undefined> {
  const name = leader?.();
  if (name === undefined) return undefined;
  if (follower !== undefined || queryLeader === undefined) return followerResponse(name);
  try {
    const {
      status,
      contentType = "",
      body,
    } = await queryLeader(query.size === 0 ? path : `${path}?${query.toString()}`);
    const headers = {
      ...HEADERS,
      "content-type": TYPES.test(contentType) ? contentType : "text/plain; charset=utf-8",
    };
    if (method !== "HEAD") return { status, headers, stream: (to) => void pipeline(body, to, () => {}) };
    body.destroy();
    return { status, headers, body: "" };
  } catch (error) {
    return followerResponse(name, ` The request to it failed: ${oneLine(error)}`);
  }
}

/** Names the leader to query. */
export function followerResponse(leader: string, error = ""): { status: number; body: string } {
  return { status: 503, body: `this operator is a follower. Query the leader: ${leader}.${error}\n` };
}
