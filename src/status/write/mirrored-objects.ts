/** All mirrored objects, and their wanted content. */

import type { Clock } from "../../lib/index.ts";
import type { ModuleView, View } from "../../state/index.ts";
import type { ModuleSpec } from "../models/kinds.ts";
import type { ModuleProjection } from "../project/module-status.ts";
import type { Projection } from "../project/projector.ts";
import { newMirroredObject, type MirroredObject } from "./mirrored.ts";

/** How long modules without an object wait for the first discovery. After it they get an object without its decision. */
const DISCOVERY_WAIT_MS = 2000;
const NO_CONFIRMATIONS = {};

/** The AddonOperator and the AddonModules of one operator. */
export class MirroredObjects {
  readonly operator: MirroredObject;
  readonly modules = new Map<string, MirroredObject>();
  readonly #clock: Clock;
  #discoveryWaitEndsAt: number | undefined;

  constructor(operatorName: string, clock: Clock) {
    this.operator = newMirroredObject({ kind: "AddonOperator", name: operatorName });
    this.#clock = clock;
  }

  /** The mirrored object of a module, created at first use. */
  getOrCreateModule(name: string): MirroredObject {
    let mirrored = this.modules.get(name);
    if (mirrored === undefined) {
      mirrored = newMirroredObject({ kind: "AddonModule", name });
      this.modules.set(name, mirrored);
    }
    return mirrored;
  }

  /** All mirrored objects, the AddonOperator first: modules carry a reference to it. */
  listObjects(): MirroredObject[] {
    return [this.operator, ...this.modules.values()];
  }

  /**
   * Sets the wanted content of all objects from a projection, and returns the objects that may have to be written. Before the
   * modules are loaded it sets only the AddonOperator.
   */
  setWanted(projection: Projection, view: View): MirroredObject[] {
    const changed = [this.operator];
    this.operator.wantedStatus = projection.operatorStatus;
    // Nothing is known of modules yet: after a refused start their objects keep the last status.
    if (view.boot === "loading") return changed;
    for (const [name, wanted] of projection.modules) {
      const mirrored = this.getOrCreateModule(name);
      if (this.#setWantedModule(mirrored, wanted, view.modules.get(name))) changed.push(mirrored);
    }
    for (const [name, mirrored] of this.modules) {
      if (mirrored.isModuleDeleted || projection.modules.has(name)) continue;
      mirrored.wantedStatus = undefined;
      mirrored.isModuleDeleted = true;
      changed.push(mirrored);
    }
    return changed;
  }

  /** Sets the wanted content of a module's object. Returns false if it is unchanged, or must not be written yet. */
  #setWantedModule(
    mirrored: MirroredObject,
    { spec, status }: ModuleProjection,
    view: ModuleView | undefined,
  ): boolean {
    const { isDiscovered, endedConfirmations: ended = NO_CONFIRMATIONS } = view ?? {};
    if (mirrored.wantedStatus === status && mirrored.endedConfirmations === ended) return false;
    const wantedSpec = isDiscovered === false ? this.#getSpecBeforeDiscovery(mirrored, spec) : spec;
    if (wantedSpec === undefined) return false;
    mirrored.wantedSpec = wantedSpec;
    mirrored.wantedStatus = status;
    mirrored.endedConfirmations = ended;
    mirrored.isModuleDeleted = false;
    return true;
  }

  /** How long modules without an object still wait for the first discovery, in milliseconds; 0 if none waits. */
  get discoveryWaitMs(): number {
    return this.#discoveryWaitEndsAt === undefined ? 0 : this.#discoveryWaitEndsAt - this.#clock.monotonic();
  }

  /**
   * The spec of a module that discovery has not decided yet: the spec on the server if there is one. Else undefined (= do not
   * write yet) until `discoveryWaitMs` is over, because a start would write a spec that discovery changes a second later.
   */
  #getSpecBeforeDiscovery({ liveObject }: MirroredObject, spec: ModuleSpec): ModuleSpec | undefined {
    if (liveObject?.spec !== undefined) return liveObject.spec as unknown as ModuleSpec;
    this.#discoveryWaitEndsAt ??= this.#clock.monotonic() + DISCOVERY_WAIT_MS;
    return this.discoveryWaitMs <= 0 ? spec : undefined;
  }
}
