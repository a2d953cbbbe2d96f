/**
 * The redaction key. Placeholders replace secret values wherever values are displayed. They are made with the key (HMAC), so that equal secrets
 * have equal placeholders, but nobody can test a guess without the key (docs/reference/status.md, "Values and secrets").
 */

import { randomBytes } from "node:crypto";

import type { KubeAccess } from "./client/client.ts";
import { MANAGED_BY_OPERATOR, SECRETS, type Secret } from "./resources.ts";
import { create, get } from "./client/verbs.ts";
import { ignoreNotFound, isAlreadyExists } from "./api-errors.ts";
import { oneLine, useRedactionKey } from "../base/index.ts";

const KEY_BYTES = 32;

interface RedactionKeyOptions extends Pick<KubeAccess, "client" | "logger" | "namespace"> {
  /** Name of the Secret that stores the key. */
  readonly secret: string;
}

/**
 * The key of placeholders and displayed digests. A Secret beside the ConfigMap stores it, so that they are the same
 * after a restart and in every replica. If the Secret cannot be used, the process keeps its random key.
 */
export class RedactionKey {
  readonly #options: RedactionKeyOptions;
  /** The stored key, if it is in use. */
  #storedKey: Uint8Array | undefined;

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

  /** Uses the stored key or creates it; for the lease holder only. Never throws. */
  async ensure(): Promise<void> {
    if (this.#storedKey !== undefined) return;
    try {
      const isLoaded = await this.#loadStoredKey();
      if (!isLoaded) await this.#createSecret(randomBytes(KEY_BYTES));
    } catch (error) {
      this.#options.logger.warn(
        "The redaction key cannot be stored in its Secret, so placeholders of secrets differ after each start",
        { secret: this.#options.secret, error: oneLine(error) },
      );
    }
  }

  /** Stores the key again if its Secret was deleted; returns whether it was. For the lease holder only. Throws ApiError, ConnectionError. */
  async restore(): Promise<boolean> {
    if (this.#storedKey === undefined || (await this.#readSecret()) !== undefined) return false;
    await this.#createSecret(this.#storedKey);
    return true;
  }

  #readSecret(): Promise<Secret | undefined> {
    const { client, namespace, secret: name } = this.#options;
    return get<Secret>(client, { resource: SECRETS, namespace, name }).catch(ignoreNotFound);
  }

  /** Reads the key from the Secret and uses it; false if the Secret does not exist. */
  async #loadStoredKey(): Promise<boolean> {
    const secret = await this.#readSecret();
    if (secret === undefined) return false;
    const key = Buffer.from(secret.data?.["key"] ?? "", "base64");
    const remedy = "Delete the Secret, and the operator creates a new one";
    if (key.length < KEY_BYTES) throw new Error(`its key does not have ${KEY_BYTES} bytes. ${remedy}`);
    this.#useKey(key);
    return true;
  }

  /** Creates the Secret with this key; if another operator has created it meanwhile, uses the stored key. */
  async #createSecret(key: Uint8Array): Promise<void> {
    const { client, namespace, secret } = this.#options;
    const metadata = { name: secret, namespace, labels: MANAGED_BY_OPERATOR };
    const data = { key: Buffer.from(key).toString("base64") };
    const body = { apiVersion: "v1", kind: "Secret", metadata, immutable: true, data };
    try {
      await create(client, { resource: SECRETS, namespace }, { body });
      this.#useKey(key);
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await this.#loadStoredKey();
    }
  }

  /** Makes placeholders and digests with this key from now on. */
  #useKey(key: Uint8Array): void {
    useRedactionKey(key);
    this.#storedKey = key;
  }
}

/** Name of the Secret with the redaction key, in the operator's namespace. */
export function redactionSecretName(configMap: string): string {
  return `addon-operator-${configMap}-redaction`;
}
