/** The events of one binding on their way to the hook. */

import type { ObjectEvent, WatchEvent } from "../../../model/index.ts";

/** What happened to a binding's objects, for the debug dump. */
export interface Operations {
  added: number;
  modified: number;
  deleted: number;
  /** Objects dropped because their namespace left the selector. */
  cleaned: number;
}

const noOperations = (): Operations => ({ added: 0, modified: 0, deleted: 0, cleaned: 0 });

const COUNTERS = { Added: "added", Modified: "modified", Deleted: "deleted" } as const;

/** Events of one binding on their way to the hook: counted, chosen, and kept back until `unlock`. */
export class Outbox {
  readonly sinceStart: Operations = noOperations();
  sinceLastExecution: Operations = noOperations();
  readonly #wanted: readonly WatchEvent[];
  readonly #emit: (event: ObjectEvent) => void;
  #locked = true;
  #buffer: ObjectEvent[] = [];

  constructor(wanted: readonly WatchEvent[], emit: (event: ObjectEvent) => void) {
    this.#wanted = wanted;
    this.#emit = emit;
  }

  get locked(): boolean {
    return this.#locked;
  }

  /** Counts an event, and hands it to the hook if the hook wants it. */
  push(event: ObjectEvent): void {
    const counter = COUNTERS[event.watchEvent];
    this.sinceStart[counter] += 1;
    this.sinceLastExecution[counter] += 1;
    if (!this.#wanted.includes(event.watchEvent)) return;
    if (this.#locked) this.#buffer.push(event);
    else this.#emit(event);
  }

  /** Counts objects that are not selected any more. */
  cleaned(count: number): void {
    this.sinceStart.cleaned += count;
    this.sinceLastExecution.cleaned += count;
  }

  /** The hook is about to see the snapshot: for a locked binding, that shows what the waiting events would tell. */
  seen(): void {
    if (this.#locked) this.#buffer = [];
    this.sinceLastExecution = noOperations();
  }

  /** Releases the events that waited; from now on every event is handed on at once. */
  unlock(): void {
    this.#locked = false;
    const events = this.#buffer;
    this.#buffer = [];
    for (const event of events) this.#emit(event);
  }

  /** Drops what waits. */
  close(): void {
    this.#buffer = [];
  }
}
