/**
 * Validates content of the ConfigMap and its overlay (configuration that hooks write), and stores in a Secret what was accepted last
 * (docs/guides/running.md, "An invalid ConfigMap"). Content in force is what the operator works with: the last valid content.
 */

import { canonicalJson, digest, oneLine, type Clock, type Timer, type Logger } from "../../lib/index.ts";
import {
  describeOverlay,
  describeProblem,
  type Overlay,
  type Problem,
  isJsonObject,
} from "../../model/index.ts";
import { configIsMissing, explainInvalid, type State } from "../../state/index.ts";
import type { ConfigObject } from "./config-objects.ts";
import { promisify } from "node:util";
import { gunzip, gzip } from "node:zlib";
import {
  create,
  get,
  ignoreNotFound,
  isNotFound,
  MANAGED_BY_OPERATOR,
  mergePatch,
  SECRETS,
} from "../../kube/index.ts";
import type { KubeClient, Secret } from "../../kube/index.ts";

export interface ConfigValidatorOptions {
  readonly state: State;
  readonly logger: Logger;
  readonly name: string;
  readonly overlay: Overlay | undefined;
  /** Storage of the accepted content; without `save`, this operator is not the leader. */
  readonly accepted?: Partial<Pick<AcceptedConfig, "save">> | undefined;
  /** Called when the ConfigMap becomes invalid or is missing. */
  readonly onConfigProblem: (reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string) => void;
}

/** Records valid content, and reports content that is invalid or missing: then the last valid content stays in force. */
export class ConfigValidator {
  readonly #options: ConfigValidatorOptions;
  /** A ConfigMap existed before: then it is a problem if it is missing. */
  #isConfigExpected = false;
  #lastWarnings: ReadonlySet<string> = new Set();

  constructor(options: ConfigValidatorOptions) {
    this.#options = options;
  }

  /**
   * Validates the ConfigMap together with its overlay, puts them in force if they are valid, and records the result; undefined = there is no
   * ConfigMap. Reports an invalid version once: the same version is validated again after changes of modules and their schemas.
   */
  validate(object: ConfigObject | undefined, overlayObject: ConfigObject | undefined): void {
    if (object === undefined)
      return this.#recordMissing("the last good content stays in force, and nothing is deleted");
    this.#isConfigExpected = true;
    const { state, name, overlay, accepted } = this.#options;
    const overlayContent = overlay && { file: describeOverlay(overlay), data: overlayObject?.data };
    const { data, resourceVersion } = object;
    const { condition: lastCondition, resourceVersion: lastVersion } = state.view.config;
    const result = state.inputs.applyConfig({ name, data, overlay: overlayContent }, resourceVersion);
    if (result.problems.length === 0) return this.#handleValid(result, data, overlayObject?.data);
    const isReported = lastCondition === "invalid" && lastVersion === resourceVersion;
    // At a start no content is in force yet. Then `WatchedConfig.applyAcceptedContent` decides what is in force and reports it.
    const mayUseAccepted = !state.view.config.isInForce && accepted !== undefined;
    if (!isReported && !mayUseAccepted) this.reportInvalid(result.problems);
  }

  /** Reports why the ConfigMap is invalid, and which content is in force. */
  reportInvalid(problems: readonly Problem[]): void {
    const { state, onConfigProblem } = this.#options;
    const sentences = [...problems.map(describeProblem), explainInvalid(state.view)];
    onConfigProblem("ConfigMapInvalid", sentences.join("; "));
  }

  /** Records and reports that the ConfigMap is missing at a start although releases of this operator exist. */
  reportMissingAtStart(): void {
    this.#isConfigExpected = true;
    this.#recordMissing("releases of this operator exist, so nothing runs until the ConfigMap is back");
  }

  /** Records and reports that the ConfigMap is missing although it existed before, once until it is back. */
  #recordMissing(consequence: string): void {
    const { state, name, onConfigProblem } = this.#options;
    const isReported = configIsMissing(state.view);
    if (!this.#isConfigExpected || isReported) return;
    const message = `does not exist; ${consequence}`;
    const problem = { file: `ConfigMap ${name}`, message, remedy: "create it again" };
    onConfigProblem("ConfigMapMissing", describeProblem(problem));
    state.inputs.recordConfig(
      { condition: "missing", problems: [problem], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  /**
   * Stores valid content for later starts, if this operator is the leader (only then is there a `save`). Logs what has changed, and
   * warnings that are new.
   */
  #handleValid(
    { unknownKeys, warnings, changed }: ReturnType<State["inputs"]["applyConfig"]>,
    data: ConfigObject["data"] = {},
    overlay?: ConfigObject["data"],
  ): void {
    const { logger, accepted } = this.#options;
    accepted?.save?.({ data, overlay });
    if (unknownKeys.length > 0) logger.warn("ConfigMap keys match no module", { keys: unknownKeys });
    for (const text of warnings) if (!this.#lastWarnings.has(text)) logger.warn(text);
    this.#lastWarnings = new Set(warnings);
    if (changed.length > 0) logger.info("ConfigMap changed", { keys: changed });
  }
}

/** Data of the ConfigMap and its overlay that were valid together. */
export interface AcceptedContent {
  readonly data: Readonly<Record<string, string>>;
  readonly overlay: Readonly<Record<string, string>> | undefined;
}

interface AcceptedConfigOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly namespace: string;
  readonly name: string;
}

const CONTENT_KEY = "content.json.gz";
const RETRY_MS = 10_000;
/** Limit against a Secret that expands to endless content; a ConfigMap and its overlay contain at most 1 MiB each. */
const MAX_DECODED_BYTES = 16 * 1024 * 1024;

/**
 * Reads and writes the accepted content, so that an operator that starts with an invalid ConfigMap can continue with the last
 * valid content. The content may contain passwords: it is stored in a Secret, and no message quotes it.
 */
export class AcceptedConfig {
  readonly #options: AcceptedConfigOptions;
  readonly #secretName: string;
  /** The newest content that is not written yet. */
  #pending: AcceptedContent | undefined;
  #writtenDigest: string | undefined;
  #isWriting = false;
  #timer: Timer | undefined;

  constructor(options: AcceptedConfigOptions) {
    this.#options = options;
    this.#secretName = `addon-operator-${options.name}-accepted`;
  }

  /** Reads the stored content; undefined if nothing is stored. Throws ApiError, ConnectionError, and Error if the stored content cannot be decoded. */
  async read(): Promise<AcceptedContent | undefined> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: this.#secretName };
    const secret = await get<Secret>(client, target).catch(ignoreNotFound);
    if (secret === undefined) return undefined;
    try {
      const compressed = Buffer.from(secret.data?.[CONTENT_KEY] ?? "", "base64");
      const text = await promisify(gunzip)(compressed, { maxOutputLength: MAX_DECODED_BYTES });
      const content: unknown = JSON.parse(text.toString());
      if (!isAcceptedContent(content)) throw new Error("no content");
      return content;
    } catch {
      // The cause could quote the content.
      throw new Error(`Secret ${this.#secretName}: its ${CONTENT_KEY} cannot be read; delete the Secret`);
    }
  }

  /** Writes accepted content in the background and retries until it is written. Only the leader may call it. */
  save(content: AcceptedContent): void {
    this.#pending = content;
    const isRetryScheduled = this.#timer !== undefined;
    if (!isRetryScheduled && !this.#isWriting) void this.#writePending();
  }

  /** Drops content that is not written yet. */
  close(): void {
    this.#pending = undefined;
    this.#timer?.cancel();
  }

  /** Writes until nothing is pending. After a failure, retries later with the same content, or with newer content if there is any. */
  async #writePending(): Promise<void> {
    this.#isWriting = true;
    this.#timer = undefined;
    while (this.#pending !== undefined) {
      const content = this.#pending;
      this.#pending = undefined;
      const isWritten = await this.#tryToWrite(content);
      if (isWritten) continue;
      this.#pending ??= content;
      this.#timer = this.#options.clock.setTimer(RETRY_MS, () => this.#writePending());
      break;
    }
    this.#isWriting = false;
  }

  /** Writes the content unless it is stored already. Logs an error and returns false if it cannot be written. */
  async #tryToWrite({ data, overlay }: AcceptedContent): Promise<boolean> {
    const { logger } = this.#options;
    // Sorted keys: equal content has an equal digest.
    const text = canonicalJson({ data: { ...data }, ...(overlay && { overlay: { ...overlay } }) });
    const contentDigest = digest(text);
    if (contentDigest === this.#writtenDigest) return true;
    try {
      await this.#writeSecret((await promisify(gzip)(text)).toString("base64"));
      this.#writtenDigest = contentDigest;
      return true;
    } catch (error) {
      const message =
        "The accepted content of the ConfigMap cannot be saved in its Secret; the write is retried";
      logger.warn(message, { secret: this.#secretName, error: oneLine(error) });
      return false;
    }
  }

  /** Patches the Secret; creates it if it does not exist. */
  async #writeSecret(compressed: string): Promise<void> {
    const { client, namespace } = this.#options;
    const target = { resource: SECRETS, namespace, name: this.#secretName };
    const data = { [CONTENT_KEY]: compressed };
    try {
      await mergePatch(client, target, { body: { data } });
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const metadata = { name: this.#secretName, namespace, labels: MANAGED_BY_OPERATOR };
      const body = { apiVersion: "v1", kind: "Secret", metadata, data };
      await create(client, { resource: SECRETS, namespace }, { body });
    }
  }
}

function isAcceptedContent(value: unknown): value is AcceptedContent {
  if (!isJsonObject(value)) return false;
  const { data, overlay } = value;
  return isStringMap(data) && (overlay === undefined || isStringMap(overlay));
}

function isStringMap(value: unknown): boolean {
  return isJsonObject(value) && Object.values(value).every((text) => typeof text === "string");
}
