/** The content of the ConfigMap that was accepted last, kept in a Secret (docs/RUNNING.md, "An invalid ConfigMap"). */

import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";

import { create, get, ignoreNotFound, isNotFound, MADE_HERE, mergePatch, SECRETS } from "../../kube/index.ts";
import type { KubeClient, Secret } from "../../kube/index.ts";
import { canonicalJson, digest, oneLine, type Clock, type Logger, type Timer } from "../../lib/index.ts";
import { isJsonObject } from "../../model/index.ts";

/** Data of the ConfigMap and of the overlay as they were accepted together. */
export interface AcceptedContent {
  readonly data: Readonly<Record<string, string>>;
  readonly overlay: Readonly<Record<string, string>> | undefined;
}

interface AcceptedPlace {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly namespace: string;
  /** Name of the ConfigMap. */
  readonly name: string;
}

const KEY = "content.json.gz";
const AGAIN_MS = 10_000;
/** A ConfigMap and its overlay hold 1 MiB each. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Name of the Secret with the content that was accepted last, in the operator's namespace. */
function acceptedSecretName(configMap: string): string {
  return `addon-operator-${configMap}-accepted`;
}

/** Reads and writes the accepted content. It may hold passwords: no message quotes it. */
export class AcceptedConfig {
  readonly #place: AcceptedPlace;
  readonly #secret: string;
  /** What is still to be written; undefined when nothing is. */
  #wanted: AcceptedContent | undefined;
  /** Digest of what was written last. */
  #kept: string | undefined;
  #isWriting = false;
  #timer: Timer | undefined;

  constructor(place: AcceptedPlace) {
    this.#place = place;
    this.#secret = acceptedSecretName(place.name);
  }

  /** Undefined where nothing is kept. Throws ApiError, ConnectionError, and Error where it cannot be read. */
  async read(): Promise<AcceptedContent | undefined> {
    const { client, namespace } = this.#place;
    const target = { resource: SECRETS, namespace, name: this.#secret };
    const found = await get<Secret>(client, target).catch(ignoreNotFound);
    if (found === undefined) return undefined;
    try {
      const packed = Buffer.from(found.data?.[KEY] ?? "", "base64");
      const text = await promisify(gunzip)(packed, { maxOutputLength: MOST_BYTES });
      const content: unknown = JSON.parse(text.toString());
      if (!isAccepted(content)) throw new Error("no content");
      return content;
    } catch {
      // The cause could quote the content.
      throw new Error(`Secret ${this.#secret}: its ${KEY} cannot be read; delete the Secret`);
    }
  }

  /** Writes content that was accepted, soon and until that succeeds; only the holder of the lease may. */
  keep(content: AcceptedContent): void {
    this.#wanted = content;
    if (this.#timer === undefined && !this.#isWriting) void this.#write();
  }

  /** Writes nothing more. */
  close(): void {
    this.#wanted = undefined;
    this.#timer?.cancel();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    this.#timer = undefined;
    for (let content = this.#wanted; content !== undefined; content = this.#wanted) {
      this.#wanted = undefined;
      if (!(await this.#tryToPut(content))) {
        this.#wanted ??= content;
        this.#timer = this.#place.clock.setTimer(AGAIN_MS, () => this.#write());
        break;
      }
    }
    this.#isWriting = false;
  }

  async #tryToPut({ data, overlay }: AcceptedContent): Promise<boolean> {
    const { logger } = this.#place;
    const text = canonicalJson({ data: { ...data }, ...(overlay && { overlay: { ...overlay } }) });
    const is = digest(text);
    if (is === this.#kept) return true;
    try {
      await this.#put((await promisify(gzip)(text)).toString("base64"));
      this.#kept = is;
      return true;
    } catch (error) {
      logger.warn("The accepted content of the ConfigMap cannot be kept in its Secret; it is tried again", {
        secret: this.#secret,
        error: oneLine(error),
      });
      return false;
    }
  }

  async #put(packed: string): Promise<void> {
    const { client, namespace } = this.#place;
    const target = { resource: SECRETS, namespace, name: this.#secret };
    const data = { [KEY]: packed };
    try {
      await mergePatch(client, target, { body: { data } });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const metadata = { name: this.#secret, namespace, labels: MADE_HERE };
      const body = { apiVersion: "v1", kind: "Secret", metadata, data };
      await create(client, { resource: SECRETS, namespace }, { body });
    }
  }
}

function isAccepted(value: unknown): value is AcceptedContent {
  if (!isJsonObject(value as never)) return false;
  const { data, overlay } = value as Record<string, unknown>;
  return isTexts(data) && (overlay === undefined || isTexts(overlay));
}

function isTexts(value: unknown): boolean {
  return (
    isJsonObject(value as never) && Object.values(value as object).every((text) => typeof text === "string")
  );
}
