/** The kubeconfig of child processes: the server and the credentials that the operator uses. */

import type { StableTempDir } from "../process/index.ts";
import type { KubeClient } from "./client/client.ts";

/** The kubeconfig file of child processes: readable only for the operator's user, below the temp directory. */
export class PrivateKubeconfig {
  /** Path of the file; it stays the same for the life of the process. */
  readonly path: string;
  readonly #client: KubeClient;
  readonly #dir: StableTempDir;
  readonly #name: string;

  /** `reader` gives each reader its own file: a reader must not see what another one writes. */
  constructor(client: KubeClient, dir: StableTempDir, reader: string) {
    this.#client = client;
    this.#dir = dir;
    this.#name = `${reader}.kubeconfig`;
    this.path = dir.path(this.#name);
  }

  /** Rewrites the file; call it before each start of a child, since credentials rotate and children may alter the file. Throws ScratchError. */
  async refresh(): Promise<void> {
    await this.#dir.write(this.#name, this.#client.exportKubeconfig());
  }
}
