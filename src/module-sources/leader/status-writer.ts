/** Writes the statuses of ModuleSources, again after failures. */

import { jsonPatch } from "../../kube/index.ts";
import { oneLine, type Timer } from "../../lib/index.ts";
import { MODULE_SOURCES, type IModuleSource } from "../../status/index.ts";
import type { SourcesContext } from "../context.ts";
import type { Source } from "../source-list.ts";
import { PendingUpdateRecorder } from "../pending-updates.ts";
import { isSameStatus, buildStatus, type SourceFindings } from "./source-status.ts";

const RETRY_MS = 10_000;

interface StatusWriterPorts {
  readonly getFindings: (source: string) => SourceFindings | undefined;
  /** Does work in the background, and reports its errors. */
  readonly runInBackground: (work: () => Promise<void>) => void;
}

/** Writes the status of a source when it differs from the one in the cluster, and records its pending updates and metrics. */
export class StatusWriter {
  readonly #context: SourcesContext;
  readonly #ports: StatusWriterPorts;
  readonly #retries = new Map<string, Timer>();
  readonly #pendingUpdates: PendingUpdateRecorder;
  /** Sources that have a series for their last check. */
  readonly #sourcesWithSeries = new Set<string>();
  #closed = false;

  constructor(shared: SourcesContext, ports: StatusWriterPorts) {
    this.#context = shared;
    this.#ports = ports;
    this.#pendingUpdates = new PendingUpdateRecorder(shared);
  }

  close(): void {
    this.#closed = true;
    for (const name of this.#retries.keys()) this.#cancelRetry(name);
  }

  /** Cancels the retry and clears the pending updates of a source that was deleted. */
  forgetSource(name: string): void {
    this.#cancelRetry(name);
    this.#sourcesWithSeries.delete(name);
    this.#pendingUpdates.recordFindings(name, new Map(), undefined);
  }

  #cancelRetry(name: string): void {
    this.#retries.get(name)?.cancel();
    this.#retries.delete(name);
  }

  /** Builds the status of a source from its findings and writes it if it has changed. */
  writeIfChanged(name: string): void {
    const { options, lockedModules, currentSources } = this.#context;
    const findings = this.#ports.getFindings(name);
    const source = currentSources().get(name);
    if (findings === undefined || source === undefined || this.#closed) return;
    const { clock, namespace, metrics } = options;
    const status = buildStatus({ source, lockedModules, findings, now: clock.now(), namespace });
    const ready = status.conditions?.find(({ type }) => type === "Ready")?.status;
    metrics.set("sourceReady", { source: name }, ready === "True" ? 1 : 0);
    this.#recordFirstFailure(name, findings);
    this.#pendingUpdates.recordFindings(name, findings.pendingUpdates, findings.errors);
    if (isSameStatus(source.object.status, status)) return;
    this.#ports.runInBackground(() => this.#patchStatus(source, status));
  }

  /** If the first check after a start fails, its time counts as the last success: an alert measures from then on. */
  #recordFirstFailure(name: string, { errors = new Map() }: SourceFindings): void {
    const { clock, metrics } = this.#context.options;
    const isFailed = [...errors.values()].some(({ reason }) => reason === "CheckFailed");
    if (!this.#sourcesWithSeries.has(name) && isFailed)
      metrics.set("sourceLastSuccess", { source: name }, clock.now() / 1000);
    this.#sourcesWithSeries.add(name);
  }

  /** Writes a status, unless the object was created again meanwhile (its uid). Tries again later after an error. */
  async #patchStatus({ name, object }: Source, status: IModuleSource["status"]): Promise<void> {
    const { client, namespace, logger, clock } = this.#context.options;
    const body = [
      { op: "test", path: "/metadata/uid", value: object.metadata.uid },
      { op: "add", path: "/status", value: status },
    ];
    try {
      await jsonPatch(client, { resource: MODULE_SOURCES, namespace, name, subresource: "status" }, { body });
    } catch (error) {
      logger.debug("The status of a ModuleSource cannot be written", { source: name, error: oneLine(error) });
      this.#cancelRetry(name);
      if (!this.#closed)
        this.#retries.set(
          name,
          clock.setTimer(RETRY_MS, () => this.writeIfChanged(name)),
        );
    }
  }
}
