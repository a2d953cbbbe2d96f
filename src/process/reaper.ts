/** Collects children that were started through the C library, with their CPU time and memory. */

import { constants } from "node:os";

import { systemClock, type Timer } from "../lib/index.ts";
import { STRUCT_BYTES, type Libc } from "./spawn/libc.ts";

/** How a child ended, and what it used. */
export interface Reaped {
  readonly code: number | undefined;
  readonly signal: string | undefined;
  readonly usage: Usage | undefined;
}

/** What a process and the children it waited for used (getrusage). */
export interface Usage {
  readonly userSeconds: number;
  readonly systemSeconds: number;
  /** Undefined where it is less than the operator's own, which the child had before it executed its program. */
  readonly maxRssBytes: number | undefined;
}

const WNOHANG = 1;
/** A signal tells of ends; this regular look is needed since a signal alone does not keep the event loop alive. */
const LOOK_MS = 1000;

/** Collects children that were not started by Node's child_process. */
export class Reaper {
  readonly #libc: Libc;
  readonly #living = new Map<number, (end: Reaped) => void>();
  #looking: Timer | undefined;

  constructor(libc: Libc) {
    this.#libc = libc;
    process.on("SIGCHLD", () => this.#look());
  }

  /** Resolves when the child has ended. Call it in the same turn as its start. */
  ended(pid: number): Promise<Reaped> {
    this.#looking ??= systemClock.setTimer(LOOK_MS, () => this.#lookAgain());
    return new Promise((resolve) => this.#living.set(pid, resolve));
  }

  /** One signal may stand for several children. */
  #look(): void {
    for (const [pid, tell] of this.#living) {
      const end = this.#wait(pid);
      if (end === undefined) continue;
      this.#living.delete(pid);
      tell(end);
    }
    if (this.#living.size > 0) return;
    this.#looking?.cancel();
    this.#looking = undefined;
  }

  #lookAgain(): void {
    this.#looking = systemClock.setTimer(LOOK_MS, () => this.#lookAgain());
    this.#look();
  }

  #wait(pid: number): Reaped | undefined {
    const status: [number] = [0];
    const usage = Buffer.alloc(STRUCT_BYTES);
    const found = this.#libc.wait4(pid, status, WNOHANG, usage);
    if (found === 0) return undefined;
    if (found !== pid) return { code: undefined, signal: "SIGKILL", usage: undefined };
    return { ...ending(status[0]), usage: usageOf(usage) };
  }
}

/** WIFEXITED, WEXITSTATUS and WTERMSIG of wait(2). */
function ending(status: number): Pick<Reaped, "code" | "signal"> {
  const by = status & 0x7f;
  if (by === 0) return { code: (status >> 8) & 0xff, signal: undefined };
  const name = Object.entries(constants.signals).find(([, number]) => number === by)?.[0];
  return { code: undefined, signal: name ?? `signal ${by}` };
}

/** struct rusage: user and system time as seconds and microseconds, then the peak in KiB; all 64 bits wide. */
function usageOf(usage: Buffer): Usage {
  const word = (index: number): number => Number(usage.readBigInt64LE(8 * index));
  const peak = word(4) * 1024;
  return {
    userSeconds: word(0) + word(1) / 1e6,
    systemSeconds: word(2) + word(3) / 1e6,
    maxRssBytes: peak > process.resourceUsage().maxRSS * 1024 ? peak : undefined,
  };
}
