/** Which newer content of modules is not used yet, and why: for the state, from which everything is displayed, and for series. */

import { sameJson } from "../lib/index.ts";
import type { Json, UpdateWait, WaitingUpdate } from "../model/index.ts";
import { APPROVE_UPDATE } from "../state/index.ts";
import { line } from "../status/index.ts";
import { approvalOf } from "./choose.ts";
import type { Held, ModuleError } from "./lead/entry/findings.ts";
import type { Shared } from "./shared.ts";
import type { LockEntry } from "./types.ts";

/** Why content waits, with the command that approves it. */
export function describeHeld(held: Held, namespace: string, module: string): string {
  const target = `-n ${namespace} addonmodule/${module}`;
  const command = `kubectl annotate --overwrite ${target} ${APPROVE_UPDATE}=${approvalOf(held)}`;
  return line(`${held.reason}; to use it now: ${command}`);
}

/** What a check has found about one module. */
interface Found {
  readonly source: string;
  readonly module: string;
  readonly namespace: string;
  readonly held: Held | undefined;
  readonly error: ModuleError | undefined;
  /** What is in force. */
  readonly locked: LockEntry | undefined;
  readonly now: number;
}

const WAIT_OF_ERROR: Readonly<Record<ModuleError["reason"], UpdateWait | undefined>> = {
  NotVerified: "refused",
  Blocked: "blocked",
  Withdrawn: "withdrawn",
  CheckFailed: "registry",
  // Nothing waits: another directory or source provides the module.
  Overridden: undefined,
};

/** What waits; undefined = nothing. An error of a module without content in force is a problem of the module instead. */
export function waitingOf({
  source,
  module,
  namespace,
  held,
  error,
  locked,
  now,
}: Found): WaitingUpdate | undefined {
  if (held !== undefined) {
    const { version, digest, since, until, waitsFor } = held;
    return {
      source,
      waitsFor,
      version,
      digest,
      since,
      until,
      message: describeHeld(held, namespace, module),
    };
  }
  const waitsFor = error && WAIT_OF_ERROR[error.reason];
  if (error === undefined || waitsFor === undefined || locked === undefined) return undefined;
  const about = waitsFor === "registry" ? "newer versions cannot be looked up" : "newer content is not used";
  const message = line(`${about}: ${error.message}; ${locked.version} stays in force`);
  return { source, waitsFor, version: undefined, digest: undefined, since: now, until: undefined, message };
}

/** Records waiting content in the state and in the series. */
export class Waiting {
  readonly #shared: Pick<Shared, "options" | "stock">;
  readonly #updates = new Map<string, WaitingUpdate>();

  constructor(shared: Pick<Shared, "options" | "stock">) {
    this.#shared = shared;
    // The record of a new module is made when its directory is read, maybe after the check.
    shared.options.state.onChange(() => this.#record());
  }

  /** Takes over what the last check of a source has found about its modules. */
  update(
    source: string,
    held: ReadonlyMap<string, Held>,
    errors: ReadonlyMap<string, ModuleError> | undefined,
  ): void {
    const { namespace, clock } = this.#shared.options;
    const names = new Set([...held.keys(), ...(errors?.keys() ?? [])]);
    for (const [module, { source: before }] of this.#updates)
      if (before === source && !names.has(module)) this.#set(module, undefined);
    for (const module of names) {
      const [waits, error] = [held.get(module), errors?.get(module)];
      const about = { source, module, namespace, now: clock.now(), locked: this.#inForce(source, module) };
      this.#set(module, waitingOf({ ...about, held: waits, error }));
    }
    this.#record();
  }

  /** The entry of a module of this source whose content can be used. */
  #inForce(source: string, module: string): LockEntry | undefined {
    const { stock } = this.#shared;
    const own = stock.entries.get(module);
    return own?.source === source && stock.content(module)?.problem === undefined ? own : undefined;
  }

  #set(module: string, found: WaitingUpdate | undefined): void {
    const { metrics } = this.#shared.options;
    const before = this.#updates.get(module);
    if (before?.waitsFor !== found?.waitsFor) metrics.dropSeries({ module }, ["sourceUpdateWaiting"]);
    if (found === undefined) return void this.#updates.delete(module);
    const now = continued(before, found);
    this.#updates.set(module, now);
    metrics.set("sourceUpdateWaiting", { module, reason: now.waitsFor }, 1);
  }

  #record(): void {
    const { state } = this.#shared.options;
    for (const { module, update } of state.records()) {
      const now = this.#updates.get(module.name);
      if (update !== now) state.recordModule(module.name, "observed", { update: now });
    }
  }
}

/** What waits now; the earlier object if it says the same. What cannot be found is so since the first time. */
function continued(before: WaitingUpdate | undefined, found: WaitingUpdate): WaitingUpdate {
  const isSame = before?.source === found.source && before.waitsFor === found.waitsFor;
  const now = isSame && found.version === undefined ? { ...found, since: before.since } : found;
  return before !== undefined && sameJson(jsonOf(before), jsonOf(now)) ? before : now;
}

const jsonOf = (update: WaitingUpdate): Json => JSON.parse(JSON.stringify(update)) as Json;
