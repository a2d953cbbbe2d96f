/** The kubeconfig that children are given: of exactly the server and credentials that the operator itself uses. */

import type { LastingDir } from "../process/index.ts";
import type { KubeClient } from "./client/client.ts";

/** A private file below the temp directory. */
export class PrivateKubeconfig {
  /** The same for the life of the process. */
  readonly path: string;
  readonly #client: KubeClient;
  readonly #dir: LastingDir;
  readonly #name: string;

  /** `reader` tells apart the files of readers that must not see what another one writes into its own. */
  constructor(client: KubeClient, dir: LastingDir, reader: string) {
    this.#client = client;
    this.#dir = dir;
    this.#name = `${reader}.kubeconfig`;
    this.path = dir.path(this.#name);
  }

  /** To be called before each start of a child: credentials rotate, and the file may be altered. Throws ScratchError. */
  async refresh(): Promise<void> {
    await this.#dir.keep(this.#name, this.#client.kubeconfig());
  }
}
