import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import type { FalseAnswer, Seen } from "./fault-proxy.ts";
import { atRest, expectNothingLeft, installed, pictureOf } from "./final-state.ts";
import type { OperatorProcess } from "./operator.ts";
import { prepare } from "./scene-story.ts";
import { openScene, type PageState } from "./scene.ts";
import { ACCOUNT_STORIES } from "./stories-accounts.ts";
import { LEADER_STORIES } from "./stories-leaders.ts";
import { RELEASE_STORIES } from "./stories-releases.ts";
import { SOURCE_STORIES } from "./stories-sources.ts";
import { WEBHOOK_STORIES } from "./stories-webhooks.ts";
import type { Cast, Story } from "./story.ts";

/** In no order of their own: each plays in a namespace of its own. */
export const STORIES: readonly Story[] = [
  ...RELEASE_STORIES,
  ...LEADER_STORIES,
  ...SOURCE_STORIES,
  ...WEBHOOK_STORIES,
  ...ACCOUNT_STORIES,
];

type Match = (seen: Seen) => boolean;

/** Requests that belong to no act: those of tests, of leases that are renewed, of Events and of questions about rights. */
const isRequest: Match = ({ method, path, agent, watch }) =>
  !agent.startsWith("kubectl") &&
  !watch &&
  method !== "OPTIONS" &&
  !/\/(leases|events)\b|accessreviews$/.test(path);

/** Counts the writes of one run. The first of a Lease is the one that takes it. */
function writesOf({ takesLease = false }: Story): Match {
  let isFree = takesLease;
  return (seen) => {
    if (seen.method === "GET") return false;
    const takes = isFree && /\/leases\b/.test(seen.path);
    if (takes) isFree = false;
    return takes || isRequest(seen);
  };
}

/** The state at rest, without what two undisturbed runs do not share. */
async function stateOf(story: Story, pageState: PageState): Promise<unknown> {
  const { revisions: _, objects, ...rest } = await pictureOf(pageState);
  const shown = Object.entries(objects).filter(([name]) => story.hidden?.includes(name) !== true);
  const picture = { ...rest, objects: Object.fromEntries(shown) };
  const text = JSON.stringify([picture, (await story.look?.(pageState)) ?? null]);
  return JSON.parse(text.replaceAll(pageState.namespace, "NAMESPACE")) as unknown;
}

/** What an undisturbed run of a story does and leaves. */
export interface Undisturbed {
  readonly writes: number;
  readonly requests: number;
  /** Distinct changes of files, if they count. */
  readonly fileChanges: number;
  readonly state: string;
}

const POLLS_AT_REST = 4;

/** Says of the state at several looks that the story is over, without a write or another state in between. */
function ending(story: Story, { proxy }: PageState): (state: string) => boolean {
  let last = "";
  let same = 0;
  return (state) => {
    const now = `${proxy.seen.filter(writesOf(story)).length} ${state}`;
    same = now === last ? same + 1 : 0;
    last = now;
    return same >= POLLS_AT_REST && story.isOver(state);
  };
}

/** Plays a story without disturbance, waits until its state stays the same, and counts its requests. */
export async function playUndisturbed(story: Story): Promise<Undisturbed> {
  const stage = await openStage(story);
  const { pageState } = stage;
  const { seen } = pageState.proxy;
  const begin = seen.length;
  pageState.file(FILE_POINT, "none");
  const operator = await stage.play();
  const isOver = ending(story, pageState);
  let state = "";
  await settle(stage, operator, {
    isSettled: (found) => isOver((state = found)),
    what: `${story.name}: the end, and no change any more`,
  });
  const counted = {
    writes: seen.slice(begin).filter(writesOf(story)).length,
    requests: seen.slice(begin).filter(isRequest).length,
    fileChanges: countFileChanges(pageState),
  };
  await stage.endOthers?.(operator);
  await expectNothingLeft(pageState, operator);
  return { ...counted, state };
}

/** In the directory of a scene: see file-points.ts. */
const FILE_POINT = "file-point";
const PRELOADED = join(import.meta.dirname, "file-points.ts");

/** The same story, in which changes of files count. */
export function withFileChanges(story: Story): Story {
  const furnish = async (pageState: PageState): Promise<void> => {
    pageState.env["NODE_OPTIONS"] = `--import=${PRELOADED}`;
    await story.furnish?.(pageState);
  };
  return { ...story, furnish };
}

function countFileChanges({ dir }: PageState): number {
  const log = join(dir, "file-changes");
  return existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean).length : 0;
}

interface Stage extends Cast {
  readonly story: Story;
  readonly pageState: PageState;
}

/** A machine that stands still for seconds ends no term. A successor sees that the process of the holder has ended. */
const LONG_LEASE = { ADDON_OPERATOR_LEASE_DURATION: "10m", ADDON_OPERATOR_LEASE_RENEW_DEADLINE: "9m" };

/** Everything before the story: for all but those of a first start, a first converge. */
export async function openStage(story: Story): Promise<Stage> {
  const pageState = await (story.isBare === true ? openScene("each") : prepare("each"));
  Object.assign(pageState.env, LONG_LEASE);
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

/** Matches the request number `n` of those that `counts` accepts, counted from 1. */
function nth(n: number, counts: Match): Match {
  let count = 0;
  return (seen) => counts(seen) && ++count === n;
}

interface Settling {
  readonly isSettled: (state: string) => boolean;
  readonly what: string;
}

/** A look costs a processor as much as a tenth of an operator's start; statuses follow within a second. */
const LOOK_MS = 250;

/** Waits until the operator is at rest in a state that is as it should be. */
async function settle(
  { story, pageState }: Stage,
  operator: OperatorProcess,
  { isSettled, what }: Settling,
): Promise<void> {
  await atRest(operator);
  const isThere = async (): Promise<boolean> => isSettled(JSON.stringify(await stateOf(story, pageState)));
  await operator.until(isThere, what, { intervalMs: LOOK_MS });
  await atRest(operator);
}

/** The operator reaches the state of an undisturbed run and stays there, and nothing of its predecessor is left. */
async function expectState(stage: Stage, truth: Undisturbed, operator: OperatorProcess): Promise<void> {
  await reachState(stage, truth, operator);
  await leaveState(stage, operator);
}

async function reachState(stage: Stage, truth: Undisturbed, operator: OperatorProcess): Promise<void> {
  let found = "";
  const isSettled = (state: string): boolean => (found = state) === truth.state;
  try {
    await settle(stage, operator, { isSettled, what: "the state of an undisturbed run" });
  } catch (error) {
    throw new Error(`expected ${truth.state}\nfound    ${found}`, { cause: error });
  }
}

async function leaveState(stage: Stage, operator: OperatorProcess): Promise<void> {
  await stage.endOthers?.(operator);
  await expectNothingLeft(stage.pageState, operator);
}

/**
 * As `expectState`, under a kubelet: an operator that ends with exit code 1 before it is there is started again, once. Resolves to
 * whether it was.
 */
export async function expectStateAtLast(
  stage: Stage,
  truth: Undisturbed,
  operator: OperatorProcess,
): Promise<boolean> {
  const failure = await reachState(stage, truth, operator).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (failure !== undefined) {
    const stillRuns = new Promise<undefined>((done) => void setImmediate(done, undefined));
    const ended = await Promise.race([operator.exit, stillRuns]);
    if (ended?.code !== 1) throw failure;
    await expectState(stage, truth, await stage.replace());
    return true;
  }
  await leaveState(stage, operator);
  return false;
}

/**
 * Plays a story, kills the operator and its helm after the API server has done write `n` and before the answer arrives,
 * has another operator take its place, and compares the state. Resolves to whether there was such a write.
 */
export async function crashAfterWrite(story: Story, n: number, truth: Undisturbed): Promise<boolean> {
  const stage = await openStage(story);
  const { proxy } = stage.pageState;
  const held = proxy.hold(nth(n, writesOf(story)), "after").then(() => true);
  const first = await stage.play();
  const over = { isSettled: ending(story, stage.pageState), what: "the end, or the write" };
  const isReached = await Promise.race([held, settle(stage, first, over).then(() => false)]);
  await first.kill9();
  stage.pageState.killHelm();
  proxy.forgetHolds();
  await expectState(stage, truth, await stage.replace());
  return isReached;
}

/**
 * Plays a story whose operator dies at its change `n` of files (half a file is written, a part of a directory deleted), has
 * another operator take its place, and compares the state. Resolves to whether there was such a change.
 */
export async function crashAtFileChange(story: Story, n: number, truth: Undisturbed): Promise<boolean> {
  const stage = await openStage(story);
  stage.pageState.file(FILE_POINT, String(n));
  const first = await stage.play();
  const died = first.exit.then(() => true);
  const over = { isSettled: ending(story, stage.pageState), what: "the end, or the change" };
  const isReached = await Promise.race([died, settle(stage, first, over).then(() => false)]);
  await first.kill9();
  stage.pageState.killHelm();
  stage.pageState.remove(FILE_POINT);
  await expectState(stage, truth, await stage.replace());
  return isReached;
}

/** What became of a false answer: whether there was such a request, and whether it ended the process. */
export interface Answered {
  readonly isReached: boolean;
  readonly wasRestarted: boolean;
}

/** Plays a story in which request `n` gets a false answer, and compares the state. */
export async function answerFalsely(
  story: Story,
  { n, answer }: { n: number; answer: FalseAnswer },
  truth: Undisturbed,
): Promise<Answered> {
  const stage = await openStage(story);
  const { proxy } = stage.pageState;
  const isPoint = nth(n, isRequest);
  let request: string | undefined;
  const match: Match = (seen) => {
    if (!isPoint(seen)) return false;
    request = `${seen.method} ${seen.path} by ${seen.agent}`;
    return true;
  };
  proxy.answer(match, answer, 1);
  const wasRestarted = await expectStateAtLast(stage, truth, await stage.play()).catch((error: Error) => {
    throw new Error(`${request}: ${error.message}`, { cause: error.cause });
  });
  return { isReached: request !== undefined, wasRestarted };
}
