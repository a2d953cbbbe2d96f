/** Starts the helm of the next installation ahead of its turn. */

import { isDeepStrictEqual } from "node:util";

import { Scratch } from "../../process/index.ts";
import type { UpgradeCall } from "../binary/helm.ts";
import { stageChart } from "../rendering.ts";
import { examine, labelsOf, type Reconciler, type Reconciliation } from "../examine.ts";
import type { UpcomingModule } from "./ahead.ts";

/** A helm that waits longer than this is ended: the module before it takes its time. */
const LONGEST_MS = 20_000;

/** A module that can be installed as soon as the one before it is done. */
interface NextModule extends UpcomingModule {
  readonly after: string;
}

/** A helm that was started and waits. */
interface Waiting {
  readonly release: string;
  /** Those of the release that it is going to make: they tell all that it is made from. */
  readonly labels: UpgradeCall["labels"];
  readonly signal: AbortSignal;
  /** Lets it install. Throws as `Helm.upgradeInstall`. */
  go(): Promise<void>;
  end(): void;
}

/**
 * A first installation is mostly helm's own start and its search for a release: the helm of the next module does
 * both while the one before is at work, then waits. It installs only what it was started for, only when its turn
 * has come, and nothing at all when its operator is gone (`UpgradeCall.gate`).
 */
export class InstallAhead {
  readonly #tools: Reconciler;
  #requests = new Map<string, NextModule>();
  #next: { readonly module: string; readonly helm: Promise<Waiting | undefined> } | undefined;
  #now: Waiting | undefined;
  #abort = new AbortController();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** Sets what a reload is going to install; replaces what an earlier one was going to. */
  plan(modules: readonly NextModule[]): void {
    this.stop();
    this.#requests = new Map(modules.map((module) => [module.after, module]));
  }

  /** A module's turn has come: from now on its helm may be used, and the one of the next module starts. */
  async turn(module: string): Promise<void> {
    this.#now?.end();
    const before = this.#next;
    const helm = await before?.helm;
    this.#now = before?.module === module ? helm : undefined;
    if (this.#now === undefined) helm?.end();
    const next = this.#requests.get(module);
    this.#requests.delete(module);
    this.#next = next && { module: next.name, helm: this.#start(next) };
  }

  /** As `Helm.upgradeInstall`: by the helm that waits to do exactly this, or by a new one. */
  async upgradeInstall(call: UpgradeCall): Promise<void> {
    const waiting = this.#now;
    this.#now = undefined;
    if (waiting === undefined || !isFor(waiting, call)) {
      waiting?.end();
      return this.#tools.helm.upgradeInstall(call);
    }
    call.signal.addEventListener("abort", () => waiting.end(), { once: true });
    await waiting.go();
  }

  /** Ends the helm that waits. */
  stop(): void {
    this.#requests.clear();
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  async #start({ input }: NextModule): Promise<Waiting | undefined> {
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, this.#abort.signal]);
    try {
      const { reconciliation, decision } = await examine(this.#tools, { ...input(), signal });
      const { release, chart } = reconciliation;
      const isPlain = release === undefined && !chart.needsStage && !chart.mentionsShared;
      if (decision.act !== "install" || !isPlain) return undefined;
      return await this.#launch(reconciliation, abort);
    } catch {
      // When its turn comes, the error shows.
      return undefined;
    }
  }

  async #launch(reconciliation: Reconciliation, abort: AbortController): Promise<Waiting> {
    const { helm, tmpDir, clock } = this.#tools;
    const { request, chart } = reconciliation;
    const { module, values, signal } = request;
    const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
    const chartDir = await stageChart({ module, chart }, scratch).catch(async (error: unknown) => {
      await scratch.dispose();
      throw error;
    });
    const labels = labelsOf(reconciliation, undefined, true);
    const gate = Promise.withResolvers<string>();
    const timer = clock.setTimer(LONGEST_MS, () => abort.abort());
    const install = async (): Promise<void> => {
      try {
        await helm.upgradeInstall({
          release: module.name,
          terms: module.helm,
          chartDir,
          valuesFile: scratch.path("values.json"),
          signal,
          labels,
          applyMethod: undefined,
          gate: gate.promise,
        });
      } finally {
        timer.cancel();
        await scratch.dispose();
      }
    };
    const installed = install();
    installed.catch(() => {});
    return {
      release: module.name,
      labels,
      signal,
      end: () => abort.abort(),
      go: async () => {
        timer.cancel();
        await scratch.write("values.json", values);
        gate.resolve("{}");
        await installed;
      },
    };
  }
}

function isFor({ release, labels, signal }: Waiting, call: UpgradeCall): boolean {
  const isSame = call.release === release && isDeepStrictEqual(call.labels, labels);
  return isSame && call.takeOwnership !== true && !signal.aborted;
}
