/** Limits the shares of a resource that all clients use, so that no client can exhaust the resource. */

/** Limits of a resource. */
export interface ShareLimit {
  /** For all clients together. */
  readonly total: number;
  /** For the clients of one address. */
  readonly perAddress: number;
}

/** Counts how much of a limited resource all clients use together, and the clients of each address. */
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

  /** Opens an empty share for a client of this address. The caller must close it. */
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

/** What one client, for example one request, uses of the resource. */
export interface Share {
  /** Counts `amount` more in any case. Returns whether the usage is within the limits. */
  add(amount: number): boolean;
  /** Subtracts everything that this share has added. */
  close(): void;
}
