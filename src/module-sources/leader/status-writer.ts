/** Writes the statuses of ModuleSources, again after failures. */

import { jsonPatch } from "../../kube/index.ts";
import { oneLine, type Timer } from "../../lib/index.ts";
import { MODULE_SOURCES, type IModuleSource } from "../../status/index.ts";
import type { Shared } from "../context.ts";
import type { Source } from "../source-list.ts";
import { Waiting } from "../pending-updates.ts";
import { sameStatus, statusOf, type Findings } from "./source-status.ts";

const RETRY_MS = 10_000;

interface Ports {
  readonly findingsOf: (source: string) => Findings | undefined;
  /** Does work in the background, and reports its errors. */
  readonly guard: (work: () => Promise<void>) => void;
}

/** Writes a status when it says something else than the one in the cluster. */
export class StatusWriter {
  readonly #shared: Shared;
  readonly #ports: Ports;
  readonly #retries = new Map<string, Timer>();
  readonly #waiting: Waiting;
  /** Sources that have a series for their last check. */
  readonly #known = new Set<string>();
  #closed = false;

  constructor(shared: Shared, ports: Ports) {
    this.#shared = shared;
    this.#ports = ports;
    this.#waiting = new Waiting(shared);
  }

  close(): void {
    this.#closed = true;
    for (const name of this.#retries.keys()) this.#cancelRetry(name);
  }

  /** Ends what is still to be done for a source that was deleted. */
  forget(name: string): void {
    this.#cancelRetry(name);
    this.#known.delete(name);
    this.#waiting.update(name, new Map(), undefined);
  }

  #cancelRetry(name: string): void {
    this.#retries.get(name)?.cancel();
    this.#retries.delete(name);
  }

  write(name: string): void {
    const { options, stock, sources } = this.#shared;
    const findings = this.#ports.findingsOf(name);
    const source = sources().get(name);
    if (findings === undefined || source === undefined || this.#closed) return;
    const { clock, namespace, metrics } = options;
    const status = statusOf({ source, stock, findings, now: clock.now(), namespace });
    const ready = status.conditions?.find(({ type }) => type === "Ready")?.status;
    metrics.set("sourceReady", { source: name }, ready === "True" ? 1 : 0);
    this.#recordFirst(name, findings);
    this.#waiting.update(name, findings.held, findings.errors);
    if (sameStatus(source.object.status, status)) return;
    this.#ports.guard(() => this.#patch(source, status));
  }

  /** Without a check that succeeded, the time counts from the first one: after a restart the registry may be away. */
  #recordFirst(name: string, { errors = new Map() }: Findings): void {
    const { clock, metrics } = this.#shared.options;
    const isFailed = [...errors.values()].some(({ reason }) => reason === "CheckFailed");
    if (!this.#known.has(name) && isFailed)
      metrics.set("sourceLastSuccess", { source: name }, clock.now() / 1000);
    this.#known.add(name);
  }

  async #patch({ name, object }: Source, status: IModuleSource["status"]): Promise<void> {
    const { client, namespace, logger, clock } = this.#shared.options;
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
          clock.setTimer(RETRY_MS, () => this.write(name)),
        );
    }
  }
}
