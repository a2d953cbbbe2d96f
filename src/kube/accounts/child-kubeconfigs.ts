/** The kubeconfigs of child processes: with the operator's credentials, and for one run of hooks with a token of the module's ServiceAccount. */

import { readFileSync } from "node:fs";

import { toYamlSafeJson, type Clock } from "../../base/index.ts";
import { objectOf, objectsIn, userOf, type Account, type JsonObject } from "../../base/model/index.ts";
import type { ScratchDir, StableTempDir } from "../../base/process/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { KubeClient } from "../client/client.ts";
import type { GetRunToken } from "./tokens.ts";

/** The kubeconfig file of child processes: readable only for the operator's user, below the temp directory. */
export class PrivateKubeconfig {
  /** Path of the file; it stays the same for the life of the process. */
  readonly path: string;
  readonly #client: KubeClient;
  readonly #dir: StableTempDir;
  readonly #name: string;
  readonly #namespace: string | undefined;

  /**
   * `reader` (`hooks`, `helm`) gives each kind of child its own file: a child may alter its file, and another kind must not read that.
   * `namespace` is that of requests that name none; undefined = as in the operator's kubeconfig.
   */
  constructor(client: KubeClient, dir: StableTempDir, reader: string, namespace?: string) {
    this.#namespace = namespace;
    this.#client = client;
    this.#dir = dir;
    this.#name = `${reader}.kubeconfig`;
    this.path = dir.path(this.#name);
  }

  /** Rewrites the file; call it before each start of a child, since credentials rotate and children may alter the file. Throws ScratchError. */
  async refresh(): Promise<void> {
    await this.#dir.write(this.#name, this.#client.exportKubeconfig(this.#namespace));
  }
}

interface AccessOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly token: GetRunToken;
}

/** The account of a run, and the namespace of requests that name none. */
export interface AccessRequest {
  readonly account: Account;
  readonly namespace: string;
  /** Called when a token cannot be renewed; the run goes on with the old one. */
  readonly onError: (error: unknown) => void;
}

/** A kubeconfig in a private directory; its token is renewed until `close`. */
export interface AccountAccess {
  readonly path: string;
  readonly close: () => void;
}

/** Shortest time until the next renewal of a token, also after a failed one. */
const RETRY_MS = 15_000;

/**
 * Writes kubeconfig and token into the directory of a run of hooks, and renews the token until `close`: a hook may run longer than a
 * token is valid. Throws MissingAccountError, ApiError, ConnectionError, ScratchError.
 */
export async function openAccountKubeconfig(
  { client, clock, token: getToken }: AccessOptions,
  { account, namespace, onError }: AccessRequest,
  scratch: ScratchDir,
): Promise<AccountAccess> {
  /** Returns the time until the next renewal. */
  const writeToken = async (signal?: AbortSignal): Promise<number> => {
    const { token, freshUntil } = await getToken();
    if (signal?.aborted !== true) await scratch.replaceFile("token", token);
    return Math.max(freshUntil - clock.monotonic(), RETRY_MS);
  };
  const loop = new Loop({ clock, run: writeToken, retry: RETRY_MS, onError });
  loop.trigger(await writeToken());
  const run = { account, namespace, tokenFile: scratch.path("token") };
  const path = await scratch.write("kubeconfig", buildAccountKubeconfig(client.exportKubeconfig(), run));
  return { path, close: () => loop.close() };
}

/**
 * Builds the kubeconfig of an account: the server of the operator's kubeconfig, with the account's token. It contains the
 * certificate authority instead of the path of its file, because the hooks' user may not be allowed to read that file.
 */
export function buildAccountKubeconfig(
  operatorKubeconfig: string,
  run: { readonly account: Account; readonly namespace: string; readonly tokenFile: string },
): string {
  const { account, namespace, tokenFile } = run;
  const [clusterEntry = {}] = objectsIn(objectOf(JSON.parse(operatorKubeconfig) as JsonObject)["clusters"]);
  const { "certificate-authority": caFile, ...cluster } = objectOf(clusterEntry["cluster"]);
  if (typeof caFile === "string")
    cluster["certificate-authority-data"] ??= readFileSync(caFile).toString("base64");
  const name = userOf(account);
  return toYamlSafeJson({
    apiVersion: "v1",
    kind: "Config",
    "current-context": name,
    clusters: [{ name, cluster }],
    users: [{ name, user: { tokenFile } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
  });
}
