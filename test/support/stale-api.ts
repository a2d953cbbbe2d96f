import type { Distortion, Seen, WholeAnswer } from "./fault-proxy.ts";

/** How an operator observes the API server wrongly, although each request of it is answered. */
export const OBSERVATIONS = ["late", "repeated", "reordered", "lost", "stale"] as const;
export type Observation = (typeof OBSERVATIONS)[number];

/** Part of the events or reads that are distorted. */
const SHARE = 0.5;
const LATEST_MS = 1500;
/** An event that waits for the next one waits no longer. */
const HELD_MS = 500;
const KEPT_EVENTS = 5;
/** Reads that are answered from an older state, in one play: a replica that is behind catches up some time. */
const STALE_READS = 25;

/** What passed through one watch. */
interface WatchState {
  /** When the last delayed event is due. */
  due: number;
  readonly past: string[];
  held: string | undefined;
}

/**
 * Distorts what an operator and its helm observe, as a seed decides: events of watches arrive late, twice, in another order
 * or never, while the watch stays open and bookmarks pass; or reads are answered from an older state, as by a replica of
 * the API server that is behind.
 */
export class StaleApi implements Distortion {
  /** How often it has struck. */
  struck = 0;
  /** Before it begins and after its end, the API server is observed as it is. */
  isOver = true;
  readonly #observation: Observation;
  readonly #roll: () => number;
  readonly #watches = new WeakMap<Seen, WatchState>();
  /** All answers to a read, the oldest first, without repetitions. */
  readonly #answers = new Map<string, WholeAnswer[]>();

  constructor(observation: Observation, roll: () => number) {
    this.#observation = observation;
    this.#roll = roll;
  }

  /** Handles one line of a watch. */
  event(seen: Seen, line: string, pass: (line: string) => void): void {
    const state = this.#watches.get(seen) ?? { due: 0, past: [], held: undefined };
    this.#watches.set(seen, state);
    const { held } = state;
    state.held = undefined;
    const isBookmark = line.startsWith('{"type":"BOOKMARK"');
    const isHit = !this.isOver && isDistorted(seen) && !isBookmark && this.#roll() < SHARE;
    if (isHit) this.#distort(state, line, pass);
    // What was delayed before must stay before.
    else if (state.due > Date.now()) passLater(state, 0, () => pass(line));
    else pass(line);
    if (held !== undefined) pass(held);
    if (!isBookmark) state.past.push(line);
    if (state.past.length > KEPT_EVENTS) state.past.shift();
  }

  #distort(state: WatchState, line: string, pass: (line: string) => void): void {
    const kind = this.#observation;
    if (kind === "stale") return pass(line);
    this.struck += 1;
    if (kind === "late") return passLater(state, this.#roll() * LATEST_MS, () => pass(line));
    if (kind === "repeated") {
      pass(line);
      for (const old of state.past) pass(old);
      return pass(line);
    }
    if (kind !== "reordered") return;
    state.held = line;
    setTimeout(() => {
      if (state.held !== line) return;
      state.held = undefined;
      pass(line);
    }, HELD_MS);
  }

  /** An older answer to this read; undefined: the API server answers. */
  read(seen: Seen): WholeAnswer | undefined {
    if (this.#observation !== "stale" || this.isOver || !isRead(seen)) return undefined;
    const older = this.#answers.get(keyOf(seen))?.slice(0, -1) ?? [];
    if (older.length === 0 || this.struck >= STALE_READS || this.#roll() > SHARE) return undefined;
    this.struck += 1;
    return older[Math.floor(this.#roll() * older.length)];
  }

  /** Keeps what the API server answers. */
  answered(seen: Seen, answer: WholeAnswer): void {
    if (!isRead(seen)) return;
    const key = keyOf(seen);
    const known = this.#answers.get(key) ?? [];
    if (known.at(-1)?.body !== answer.body) this.#answers.set(key, [...known, answer]);
  }
}

/** Passes something on after what was delayed before, and after `ms`. */
function passLater(state: WatchState, ms: number, pass: () => void): void {
  state.due = Math.max(state.due, Date.now() + ms);
  setTimeout(pass, state.due - Date.now());
}

const isDistorted = ({ agent }: Seen): boolean => !agent.startsWith("kubectl");

/** Whether a request reads objects: Leases are read by whoever wants to lead, and a replica that is behind cannot be a quorum. */
const isRead = (seen: Seen): boolean =>
  isDistorted(seen) &&
  seen.method === "GET" &&
  !seen.watch &&
  /\/namespaces\/|customresourcedefinitions/.test(seen.path) &&
  !seen.path.includes("/leases");

const keyOf = ({ path, query, accept }: Seen): string => `${path}?${query.toString()} ${accept}`;
