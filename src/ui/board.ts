/** What all pages look at together. While nobody looks nothing is made, and nothing kept. */

import type { Clock, Timer } from "../lib/index.ts";
import { Rows } from "./rows.ts";
import { Streams, type Outlet } from "./streams.ts";
import type { ModuleRow, OperatorRow, QueueRow } from "./wire.ts";

/** Everything at one moment. */
export interface Scene {
  /** One row. */
  readonly operator: readonly OperatorRow[];
  readonly modules: readonly ModuleRow[];
  readonly queues: readonly QueueRow[];
}

interface BoardOptions {
  readonly clock: Clock;
  /** Looks at the operator; secrets are still in the texts. */
  readonly look: () => Scene;
  readonly redact: <T>(value: T) => T;
}

const TABLES = ["operator", "modules", "queues"] as const;
/** Least and longest time between two looks, in milliseconds. */
const LOOK_EVERY_MS = 50;
const LOOK_SELDOM_MS = 1000;
/** Looks may take a twentieth of the time, on average: after a rest some may follow one another at once. */
const LOOK_COST = 20;
const LOOK_CREDIT_MS = 2000;
/** A run is announced when it is a second old, which changes nothing that one is told of. */
const LOOK_AGAIN_MS = 1100;

/** The tables that pages show, one for all of them, and their streams. */
export class Board {
  readonly #options: BoardOptions;
  readonly #streams: Streams;
  readonly #tables: Readonly<Record<keyof Scene, Rows>>;
  #soon: Timer | undefined;
  #again: Timer | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** When the looks so far have taken no more than their share. */
  #paidAt = 0;

  constructor(options: BoardOptions) {
    this.#options = options;
    const rows = (): Rows => new Rows(options.redact);
    this.#tables = { operator: rows(), modules: rows(), queues: rows() };
    const whole = (): string => this.#whole();
    this.#streams = new Streams({ clock: options.clock, whole, emptied: () => this.#forget() });
  }

  /** How many pages look. */
  get viewers(): number {
    return this.#streams.size;
  }

  /** Whether one more page may look. */
  get hasRoom(): boolean {
    return this.#streams.hasRoom;
  }

  /** One more page looks. */
  show(outlet: Outlet): void {
    if (this.viewers === 0) this.#look();
    this.#streams.add(outlet);
  }

  /** Notes that something may have changed. */
  changed(): void {
    if (this.viewers === 0 || this.#soon !== undefined) return;
    const { clock } = this.#options;
    const at = Math.max(this.#lookedAt + LOOK_EVERY_MS, this.#paidAt - LOOK_CREDIT_MS);
    const wait = Math.max(0, Math.min(at, this.#lookedAt + LOOK_SELDOM_MS) - clock.monotonic());
    this.#soon = clock.setTimer(wait, () => {
      this.#soon = undefined;
      this.#again?.cancel();
      this.#again = clock.setTimer(LOOK_AGAIN_MS, () => this.#look());
      this.#look();
    });
  }

  /** Ends all streams. */
  close(): void {
    this.#streams.close();
  }

  #look(): void {
    const { clock, look } = this.#options;
    this.#lookedAt = clock.monotonic();
    const scene = look();
    const news = TABLES.flatMap((name) => {
      const change = this.#tables[name].take(scene[name]);
      return change === undefined ? [] : [`"${name}":${change}`];
    });
    const costMs = clock.monotonic() - this.#lookedAt;
    this.#paidAt = Math.max(this.#paidAt, this.#lookedAt) + LOOK_COST * costMs;
    if (news.length > 0) this.#streams.tell(`{"now":${clock.now()},${news.join(",")}}`);
  }

  #whole(): string {
    const tables = TABLES.map((name) => `"${name}":${this.#tables[name].whole()}`);
    return `{"whole":true,"now":${this.#options.clock.now()},${tables.join(",")}}`;
  }

  #forget(): void {
    this.#soon?.cancel();
    this.#again?.cancel();
    [this.#soon, this.#again] = [undefined, undefined];
    for (const name of TABLES) this.#tables[name].forget();
  }
}
