/** The limits of the webhook server for its clients. */

import type { BodyLimits } from "./body.ts";
import type { ShareLimit } from "./shares.ts";

/** Limits of the server; times in ms. */
export interface WebhookLimits extends BodyLimits {
  readonly connections: ShareLimit;
  /** Requests at one time; the server refuses one more at once. */
  readonly requests: ShareLimit;
  /** Connections and requests that one address may begin per second; the server closes the connection of one more. */
  readonly rates: { readonly connections: number; readonly requests: number };
  /** Time for a request if the API server names none. */
  readonly answerMs: number;
  readonly idleMs: number;
}

const MIB = 1024 * 1024;
export const LIMITS: WebhookLimits = {
  connections: { total: 256, perAddress: 32 },
  // An API server sends all its requests from one address.
  requests: { total: 256, perAddress: 128 },
  // A refused request takes about 0.2 ms, a handshake some milliseconds.
  rates: { connections: 32, requests: 4000 },
  // Objects in etcd have at most 1.5 MiB; an update has the old one and the new one.
  admission: { bytes: 6 * MIB, values: 1_000_000 },
  // Lists are converted as a whole.
  conversion: { bytes: 64 * MIB, values: 6_000_000 },
  bytes: { total: 96 * MIB, perAddress: 64 * MIB },
  values: { total: 8_000_000, perAddress: 6_000_000 },
  arriveMs: 5000,
  answerMs: 10_000,
  idleMs: 120_000,
};
