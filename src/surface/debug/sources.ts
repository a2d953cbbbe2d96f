/** What the debug socket reads, and the log level, which it may change. */

import { Timers, type Clock, type KnownSecrets, type LogLevel } from "../../base/index.ts";
import type { Json, JsonObject, Module, Task } from "../../base/model/index.ts";
import type { QueueView } from "../../engine/queue/index.ts";
import type { State } from "../../engine/state/index.ts";
import type { RunRing } from "../../base/trace/index.ts";
import type { Projection } from "../../report/index.ts";
import type { Page } from "../ui/index.ts";
import type { LeaderSources } from "./leader-proxy.ts";

/** Data and functions of the operator from which the routes of the debug socket answer. */
export interface DebugSources extends LeaderSources {
  readonly version: string;
  readonly clock: Clock;
  readonly state: State;
  readonly queues: () => readonly QueueView<Task>[];
  /** Projects the state and the queues of this moment to the content of the AddonOperator and of all AddonModules. */
  readonly project: () => Projection;
  readonly secrets: KnownSecrets;
  /** Snapshots of a hook by binding name */
  readonly snapshots: (hookId: string) => Json;
  readonly render: (module: Module, diff: boolean) => Promise<string>;
  /** What a run would change in the cluster; "" for nothing. */
  readonly diff: (module: Module) => Promise<string>;
  /** Watched objects of a module, as `namespace/Kind/name`; undefined if it has no release. */
  readonly watchedObjects: (module: string) => readonly string[] | undefined;
  /** The revision that a rollback would restore. Throws if there is none. */
  readonly rollbackTarget: (module: string, revision: number | undefined) => number;
  readonly plan: () => Promise<Json>;
  readonly runs: Pick<RunRing, "getRun" | "listRuns">;
  /** ModuleSources, lock and keys; undefined while `--sources` is off. */
  readonly moduleSourceState: () => Json | undefined;
  readonly platformInfo: () => JsonObject;
  readonly metrics: () => Promise<string>;
  readonly log: { level: LogLevel };
  readonly page?: Page | undefined;
  readonly onError: (error: unknown) => void;
}

interface LevelSources {
  readonly log: { level: LogLevel };
  readonly clock: Clock;
}

/** The log level as `config set` changes it. The last change is in force; a temporary one reverts to the level before the first temporary change. */
export class LogLevelControl {
  readonly #sources: LevelSources;
  /** The level to revert to; undefined while no temporary change is in force. */
  #permanentLevel: LogLevel | undefined;
  readonly #timers: Timers<"revert">;

  constructor(sources: LevelSources) {
    this.#sources = sources;
    this.#timers = new Timers(sources.clock);
  }

  get current(): LogLevel {
    return this.#sources.log.level;
  }

  /** Sets the level for `ms` milliseconds, after which the last permanent level returns; without `ms` permanently. A second temporary level replaces the first. */
  set(level: LogLevel, ms: number | undefined): void {
    const { log } = this.#sources;
    const permanentLevel = this.#permanentLevel ?? log.level;
    this.#timers.cancel("revert");
    log.level = level;
    this.#permanentLevel = ms === undefined ? undefined : permanentLevel;
    if (ms === undefined) return;
    this.#timers.set("revert", ms, () => {
      log.level = permanentLevel;
      this.#permanentLevel = undefined;
    });
  }
}
