/** Keeps track of all living children, so that they can be ended with the operator. */

import { Failures, silentLogger } from "../lib/index.ts";

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
