/** Decides whether new ConfigMap content comes into force (docs/VALUES.md, "Schemas"). */

import type { Logger } from "../../lib/index.ts";
import { describeOverlay, describeProblem } from "../../model/index.ts";
import type { Overlay, Problem } from "../../model/index.ts";
import { configIsMissing, judgeConfig } from "../../state/index.ts";
import type { State } from "../../state/index.ts";
import type { ConfigObject } from "./config-objects.ts";

/** Called when new content was refused, or the ConfigMap is gone. */
type TellTrouble = (reason: "ConfigMapInvalid" | "ConfigMapMissing", message: string) => void;

export interface ConfigJudgeOptions {
  readonly state: State;
  readonly logger: Logger;
  readonly name: string;
  readonly overlay: Overlay | undefined;
  readonly onTrouble: TellTrouble;
}

/** Decides what comes into force: valid content whole, else the whole last good content stays. */
export class ConfigJudge {
  readonly #options: ConfigJudgeOptions;
  /** Whether the ConfigMap must exist: at a first start there is none yet, which is no problem. */
  #isOwed = false;
  /** Warnings of the last content. */
  #warned: ReadonlySet<string> = new Set();

  constructor(options: ConfigJudgeOptions) {
    this.#options = options;
  }

  /** Judges what was read last and records it; undefined = there is no ConfigMap. */
  take(object: ConfigObject | undefined, overlayObject: ConfigObject | undefined): void {
    if (object === undefined) {
      if (this.#isOwed) this.#gone("the last good content stays in force, and nothing is deleted");
      return;
    }
    this.#isOwed = true;
    const { state, name, overlay } = this.#options;
    const over = overlay && { file: describeOverlay(overlay), data: overlayObject?.data };
    const judged = judgeConfig(state.values, { name, data: object.data, overlay: over });
    const { content, overlay: overlayed, problems } = judged;
    const { resourceVersion } = object.metadata;
    if (problems.length > 0) return this.#refuse(problems, resourceVersion);
    const seen = { condition: "ok", problems, resourceVersion, content, overlay: overlayed } as const;
    this.#tell(state.recordConfig(seen, { kind: "config" }), judged);
  }

  /** There is no ConfigMap at a start, and there should be one: releases of this operator exist. */
  missingAtStart(): void {
    this.#isOwed = true;
    this.#gone("releases of ours exist, so nothing runs until it is back");
  }

  #gone(consequence: string): void {
    const { state, name, onTrouble } = this.#options;
    if (configIsMissing(state.view)) return;
    const message = `does not exist; ${consequence}`;
    const problem = { file: `ConfigMap ${name}`, message, remedy: "create it again" };
    onTrouble("ConfigMapMissing", describeProblem(problem));
    state.recordConfig(
      { condition: "missing", problems: [problem], resourceVersion: undefined },
      { kind: "config" },
    );
  }

  #refuse(problems: readonly Problem[], resourceVersion: string): void {
    const { state, onTrouble } = this.#options;
    const seen = state.view.config;
    if (seen.condition !== "invalid" || seen.resourceVersion !== resourceVersion) {
      onTrouble("ConfigMapInvalid", problems.map(describeProblem).join("; "));
    }
    state.recordConfig({ condition: "invalid", problems, resourceVersion }, { kind: "config" });
  }

  #tell(unknown: readonly string[], { warnings, changed }: ReturnType<typeof judgeConfig>): void {
    const { logger } = this.#options;
    if (unknown.length > 0) logger.warn("ConfigMap keys match no module", { keys: unknown });
    for (const text of warnings) if (!this.#warned.has(text)) logger.warn(text);
    this.#warned = new Set(warnings);
    if (changed.length > 0) logger.info("ConfigMap changed", { keys: changed });
  }
}
