import type { FalseAnswer, Seen } from "./fault-proxy.ts";
import { atRest, expectNothingLeft, pictureOf } from "./final-state.ts";
import type { OperatorProcess } from "./operator.ts";
import { prepare } from "./scene-story.ts";
import type { PageState } from "./scene.ts";
import { RELEASE_STORIES } from "./stories-releases.ts";
import type { Cast, Story } from "./story.ts";

/** In no order of their own: each plays in a namespace of its own. */
export const STORIES: readonly Story[] = [...RELEASE_STORIES];

/** Writes that belong to no act: those of tests, of leases that are renewed, of Events and of questions about rights. */
const isCounted = ({ method, path, agent, watch }: Seen): boolean =>
  !agent.startsWith("kubectl") &&
  !watch &&
  method !== "OPTIONS" &&
  !/\/(leases|events)\b|accessreviews$/.test(path);

const isWrite = (seen: Seen): boolean => isCounted(seen) && seen.method !== "GET";
const isRequest = (seen: Seen): boolean => isCounted(seen);

/** The state at rest, without what two undisturbed runs do not share. */
async function stateOf(story: Story, pageState: PageState): Promise<unknown> {
  const { revisions: _, ...picture } = await pictureOf(pageState);
  const text = JSON.stringify([picture, (await story.look?.(pageState)) ?? null]);
  return JSON.parse(text.replaceAll(pageState.namespace, "NAMESPACE")) as unknown;
}

/** What an undisturbed run of a story does and leaves. */
export interface Undisturbed {
  readonly writes: number;
  readonly requests: number;
  readonly state: string;
}

const POLLS_AT_REST = 4;

/** Plays a story without disturbance, waits until its state stays the same, and counts its requests. */
export async function playUndisturbed(story: Story): Promise<Undisturbed> {
  const stage = await openStage(story);
  const { seen } = stage.pageState.proxy;
  const begin = seen.length;
  const operator = await stage.play();
  let last = "";
  let same = 0;
  await settle(stage, operator, {
    isSettled: (state) => {
      const now = `${seen.filter(isWrite).length} ${state}`;
      same = now === last ? same + 1 : 0;
      last = now;
      return same >= POLLS_AT_REST && story.isOver(state);
    },
    what: `${story.name}: the end, and no change any more`,
    intervalMs: 250,
  });
  const during = seen.slice(begin);
  await expectNothingLeft(stage.pageState, operator);
  const state = last.slice(last.indexOf(" ") + 1);
  return { writes: during.filter(isWrite).length, requests: during.filter(isRequest).length, state };
}

interface Stage extends Cast {
  readonly story: Story;
  readonly pageState: PageState;
}

/** Everything before the story: for all but those of a first start, a first converge. */
async function openStage(story: Story): Promise<Stage> {
  const pageState = await prepare("each");
  await story.furnish?.(pageState);
  return { story, pageState, ...(await (story.cast ?? castOne(story))(pageState)) };
}

const castOne = (story: Story) => async (pageState: PageState) => {
  const start = (): Promise<OperatorProcess> => pageState.start({ args: [...(story.args ?? [])] });
  if (story.act === undefined) return { play: start, replace: start };
  const operator = await start();
  await installed(pageState, operator);
  const play = async (): Promise<OperatorProcess> => {
    await story.act?.(pageState);
    return operator;
  };
  return { play, replace: start };
};

const READY = ["AddonModule app", "AddonModule base", "AddonOperator addon-operator"];

/** Resolves when the first converge has ended, and the statuses say so: their writes belong to no act. */
async function installed(pageState: PageState, operator: OperatorProcess): Promise<void> {
  await atRest(operator);
  const areReady = async (): Promise<boolean> => {
    const { statuses } = await pictureOf(pageState);
    return READY.every((name) => statuses[name] === "Ready Current");
  };
  await operator.until(areReady, "the statuses of the first converge");
}

/** Matches the request number `n` of those that `counts` accepts, counted from 1. */
function nth(n: number, counts: (seen: Seen) => boolean): (seen: Seen) => boolean {
  let count = 0;
  return (seen) => counts(seen) && ++count === n;
}

interface Settling {
  readonly isSettled: (state: string) => boolean;
  readonly what: string;
  readonly intervalMs: number;
}

/** Waits until the operator is at rest in a state that is as it should be. */
async function settle(
  { story, pageState }: Stage,
  operator: OperatorProcess,
  { isSettled, what, intervalMs }: Settling,
): Promise<void> {
  await atRest(operator);
  const isThere = async (): Promise<boolean> => isSettled(JSON.stringify(await stateOf(story, pageState)));
  await operator.until(isThere, what, { intervalMs });
  await atRest(operator);
}

/** The operator reaches the state of an undisturbed run and stays there, and nothing of its predecessor is left. */
async function expectState(stage: Stage, truth: Undisturbed, operator: OperatorProcess): Promise<void> {
  let found = "";
  const isSettled = (state: string): boolean => (found = state) === truth.state;
  try {
    await settle(stage, operator, { isSettled, what: "the state of an undisturbed run", intervalMs: 100 });
  } catch (error) {
    throw new Error(`expected ${truth.state}\nfound    ${found}`, { cause: error });
  }
  await expectNothingLeft(stage.pageState, operator);
}

/**
 * Plays a story, kills the operator and its helm after the API server has done write `n` and before the answer arrives,
 * has another operator take its place, and compares the state. Resolves to the write, or undefined if there was none.
 */
export async function crashAfterWrite(
  story: Story,
  n: number,
  truth: Undisturbed,
): Promise<string | undefined> {
  const stage = await openStage(story);
  const { proxy } = stage.pageState;
  let write: string | undefined;
  const match = nth(n, isWrite);
  const held = proxy.hold((seen) => {
    if (!match(seen)) return false;
    write = `${seen.method} ${seen.path}`;
    return true;
  }, "after");
  const first = await stage.play();
  const over = { isSettled: story.isOver, what: "the end, or the write", intervalMs: 100 };
  await Promise.race([held, settle(stage, first, over)]);
  await first.kill9();
  stage.pageState.killHelm();
  proxy.forgetHolds();
  await expectState(stage, truth, await stage.replace());
  return write;
}

/** Plays a story in which request `n` gets a false answer, and compares the state. Resolves to the request. */
export async function answerFalsely(
  story: Story,
  { n, answer }: { n: number; answer: FalseAnswer },
  truth: Undisturbed,
): Promise<string | undefined> {
  const stage = await openStage(story);
  let request: string | undefined;
  const match = nth(n, isRequest);
  stage.pageState.proxy.answer(
    (seen) => {
      if (!match(seen)) return false;
      request = `${seen.method} ${seen.path}`;
      return true;
    },
    answer,
    1,
  );
  await expectState(stage, truth, await stage.play());
  return request;
}
