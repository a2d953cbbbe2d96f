/** Shares of a resource that all clients use, so that none of them can exhaust it. */

/** Limits of a resource. */
export interface ShareLimit {
  /** For all clients together. */
  readonly all: number;
  /** For the clients of one address. */
  readonly each: number;
}

/** What the clients of an address use of a limited resource. */
export class Shares {
  readonly #limit: ShareLimit;
  readonly #used = new Map<string, number>();
  #all = 0;

  constructor(limit: ShareLimit) {
    this.#limit = limit;
  }

  /** Whether one more for this address is above a limit. */
  isUsedUp(address: string): boolean {
    return this.#all >= this.#limit.all || (this.#used.get(address) ?? 0) >= this.#limit.each;
  }

  /** A share without anything yet. The caller closes it. */
  open(address: string): Share {
    let own = 0;
    const use = (amount: number): void => {
      own += amount;
      this.#all += amount;
      const used = (this.#used.get(address) ?? 0) + amount;
      if (used === 0) this.#used.delete(address);
      else this.#used.set(address, used);
    };
    return {
      add: (amount) => {
        use(amount);
        return this.#all <= this.#limit.all && (this.#used.get(address) ?? 0) <= this.#limit.each;
      },
      close: () => use(-own),
    };
  }
}

export interface Share {
  /** Uses more. Returns whether that is within the limits. */
  add(amount: number): boolean;
  /** Gives everything back. */
  close(): void;
}
