/** The key of stand-ins for secrets, kept in a Secret (docs/STATUS.md, "Values and secrets"). */

import { randomBytes } from "node:crypto";

import type { KubeClient } from "./client/client.ts";
import { MADE_HERE, SECRETS, type Secret } from "./resources.ts";
import { create, get } from "./client/request.ts";
import { ignoreNotFound, isAlreadyExists } from "./api-errors.ts";
import { oneLine, useRedactionKey } from "../lib/index.ts";
import type { Logger } from "../lib/index.ts";

const KEY_BYTES = 32;

/** Where the key of an installation is, and how it is read and written. */
interface KeyPlace {
  readonly client: KubeClient;
  readonly logger: Logger;
  readonly namespace: string;
  readonly secret: string;
}

/**
 * The key of stand-ins and shown digests: one for an installation, in a Secret beside the ConfigMap, so that they
 * are the same after a restart and in every replica. Where the Secret cannot be used, the process keeps its random
 * key.
 */
export class RedactionKey {
  readonly #place: KeyPlace;
  #isKnown = false;

  constructor(place: KeyPlace) {
    this.#place = place;
  }

  /** Uses the key if there is one; a follower must not make it. Never throws. */
  async read(): Promise<void> {
    try {
      await this.#read();
    } catch (error) {
      this.#place.logger.debug("The key of redaction cannot be read yet", { error: oneLine(error) });
    }
  }

  /** Uses the key, or makes it; only the holder of the lease may. Never throws. */
  async ensure(): Promise<void> {
    if (this.#isKnown) return;
    try {
      if (!(await this.#read())) await this.#create();
    } catch (error) {
      this.#place.logger.warn(
        "The key of redaction cannot be kept in its Secret; stand-ins of secrets differ after each start",
        { secret: this.#place.secret, error: oneLine(error) },
      );
    }
  }

  /** False if there is no Secret. */
  async #read(): Promise<boolean> {
    const { client, namespace, secret: name } = this.#place;
    const found = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    if (found === undefined) return false;
    const key = Buffer.from(found.data?.["key"] ?? "", "base64");
    if (key.length < KEY_BYTES)
      throw new Error(`its key has not ${KEY_BYTES} bytes: delete the Secret, and a new one is made`);
    this.#use(key);
    return true;
  }

  /** Another operator may have made it meanwhile: then that one counts. */
  async #create(): Promise<void> {
    const { client, namespace, secret } = this.#place;
    const key = randomBytes(KEY_BYTES);
    const labels = MADE_HERE;
    const metadata = { name: secret, namespace, labels };
    const data = { key: key.toString("base64") };
    const body = { apiVersion: "v1", kind: "Secret", metadata, immutable: true, data };
    try {
      await create(client, { resource: SECRETS, namespace }, { body });
      this.#use(key);
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await this.#read();
    }
  }

  #use(key: Uint8Array): void {
    useRedactionKey(key);
    this.#isKnown = true;
  }
}

/** Name of the Secret with the key, in the operator's namespace. */
export function redactionSecretName(configMap: string): string {
  return `addon-operator-${configMap}-redaction`;
}
