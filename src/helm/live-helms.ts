import { readdir, readFile } from "node:fs/promises";

import { sleep } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";

/** Environment variable that marks every helm of ours with its release. */
export const MARK = "ADDON_OPERATOR_HELM_RELEASE";

const GRACE_MS = 20_000;
const STEP_MS = 50;

/**
 * Pids of helm processes that an operator with the same mark started and that outlived it. Found by the mark in their
 * environment, which neither a crash between start and note nor a pid used twice can falsify. Empty where there is no
 * /proc.
 */
export async function liveHelms(mark: string): Promise<number[]> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name)).map(Number);
  const wanted = `${MARK}=${mark}`;
  const marked = await Promise.all(
    pids.map(async (pid) => {
      const environ =
        pid === process.pid ? "" : await readFile(`/proc/${pid}/environ`, "latin1").catch(() => "");
      return environ.split("\0").includes(wanted);
    }),
  );
  return pids.filter((_, at) => marked[at] === true);
}

/** Ends helm processes left over: politely, so that they can mark their release, then hard. */
export async function endLiveHelms(mark: string, clock: Clock, signal?: AbortSignal): Promise<void> {
  const start = clock.monotonic();
  let told = false;
  for (let pids = await liveHelms(mark); pids.length > 0; pids = await liveHelms(mark)) {
    signal?.throwIfAborted();
    const late = clock.monotonic() - start > GRACE_MS;
    if (!told || late) for (const pid of pids) kill(pid, late ? "SIGKILL" : "SIGTERM");
    told = true;
    await sleep(clock, STEP_MS, signal);
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
