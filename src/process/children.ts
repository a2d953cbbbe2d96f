/** The children of the operator: those that live, how a group is ended, and those that an earlier operator left. */

import { readFile, readdir } from "node:fs/promises";

import { Failures, silentLogger, sleep, type Clock, type Timer } from "../lib/index.ts";

/** A child that is still alive. */
export interface Living {
  end(graceMs: number): void;
  readonly ended: Promise<unknown>;
}

const living = new Set<Living>();

let mayStart: () => boolean = () => true;

/**
 * From now on `run` starts a child only while `allowed` returns true, and cancels it otherwise: a process that was
 * frozen wakes up with work that was due before it can learn that another operator has taken over.
 */
export function startOnlyWhile(allowed: () => boolean): void {
  mayStart = allowed;
}

/** Whether a child may be started now. */
export function startsAllowed(): boolean {
  return mayStart();
}

let failures = new Failures(silentLogger);

/** From now on errors of callbacks (readers of output lines) are reported to `to`. */
export function reportChildren(to: Failures): void {
  failures = to;
}

/** Calls back on behalf of a child; an error there ends neither the operator nor the reading. */
export function callBack(fn: () => void): void {
  failures.guard("child", fn);
}

/** Keeps a child in the list until it has ended. */
export function remember(child: Living): void {
  living.add(child);
  void child.ended.then(() => living.delete(child));
}

/**
 * Ends every child that is still alive, with its process group: SIGTERM, and SIGKILL after `graceMs`.
 * Resolves when all are gone.
 */
export async function endChildren(graceMs: number): Promise<void> {
  const all = [...living];
  for (const child of all) child.end(graceMs);
  await Promise.all(all.map((child) => child.ended));
}

const POLL_MS = 20;
/** How long to wait for the end of a group that was sent SIGKILL; zombies that nobody reaps look alive. */
const KILLED_MS = 200;

export type EndReason = "timedOut" | "cancelled";

/**
 * The one way a child is ended from outside: SIGTERM to its whole process group, SIGKILL after the grace time. The
 * first reason counts; a later call can shorten the grace time.
 */
export class Ending {
  readonly #pid: number;
  readonly #clock: Clock;
  #reason: EndReason | undefined;
  #killAt = Infinity;
  #timer: Timer | undefined;

  constructor(pid: number, clock: Clock) {
    this.#pid = pid;
    this.#clock = clock;
  }

  get reason(): EndReason | undefined {
    return this.#reason;
  }

  begin(reason: EndReason, graceMs: number): void {
    const killAt = this.#clock.monotonic() + graceMs;
    if (killAt >= this.#killAt) return;
    if (this.#reason === undefined) signalGroup(this.#pid, "SIGTERM");
    this.#reason ??= reason;
    this.#killAt = killAt;
    this.#timer?.cancel();
    this.#timer = this.#clock.setTimer(graceMs, () => signalGroup(this.#pid, "SIGKILL"));
  }

  /** After the leader's end: waits until the rest of the group is gone too, or was killed. */
  async finish(): Promise<void> {
    const patience = this.#killAt + KILLED_MS;
    while (this.#reason !== undefined && groupAlive(this.#pid) && this.#clock.monotonic() < patience) {
      await sleep(this.#clock, POLL_MS);
    }
    this.#timer?.cancel();
  }
}

/** Sends a signal to the whole process group led by `pid`; a group that is gone is fine. */
export function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // ESRCH: already gone. EPERM: a set-uid member, which may not be signalled.
  }
}

function groupAlive(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch {
    return false;
  }
}

const STEP_MS = 50;

/**
 * Identifies a stray by variables in its environment, each as `NAME=value`: these stay right after a crash and when
 * a pid is used again.
 */
export type Fits = (environment: readonly string[]) => boolean;

/** How strays are ended. */
export interface StrayOptions {
  readonly clock: Clock;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Pids of processes that an earlier operator process left, found by the variables it gave them. Empty where there
 * is no /proc.
 */
export async function strays(fits: Fits): Promise<number[]> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number);
  const fitting = await Promise.all(
    pids.map(async (pid) => {
      if (pid === process.pid) return false;
      const text = await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return text !== "" && fits(text.split("\0"));
    }),
  );
  return pids.filter((_, at) => fitting[at] === true);
}

/** Ends all that match, and resolves when none is left. */
export async function endStrays(fits: Fits, { clock, graceMs, signal }: StrayOptions): Promise<void> {
  const start = clock.monotonic();
  let told = false;
  for (let pids = await strays(fits); pids.length > 0; pids = await strays(fits)) {
    signal?.throwIfAborted();
    const late = clock.monotonic() - start > graceMs;
    if (!told || late) for (const pid of pids) kill(pid, late ? "SIGKILL" : "SIGTERM");
    told = true;
    await sleep(clock, STEP_MS, signal);
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile, or belongs to somebody else.
  }
}
