/**
 * Slows down the operator where another client changes its registrations again and again: without limit, both would write at the speed of the faster
 * one. Remembers what the operator has written last, to tell a change of its own from a change of others.
 */

import { FIELD_MANAGER, type WatchedObject } from "../../kube/index.ts";
import { Backoff, sameJson, type Clock } from "../../base/index.ts";
import { asString, isJsonObject, objectOf, objectsIn, type Json } from "../../base/model/index.ts";

interface ContestedOptions {
  readonly clock: Clock;
  /** Called when a change of others is not reverted yet, with the time in ms until it may be. */
  readonly onDelayed: (ms: number) => void;
}

/** A registration: the part of an object that the operator writes. */
interface Registration {
  /** Kind and name of the object. */
  readonly id: string;
  readonly wanted: Json;
  /** What the object contains now; undefined if there is no object. */
  readonly found: Json | undefined;
  readonly object: WatchedObject | undefined;
  /** The path of the part in the tree of `managedFields`, such as `f:webhooks`. */
  readonly field: readonly string[];
}

interface Written {
  readonly wanted: Json;
  readonly stored: Json;
}

/** The first changes of others are reverted at once, the following ones after a growing delay. */
const FREE_REVERTS = 3;
const MAX_DELAY_MS = 5 * 60_000;

/** The registrations of one operator, and who else changes them. */
export class ContestedObjects {
  readonly #options: ContestedOptions;
  readonly #written = new Map<string, Written>();
  readonly #backoffs = new Map<string, Backoff>();
  readonly #issues = new Map<string, string>();

  constructor(options: ContestedOptions) {
    this.#options = options;
  }

  /** Why changes of others are not reverted at once, one sentence for each object. */
  get issues(): readonly string[] {
    return [...this.#issues.values()];
  }

  /** Whether the operator itself wants the same as when it wrote last. */
  isUnchanged({ id, wanted }: Pick<Registration, "id" | "wanted">): boolean {
    const written = this.#written.get(id);
    return written !== undefined && sameJson(written.wanted, wanted);
  }

  /** Whether the operator may write a registration now. If others have changed it too often, `onDelayed` is called. */
  mayWrite(registration: Registration): boolean {
    const { id, found } = registration;
    const isOfOthers = this.isUnchanged(registration) && !sameJson(this.#written.get(id)?.stored, found);
    if (!isOfOthers) return true;
    const now = this.#options.clock.monotonic();
    const backoff = this.#backoffs.get(id) ?? new Backoff(MAX_DELAY_MS, FREE_REVERTS);
    this.#backoffs.set(id, backoff);
    if (backoff.dueAt <= now) {
      backoff.record(now);
      return true;
    }
    this.#issues.set(id, describeContest(registration));
    this.#options.onDelayed(backoff.dueAt - now);
    return false;
  }

  /** Records what the operator has written; `stored` can differ from `wanted` by what the API server has refused. */
  recordWritten(id: string, written: Written): void {
    this.#written.set(id, written);
  }

  /** Records that a registration is as wanted; after some time, changes of others are reverted at once again. */
  recordSettled(id: string): void {
    if (this.#backoffs.get(id)?.isRepeated(this.#options.clock.monotonic()) === true) return;
    this.#backoffs.delete(id);
    this.#issues.delete(id);
  }
}

function describeContest(registration: Registration): string {
  const manager = findOtherManager(registration);
  const who = manager === undefined ? "another client" : `the field manager ${manager}`;
  return `${registration.id} is changed by ${who} again and again, so the operator reverts the changes with a growing delay: change the settings of the other program`;
}

/** The field manager that has changed the field last, other than the operator. */
function findOtherManager({ object, field }: Registration): string | undefined {
  const owns = (fields: unknown): boolean => {
    const tree = field.reduce((node: unknown, key) => objectOf(node)[key], fields);
    return isJsonObject(tree);
  };
  const others = objectsIn(objectOf(object?.metadata)["managedFields"])
    .filter(({ manager, fieldsV1 }) => manager !== FIELD_MANAGER && owns(fieldsV1))
    .sort((a, b) => ((asString(a["time"]) ?? "") < (asString(b["time"]) ?? "") ? 1 : -1));
  return asString(others[0]?.["manager"]);
}
