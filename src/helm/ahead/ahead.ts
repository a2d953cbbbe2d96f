/** What helm does before a module's turn comes. */

import type { UpgradeCall } from "../binary/helm.ts";
import type { Reconciler, Reconciliation } from "../examine.ts";
import type { Rendered } from "../manifest/manifest.ts";
import type { ReleaseMeta } from "../release/revisions.ts";
import type { HelmInput } from "../request.ts";
import { renderNow } from "../rendering.ts";
import { InstallAhead } from "./install-ahead.ts";
import { RenderAhead } from "./render-ahead.ts";
import { Upcoming } from "./upcoming.ts";

/** A module that a reload is going to run. */
export interface UpcomingModule {
  readonly name: string;
  /** What its release would be made from now. */
  readonly input: () => HelmInput;
  /** No hook of its own changes its values before helm's turn. */
  readonly hasFinalValues: boolean;
}

/**
 * In a reload of many modules most of the time is helm's. Charts are rendered while others are worked on, and the
 * helm of the next installation starts early. Whoever works on a release asks as if nothing had been done: what was
 * done ahead counts for exactly the inputs it was done with.
 */
export class Ahead {
  readonly #releases: Reconciler["store"];
  readonly #upcoming: Upcoming;
  readonly #renderings: RenderAhead;
  readonly #installs: InstallAhead;

  constructor(tools: Reconciler) {
    this.#releases = tools.store;
    this.#upcoming = new Upcoming(tools);
    this.#renderings = new RenderAhead(tools);
    this.#installs = new InstallAhead(tools);
  }

  /** What a reload is going to run, in order; replaces what an earlier one was going to. */
  announce(upcoming: readonly UpcomingModule[], areParallel: boolean): void {
    this.#upcoming.announce(upcoming);
    // Modules that run side by side keep the processors busy without it.
    const modules = areParallel ? [] : upcoming;
    const isNew = ({ name }: UpcomingModule): boolean => this.#releases.get(name) === undefined;
    this.#renderings.plan(modules.filter((each) => each.hasFinalValues && !isNew(each)));
    this.#installs.plan(
      modules.flatMap((next, index) => {
        const after = modules[index - 1]?.name;
        return after !== undefined && next.hasFinalValues && isNew(next) ? [{ ...next, after }] : [];
      }),
    );
  }

  /** A module's turn has come. */
  async turn(module: string): Promise<void> {
    this.#upcoming.turn(module);
    this.#renderings.turn(module);
    await this.#installs.turn(module);
  }

  /** As `renderNow`. */
  async render(reconciliation: Reconciliation, release: ReleaseMeta | undefined): Promise<Rendered> {
    return (await this.#renderings.take(reconciliation)) ?? renderNow(reconciliation, release);
  }

  /** As `Helm.upgradeInstall`. */
  upgradeInstall(call: UpgradeCall): Promise<void> {
    return this.#installs.upgradeInstall(call);
  }

  /** The module that is going to apply each object, by `keyIn`. */
  makers(signal?: AbortSignal): Promise<ReadonlyMap<string, string>> {
    return this.#upcoming.makers(signal);
  }

  stop(): void {
    this.#renderings.stop();
    this.#installs.stop();
  }
}
