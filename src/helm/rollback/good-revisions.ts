/** Labels revisions good that stay healthy, so that failed upgrades can be rolled back to them. */

import { oneLine, Timers, type Clock, type Logger } from "../../base/index.ts";
import { retriesOf, type OnFailure } from "../../base/model/index.ts";
import type { ObservedReleases } from "../release/observed-releases.ts";
import type { HelmInput } from "../types.ts";
import { findMarkableRevision, GOOD_LABEL } from "./revision-labels.ts";

/** Longer than the first back-off of a crashing container, which is ready for a moment before each crash. */
const HEALTHY_FOR_MS = 60_000;

/** The health of a release, and the revision that was assessed. */
interface ReportedHealth {
  readonly status: string;
  readonly revision: number | undefined;
}

interface GoodRevisionTools {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onFailure?: OnFailure;
  readonly observed: Pick<ObservedReleases, "store" | "getOwnershipByLabels">;
}

/** Labels the installed revision of a module good once it has been healthy for a minute without a break. */
export class GoodRevisions {
  readonly #tools: GoodRevisionTools;
  readonly #timers: Timers<string>;

  constructor(tools: GoodRevisionTools) {
    this.#tools = tools;
    this.#timers = new Timers(tools.clock);
  }

  /** Schedules `markGood` for a healthy module in a minute from each call; cancels that for an unhealthy module. */
  recordHealth(module: HelmInput["module"], health: ReportedHealth | undefined): void {
    if (health?.status !== "True") this.#timers.cancel(module.name);
    else this.#timers.set(module.name, HEALTHY_FOR_MS, () => void this.markGood(module, health));
  }

  /**
   * Labels the installed revision good, if it is the revision that was found healthy, belongs to this operator, and the module's
   * upgrades are rolled back at all. Never throws.
   */
  async markGood(module: HelmInput["module"], health: ReportedHealth): Promise<void> {
    const { logger, onFailure = "retry", observed } = this.#tools;
    const meta = findMarkableRevision(observed.store.revisions(module.name));
    const wasAssessed = meta?.revision === health.revision;
    if (meta === undefined || !wasAssessed) return;
    if (observed.getOwnershipByLabels(module.name) !== "ours") return;
    const areUpgradesRolledBack = retriesOf(module, onFailure) !== undefined;
    if (!areUpgradesRolledBack) return;
    try {
      await observed.store.setLabels(meta, { ...meta.deferredLabels, ...GOOD_LABEL });
    } catch (error) {
      // The next upgrade marks it, if it is healthy then.
      logger.debug("A healthy release was not marked good", { release: module.name, error: oneLine(error) });
    }
  }

  close(): void {
    this.#timers.close();
  }
}
