/** What the objects of the status should be, as the last view says. */

import type { Clock } from "../../lib/index.ts";
import type { View } from "../../state/index.ts";
import type { ModuleSpec } from "../models/kinds.ts";
import type { Projection } from "../project/projector.ts";
import type { MirroredObject } from "./mirrored.ts";
import type { Writer } from "./writer.ts";

/** A module that discovery has not looked at is shown after this time, so that a long start can be followed. */
const UNDECIDED_MS = 2000;

/** Sets what is wanted of each object. */
export class Wanted {
  readonly #writer: Writer;
  readonly #clock: Clock;
  #showFrom: number | undefined;

  constructor(writer: Writer, clock: Clock) {
    this.#writer = writer;
    this.#clock = clock;
  }

  /** Returns the objects that change by it. A directory that is not read yet removes nothing. */
  set(projection: Projection, view: View): MirroredObject[] {
    const { operator } = this.#writer;
    const changed = [operator];
    operator.status = projection.operator.status;
    for (const [name, { spec, status }] of projection.modules) {
      const mirrored = this.#writer.module(name);
      if (mirrored.status === status) continue;
      const shown = view.modules.get(name)?.decided === false ? this.#undecided(mirrored, spec) : spec;
      if (shown === undefined) continue;
      Object.assign(mirrored, { spec: shown, status, gone: false });
      changed.push(mirrored);
    }
    if (view.boot === "loading") return changed;
    for (const [name, mirrored] of this.#writer.modules) {
      if (mirrored.gone || projection.modules.has(name)) continue;
      Object.assign(mirrored, { status: undefined, gone: true });
      changed.push(mirrored);
    }
    return changed;
  }

  /** How long modules without an object still wait for discovery, in milliseconds. */
  get waitMs(): number {
    return this.#showFrom === undefined ? 0 : this.#showFrom - this.#clock.now();
  }

  /**
   * Before discovery a module keeps its spec, and one without an object waits for a moment: else every start would
   * write what the next second overwrites. undefined = not to be shown yet.
   */
  #undecided({ live }: MirroredObject, spec: ModuleSpec): ModuleSpec | undefined {
    if (live?.spec !== undefined) return live.spec as unknown as ModuleSpec;
    this.#showFrom ??= this.#clock.now() + UNDECIDED_MS;
    return this.waitMs <= 0 ? spec : undefined;
  }
}
