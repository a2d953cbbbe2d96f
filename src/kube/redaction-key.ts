/**
 * The redaction key. Placeholders replace secret values wherever values are displayed. They are made with the key (HMAC), so that equal secrets
 * have equal placeholders, but nobody can test a guess without the key (docs/reference/status.md, "Values and secrets").
 */

import type { KubeAccess } from "./client/client.ts";
import { MANAGED_BY_OPERATOR, SECRETS, type Secret } from "./resources.ts";
import { create, get } from "./client/verbs.ts";
import { ignoreNotFound, isAlreadyExists } from "./api-errors.ts";
import { exportRedactionKey, oneLine, useRedactionKey } from "../base/index.ts";

const KEY_BYTES = 32;

interface RedactionKeyOptions extends Pick<KubeAccess, "client" | "logger" | "namespace"> {
  /** Name of the Secret that stores the key. */
  readonly secret: string;
}

/**
 * The key of placeholders and displayed digests. A Secret beside the ConfigMap stores it, so that they are the same
 * after a restart and in every replica. While the Secret cannot be used, the process keeps its random key.
 */
export class RedactionKey {
  readonly #options: RedactionKeyOptions;
  /** The key in use is the stored one. */
  #isStored = false;

  constructor(options: RedactionKeyOptions) {
    this.#options = options;
  }

  /** Uses the stored key, if it exists; for followers, which must not create it. Never throws. */
  async read(): Promise<void> {
    try {
      await this.#loadStoredKey();
    } catch (error) {
      this.#options.logger.debug("The redaction key cannot be read yet", { error: oneLine(error) });
    }
  }

  /** Uses the stored key, or stores the key of the process; for the lease holder only. Never throws. */
  async ensure(): Promise<void> {
    if (this.#isStored) return;
    try {
      await this.#loadOrStoreKey();
    } catch (error) {
      this.#options.logger.warn(
        "The redaction key cannot be stored in its Secret, retrying; until then, placeholders of secrets differ after each start",
        { secret: this.#options.secret, error: oneLine(error) },
      );
    }
  }

  /**
   * Stores the key again if its Secret was deleted; returns whether it was. Repeats `ensure` if that has failed. For the lease holder only. Throws
   * as `#loadOrStoreKey`.
   */
  async restore(): Promise<boolean> {
    const { logger, secret } = this.#options;
    const wasStored = this.#isStored;
    const isLoaded = await this.#loadOrStoreKey();
    if (!wasStored) logger.info("The redaction key is stored now", { secret });
    return wasStored && !isLoaded;
  }

  /**
   * Uses the stored key, or stores the key of the process; returns whether it was stored. Throws ApiError, ConnectionError, and an Error if the
   * Secret has no valid key.
   */
  async #loadOrStoreKey(): Promise<boolean> {
    const isLoaded = await this.#loadStoredKey();
    if (!isLoaded) await this.#createSecret();
    return isLoaded;
  }

  /** Reads the key from the Secret and uses it; false if the Secret does not exist. */
  async #loadStoredKey(): Promise<boolean> {
    const { client, namespace, secret: name } = this.#options;
    const secret = await get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
    if (secret === undefined) return false;
    const key = Buffer.from(secret.data?.["key"] ?? "", "base64");
    const remedy = "Delete the Secret, and the operator creates a new one";
    if (key.length < KEY_BYTES) throw new Error(`its key does not have ${KEY_BYTES} bytes. ${remedy}`);
    useRedactionKey(key);
    this.#isStored = true;
    return true;
  }

  /** Creates the Secret with the key of the process; if another operator has created it meanwhile, uses the stored key. */
  async #createSecret(): Promise<void> {
    const { client, namespace, secret } = this.#options;
    const metadata = { name: secret, namespace, labels: MANAGED_BY_OPERATOR };
    const data = { key: Buffer.from(exportRedactionKey()).toString("base64") };
    const body = { apiVersion: "v1", kind: "Secret", metadata, immutable: true, data };
    try {
      await create(client, { resource: SECRETS, namespace }, { body });
      this.#isStored = true;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await this.#loadStoredKey();
    }
  }
}

/** Name of the Secret with the redaction key, in the operator's namespace. */
export function redactionSecretName(configMap: string): string {
  return `addon-operator-${configMap}-redaction`;
}
