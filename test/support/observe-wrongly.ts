import { expectStateAtLast, openStage, type Undisturbed } from "./each-point.ts";
import type { PageState } from "./scene.ts";
import { StaleApi, type Observation } from "./stale-api.ts";
import type { Story } from "./story.ts";

/** With which lost events are found soon. */
const CHECKS = { WATCH_CHECK_INTERVAL: "2s" };
/** The operator observes what is not so until that has happened so often, or for so long after it is ready. */
const STRIKES = 4;
const DISTORTED_MS = 10_000;

/**
 * Plays a story while the operator observes what is not so, then lets it observe everything again, and compares the state.
 * Resolves to the number of events and reads that were distorted.
 */
export async function observeWrongly(
  story: Story,
  { kind, roll }: { kind: Observation; roll: () => number },
  truth: Undisturbed,
): Promise<number> {
  const api = new StaleApi(kind, roll);
  const furnish = async (pageState: PageState): Promise<void> => {
    pageState.proxy.distortion = api;
    Object.assign(pageState.env, CHECKS);
    await story.furnish?.(pageState);
  };
  const stage = await openStage({ ...story, furnish });
  api.isOver = false;
  const operator = await stage.play();
  // A first start, which takes its time; a start that the distortion holds up goes on after it.
  await operator.waitReady().catch(() => {});
  const hasStruck = (): boolean => api.struck >= STRIKES;
  await operator.until(hasStruck, "it has struck", { timeoutMs: DISTORTED_MS }).catch(() => {});
  api.isOver = true;
  await expectStateAtLast(stage, truth, operator);
  return api.struck;
}
