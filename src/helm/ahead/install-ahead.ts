/** Starts the helm of the next installation ahead of its turn. */

import { Scratch } from "../../process/index.ts";
import { examine, labelsOf } from "../reconcile.ts";
import type { Reconciler, Reconciliation, WaitingInstall } from "../reconcile.ts";
import type { AheadRequest } from "./render-ahead.ts";

/** A helm that waits longer than this is ended: the module before it takes its time. */
const LONGEST_MS = 20_000;

/** A module that can be installed as soon as the one before it is done. */
export interface InstallRequest {
  readonly after: string;
  readonly module: AheadRequest["module"];
  readonly values: () => string;
}

interface Waiting extends WaitingInstall {
  readonly inputs: string;
  readonly signal: AbortSignal;
  end(): void;
}

/**
 * A first installation is mostly helm's own start and its search for a release: the helm of the next module does
 * both while the one before is at work, then waits. It installs only what it was started for, only when its turn
 * has come, and nothing at all when its operator is gone (`UpgradeCall.gate`).
 */
export class InstallAhead {
  readonly #tools: Reconciler;
  #requests = new Map<string, InstallRequest>();
  #waiting: { readonly module: string; readonly helm: Promise<Waiting | undefined> } | undefined;
  #now: Waiting | undefined;
  #abort = new AbortController();

  constructor(tools: Reconciler) {
    this.#tools = tools;
  }

  /** Sets what a reload is going to install; replaces what an earlier one was going to. */
  plan(requests: readonly InstallRequest[]): void {
    this.stop();
    this.#requests = new Map(requests.map((request) => [request.after, request]));
  }

  /** A module's turn has come: returns the helm that waits for it, and starts the next one's. */
  async turn(module: string): Promise<void> {
    const before = this.#waiting;
    const helm = await before?.helm;
    this.#now = before?.module === module ? helm : undefined;
    if (this.#now === undefined) helm?.end();
    this.#waiting = undefined;
    const next = this.#requests.get(module);
    this.#requests.delete(module);
    if (next !== undefined) this.#waiting = { module: next.module.name, helm: this.#start(next) };
  }

  /** The helm that waits to do exactly this. */
  take(step: Reconciliation): WaitingInstall | undefined {
    const waiting = this.#now;
    this.#now = undefined;
    if (waiting === undefined || waiting.signal.aborted) return undefined;
    if (waiting.inputs !== step.inputs) {
      waiting.end();
      return undefined;
    }
    step.request.signal.addEventListener("abort", () => waiting.end(), { once: true });
    return waiting;
  }

  /** Ends the helm that waits. */
  stop(): void {
    this.#requests.clear();
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  async #start({ module, values }: InstallRequest): Promise<Waiting | undefined> {
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, this.#abort.signal]);
    try {
      const request = { module, values: values(), signal };
      const { step, release, decision } = await examine(this.#tools, request);
      const { needsStage, mentionsShared } = step.chart;
      if (decision.act !== "install" || release !== undefined || needsStage || mentionsShared)
        return undefined;
      return await this.#launch(step, abort, signal);
    } catch {
      // When its turn comes, the error shows.
      return undefined;
    }
  }

  async #launch(step: Reconciliation, abort: AbortController, signal: AbortSignal): Promise<Waiting> {
    const { helm, tmpDir, clock } = this.#tools;
    const { module, values } = step.request;
    const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
    const gate = Promise.withResolvers<string>();
    const timer = clock.setTimer(LONGEST_MS, () => abort.abort());
    const install = async (): Promise<void> => {
      try {
        await helm.upgradeInstall({
          release: module.name,
          chartDir: module.dir,
          valuesFile: scratch.path("values.json"),
          signal,
          labels: labelsOf(step, undefined, true),
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
      inputs: step.inputs,
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
