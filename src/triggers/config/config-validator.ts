/** Validates content of the ConfigMap and its overlay, and records or reports the result. */

import type { Logger } from "../../lib/index.ts";
import { describeOverlay, describeProblem, type Overlay, type Problem } from "../../model/index.ts";
import { configIsMissing, explainInvalid, type State } from "../../state/index.ts";
import type { AcceptedConfig } from "./accepted-config.ts";
import type { ConfigObject } from "./config-objects.ts";

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
   * Validates the ConfigMap together with its overlay, and records the result; undefined = there is no ConfigMap. Reports an
   * invalid version once: the same version is validated again after changes of modules and their schemas.
   */
  validate(object: ConfigObject | undefined, overlayObject: ConfigObject | undefined): void {
    if (object === undefined) {
      if (this.#isConfigExpected)
        this.#recordMissing("the last good content stays in force, and nothing is deleted");
      return;
    }
    this.#isConfigExpected = true;
    const { state, name, overlay } = this.#options;
    const overlayContent = overlay && { file: describeOverlay(overlay), data: overlayObject?.data };
    const { resourceVersion } = object;
    const before = state.view.config;
    const result = state.inputs.applyConfig(
      { name, data: object.data, overlay: overlayContent },
      resourceVersion,
    );
    if (result.problems.length === 0) {
      this.#saveAccepted(object.data, overlayObject?.data);
      return this.#logResult(result);
    }
    const isReported = before.condition === "invalid" && before.resourceVersion === resourceVersion;
    if (!isReported && !this.#mayUseAccepted) this.reportInvalid(result.problems);
  }

  /** Stores valid content for later starts, if this operator is the leader. */
  #saveAccepted(data: ConfigObject["data"] = {}, overlay: ConfigObject["data"]): void {
    this.#options.accepted?.save?.({ data, overlay });
  }

  /** At a start no content is in force yet. Then `WatchedConfig.applyAcceptedContent` decides what is in force and reports it. */
  get #mayUseAccepted(): boolean {
    const { state, accepted } = this.#options;
    return !state.view.config.isInForce && accepted !== undefined;
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

  /** Records and reports that the ConfigMap is missing, once until it is back. */
  #recordMissing(consequence: string): void {
    const { state, name, onConfigProblem } = this.#options;
    if (configIsMissing(state.view)) return;
    const message = `does not exist; ${consequence}`;
    const problem = { file: `ConfigMap ${name}`, message, remedy: "create it again" };
    onConfigProblem("ConfigMapMissing", describeProblem(problem));
    state.inputs.recordConfig(
      { condition: "missing", problems: [problem], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  /** Logs unknown keys, the keys that have changed, and warnings that the previous validation did not have. */
  #logResult({ unknownKeys, warnings, changed }: ReturnType<State["inputs"]["applyConfig"]>): void {
    const { logger } = this.#options;
    if (unknownKeys.length > 0) logger.warn("ConfigMap keys match no module", { keys: unknownKeys });
    for (const text of warnings) if (!this.#lastWarnings.has(text)) logger.warn(text);
    this.#lastWarnings = new Set(warnings);
    if (changed.length > 0) logger.info("ConfigMap changed", { keys: changed });
  }
}
