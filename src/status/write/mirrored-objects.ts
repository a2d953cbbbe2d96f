/** All mirrored objects, and their wanted content. */

import type { Clock } from "../../lib/index.ts";
import type { ModuleView, View } from "../../state/index.ts";
import type { ModuleSpec } from "../models/kinds.ts";
import type { ModuleProjection } from "../project/module-status.ts";
import type { Projection } from "../project/projector.ts";
import { newMirroredObject, type MirroredObject } from "./mirrored.ts";

/** During a long start, modules get an object after this time even before discovery. */
const UNDECIDED_MS = 2000;
const NO_CONFIRMATIONS = {};

/** The AddonOperator and the AddonModules of one operator. */
export class MirroredObjects {
  readonly operator: MirroredObject;
  readonly modules = new Map<string, MirroredObject>();
  readonly #clock: Clock;
  #undecidedUntil: number | undefined;

  constructor(operatorName: string, clock: Clock) {
    this.operator = newMirroredObject({ kind: "AddonOperator", name: operatorName });
    this.#clock = clock;
  }

  /** The mirrored object of a module, created at first use. */
  module(name: string): MirroredObject {
    let mirrored = this.modules.get(name);
    if (mirrored === undefined) {
      mirrored = newMirroredObject({ kind: "AddonModule", name });
      this.modules.set(name, mirrored);
    }
    return mirrored;
  }

  /** All mirrored objects, the AddonOperator first: modules carry a reference to it. */
  all(): MirroredObject[] {
    return [this.operator, ...this.modules.values()];
  }

  /** Sets the wanted content; returns the objects that change. Before start-up it sets the AddonOperator only. */
  setWanted(projection: Projection, view: View): MirroredObject[] {
    const changed = [this.operator];
    this.operator.status = projection.operator.status;
    // Nothing is known of modules yet: after a refused start their objects keep the last status.
    if (view.boot === "loading") return changed;
    for (const [name, wanted] of projection.modules) {
      const mirrored = this.module(name);
      if (this.#setModule(mirrored, wanted, view.modules.get(name))) changed.push(mirrored);
    }
    for (const [name, mirrored] of this.modules) {
      if (mirrored.missing || projection.modules.has(name)) continue;
      Object.assign(mirrored, { status: undefined, missing: true });
      changed.push(mirrored);
    }
    return changed;
  }

  /** False if the wanted content of a module's object is unchanged, or not to be written yet. */
  #setModule(
    mirrored: MirroredObject,
    { spec, status }: ModuleProjection,
    view: ModuleView | undefined,
  ): boolean {
    const { decided, endedConfirmations: ended = NO_CONFIRMATIONS } = view ?? {};
    if (mirrored.status === status && mirrored.ended === ended) return false;
    const displayed = decided === false ? this.#specBeforeDiscovery(mirrored, spec) : spec;
    if (displayed === undefined) return false;
    Object.assign(mirrored, { spec: displayed, status, ended, missing: false });
    return true;
  }

  /** How long modules without an object still wait for discovery, in milliseconds. */
  get undecidedMs(): number {
    return this.#undecidedUntil === undefined ? 0 : this.#undecidedUntil - this.#clock.monotonic();
  }

  /**
   * The spec before discovery: the one on the server, or undefined (= do not write yet) for a moment. Else every start
   * would write what discovery overwrites a second later.
   */
  #specBeforeDiscovery({ live }: MirroredObject, spec: ModuleSpec): ModuleSpec | undefined {
    if (live?.spec !== undefined) return live.spec as unknown as ModuleSpec;
    this.#undecidedUntil ??= this.#clock.monotonic() + UNDECIDED_MS;
    return this.undecidedMs <= 0 ? spec : undefined;
  }
}
