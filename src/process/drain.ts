/** Decides when the output of a child is complete. */

import type { Readable } from "node:stream";

import type { Clock, Timer } from "../lib/index.ts";

/** After the leader's end, its output counts as complete when nothing came for this long. */
const QUIET_MS = 100;
/** A daemon that goes on writing is read for no longer than this. */
const LONGEST_MS = 1000;

/**
 * Resolves when both streams have ended; or, where a daemon holds them open, when they have been quiet for a moment
 * or have gone on for too long. Then they are closed.
 */
export async function drain(streams: readonly Readable[], clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + LONGEST_MS;
  await Promise.all(streams.map((stream) => drained(stream, deadline, clock)));
  for (const stream of streams) stream.destroy();
}

function drained(stream: Readable, deadline: number, clock: Clock): Promise<void> {
  return new Promise((resolve) => {
    if (stream.readableEnded || stream.destroyed) return resolve();
    let timer: Timer | undefined;
    const finish = (): void => {
      timer?.cancel();
      stream.off("data", wait).off("end", finish).off("close", finish);
      resolve();
    };
    const wait = (): void => {
      timer?.cancel();
      const left = deadline - clock.monotonic();
      timer = clock.setTimer(Math.min(QUIET_MS, left), finish);
    };
    stream.on("data", wait).once("end", finish).once("close", finish);
    wait();
  });
}
