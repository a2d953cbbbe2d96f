/** The limits of the webhook server for its clients, and the counters that enforce them. */

import type { Clock } from "../base/index.ts";

/** Limits of a resource. */
export interface ShareLimit {
  /** For all clients together. */
  readonly total: number;
  /** For the clients of one address. */
  readonly perAddress: number;
}

/** The limits of one body. Values have a limit of their own, because a short JSON text may contain many, and each needs memory. */
export interface BodyLimit {
  readonly bytes: number;
  readonly values: number;
}

export interface BodyLimits {
  readonly admission: BodyLimit;
  readonly conversion: BodyLimit;
  /** Limits of all bodies that are in memory at one time: bytes and JSON values. */
  readonly bytes: ShareLimit;
  readonly values: ShareLimit;
  /** Time for a body to arrive, in ms. */
  readonly arriveMs: number;
}

/** Limits of the server; times in ms. */
export interface WebhookLimits extends BodyLimits {
  readonly connections: ShareLimit;
  /** Requests at one time; the server refuses one more at once. */
  readonly requests: ShareLimit;
  /** Connections and requests that one address may begin per second; the server closes the connection of one more. */
  readonly rates: { readonly connections: number; readonly requests: number };
  /** Processor time that parsing reviews of one address may use. */
  readonly parsing: { readonly share: number; readonly maxMs: number };
  /** Time for a request if the API server names none. */
  readonly answerMs: number;
  readonly idleMs: number;
}

const MIB = 1024 * 1024;
export const WEBHOOK_LIMITS: WebhookLimits = {
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
  // A review of the largest size takes one to two seconds; the operator does nothing else meanwhile.
  parsing: { share: 0.25, maxMs: 2000 },
  arriveMs: 5000,
  answerMs: 10_000,
  idleMs: 120_000,
};

/** What one client, for example one request, uses of the resource. */
interface Share {
  /** Counts `amount` more in any case. Returns whether the usage is within the limits. */
  add(amount: number): boolean;
  /** Subtracts everything that this share has added. */
  close(): void;
}

/** Counts how much of a limited resource all clients use together, and the clients of each address. A share is what one request uses. */
export class Shares {
  readonly #limit: ShareLimit;
  readonly #usedByAddress = new Map<string, number>();
  #totalUsed = 0;

  constructor(limit: ShareLimit) {
    this.#limit = limit;
  }

  /** Whether one unit more for this address would exceed a limit. */
  isUsedUp(address: string): boolean {
    return (
      this.#totalUsed >= this.#limit.total ||
      (this.#usedByAddress.get(address) ?? 0) >= this.#limit.perAddress
    );
  }

  /** Opens a share, which counts what one request or body of this address uses. The caller must close it. */
  openShare(address: string): Share {
    let shareAmount = 0;
    // Forgets addresses without usage, so that the map does not grow with each client.
    const changeUsage = (amount: number): void => {
      shareAmount += amount;
      this.#totalUsed += amount;
      const used = (this.#usedByAddress.get(address) ?? 0) + amount;
      if (used === 0) this.#usedByAddress.delete(address);
      else this.#usedByAddress.set(address, used);
    };
    return {
      add: (amount) => {
        changeUsage(amount);
        return (
          this.#totalUsed <= this.#limit.total &&
          (this.#usedByAddress.get(address) ?? 0) <= this.#limit.perAddress
        );
      },
      close: () => changeUsage(-shareAmount),
    };
  }
}

const WINDOW_MS = 1000;

/** Counts the events of each address in windows of one second. Each window starts with an empty map, which bounds the memory. */
export class AddressRateLimiter {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #limit: number;
  readonly #counts = new Map<string, number>();
  #windowStart = -Infinity;

  /** `limit`: how many events one address may cause per second. */
  constructor(clock: Pick<Clock, "monotonic">, limit: number) {
    this.#clock = clock;
    this.#limit = limit;
  }

  /** Counts one more event. Returns whether the address is still within its limit. */
  countEvent(address: string): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= WINDOW_MS) {
      this.#windowStart = now;
      this.#counts.clear();
    }
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count <= this.#limit;
  }
}
