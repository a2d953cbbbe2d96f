/** The connections in use, replaced when credentials change. */

import type { Access, Credentials } from "./credentials.ts";
import { ConnectionError } from "../api-errors.ts";
import type { Pools } from "./pools.ts";
import { openPools } from "./pools.ts";

/** Credentials and the pools that go with them. */
export class Connection {
  readonly credentials: Credentials;
  /** Asked before each write except those of the lease. */
  mayWrite: () => boolean = () => true;
  #pools: Pools | undefined;
  #fingerprint = "";
  #closed = false;

  constructor(credentials: Credentials) {
    this.credentials = credentials;
  }

  async open(): Promise<{ access: Access; pools: Pools }> {
    const access = await this.credentials.access();
    if (this.#closed) throw new ConnectionError("ECLOSED", "the client is closed");
    if (this.#pools === undefined || this.#fingerprint !== access.fingerprint) {
      // Certificates were rotated: new requests use new connections, running ones end on the old ones.
      void this.#pools?.close();
      this.#pools = openPools(access, () => this.mayWrite());
      this.#fingerprint = access.fingerprint;
    }
    return { access, pools: this.#pools };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#pools?.destroy();
  }
}
