// Runs at night: faults.
import { appendFileSync } from "node:fs";
import { expect, test } from "vitest";

import { eventually } from "../../support/cluster.ts";
import { random } from "../../support/random.ts";
import { mistake, remember } from "../../support/misoperation.ts";
import type { Mistake } from "../../support/misoperation.ts";
import { openWorld } from "../../support/misoperation-world.ts";
import type { Overview, World } from "../../support/misoperation-world.ts";
import { diceOf } from "../../support/violate.ts";
import type { Dice } from "../../support/violate.ts";

// What people do wrong, by a seed: the operator names it or survives it, deletes nothing that nobody asked to delete, and is
// where it was when the mistake is undone. `LONG=1` takes minutes, `MISTAKES=N` plays so many, `SEED=N` repeats a run.

const isLong = process.env["LONG"] !== undefined;
const COUNT = Number(process.env["MISTAKES"] ?? (isLong ? 300 : 6));
const SEED = Number(process.env["SEED"] ?? (isLong ? Date.now() % 1_000_000 : 1));
/** Takes a line for each mistake. */
const FILE = process.env["SHOW"];
const SAME_POLLS = 4;
const LONGEST_UNREST_MS = 10_000;

/** The state, when it has stayed the same for a while. */
async function settle(world: World, timeoutMs = 60_000): Promise<Overview> {
  let last = await world.look();
  let same = 0;
  await eventually(
    async () => {
      const overview = await world.look();
      same = differences(last, overview).length === 0 ? same + 1 : 0;
      last = overview;
      return same >= SAME_POLLS;
    },
    "the state stays the same",
    { intervalMs: 250, timeoutMs },
  );
  return last;
}

/** A line for each object that is not as expected. */
function differences(expected: Overview, found: Overview): string[] {
  const names = new Set([...Object.keys(expected.state), ...Object.keys(found.state)]);
  const text = ({ state }: Overview, name: string): string => JSON.stringify(state[name]) ?? "missing";
  const changed = [...names].filter((name) => text(expected, name) !== text(found, name));
  return changed.map((name) => `${name}: expected ${text(expected, name)}, found ${text(found, name)}`);
}

async function isReady(world: World): Promise<void> {
  await eventually(
    async () => {
      const { state } = await world.look();
      const states = Object.entries(state).filter(([name]) =>
        /namespaces.*addon(modules|operators) /.test(name),
      );
      const late = states.filter(([, text]) => !String(text).startsWith("Ready "));
      if (states.length < 7 || late.length > 0) throw new Error(JSON.stringify(late));
    },
    "everything is Ready",
    { context: () => world.operator.log().slice(-4000) },
  );
}

/** Waits until one message of the log or of a status contains all the words. */
async function expectMessage(world: World, from: number, words: readonly string[]): Promise<void> {
  await eventually(
    async () => {
      const { namespace, api } = world;
      const messages: string[] = world.operator.lines.slice(from);
      for (const plural of ["addonmodules", "addonoperators"]) {
        const root = `/apis/addon-operator.io/v1alpha1/namespaces/${namespace}/${plural}`;
        messages.push(...JSON.stringify((await api.request("GET", root)).body).split(/(?="message":)/));
      }
      return messages.some((message) => words.every((word) => message.includes(word)));
    },
    `a message names ${words.join(" and ")}`,
    { timeoutMs: 60_000, intervalMs: 200 },
  );
}

interface Play {
  readonly mistakes: readonly Mistake[];
  /** Undone before anything comes to rest. */
  readonly isQuick: boolean;
  readonly pauseMs: number;
  readonly restarts: boolean;
}

function rollPlay(world: World, dice: Dice): Play {
  const mistakes = [mistake(world, dice)];
  if (dice.below(4) === 0) mistakes.push(mistake(world, dice));
  const isQuick = dice.below(4) === 0;
  const pauseMs = dice.below(300);
  return { mistakes, isQuick, pauseMs, restarts: dice.below(10) === 0 };
}

const titleOf = ({ mistakes, isQuick, restarts }: Play): string =>
  `${mistakes.map(({ title }) => title).join(" + ")}${isQuick ? ", undone at once" : ""}${restarts ? ", with a restart" : ""}`;

/** What is wrong with the operator as a process. */
async function expectAlive(world: World, { mistakes }: Play): Promise<void> {
  const over = await Promise.race([
    world.operator.exit,
    new Promise<undefined>((done) => setImmediate(done, undefined)),
  ]);
  if (over === undefined) return;
  const mayEnd = mistakes.some(({ ends }) => ends);
  if (!mayEnd || over.signal !== null)
    throw new Error(`it ended with ${JSON.stringify(over)}:\n${world.operator.log().slice(-3000)}`);
  await world.restart();
}

async function play(world: World, truth: Overview, turn: Play): Promise<void> {
  const { mistakes, isQuick, pauseMs, restarts } = turn;
  const before = world.operator;
  const from = before.lines.length;
  const runs = world.pageState.helmRuns().length;
  for (const each of mistakes) await each.apply();
  const [only, other] = mistakes;
  if (!isQuick && other === undefined && only?.names) await expectMessage(world, from, only.names);
  await new Promise((done) => setTimeout(done, pauseMs));
  // Some mistakes leave a state that changes with each attempt.
  if (!isQuick) await settle(world, LONGEST_UNREST_MS).catch(() => {});
  await expectAlive(world, turn);
  if (restarts) await world.restart();
  for (const each of mistakes) await each.undo();
  await eventually(
    async () => {
      await expectAlive(world, turn);
      const wrong = differences(truth, await world.look());
      if (wrong.length > 0) throw new Error(wrong.join("\n"));
    },
    "the state before the mistake",
    {
      timeoutMs: 120_000,
      intervalMs: 250,
      // A restart begins the log again.
      context: () =>
        world.operator.lines
          .slice(world.operator === before ? from : 0)
          .join("\n")
          .slice(-8000),
    },
  );
  const touched = mistakes.flatMap(({ touches = [] }) => touches);
  const removed = world.pageState
    .helmRuns()
    .slice(runs)
    .filter((run) => /^(uninstall|delete) /.test(run));
  expect(removed.filter((run) => !touched.includes(run.split(" ")[1] ?? ""))).toEqual([]);
  const { uids } = await world.look();
  const gone = Object.keys(uids).filter((name) => uids[name] !== truth.uids[name] && !touched.includes(name));
  expect(gone, "objects that were deleted and created again").toEqual([]);
}

test(
  "mistakes of people are refused or survived, and undone without a trace",
  { timeout: 7_200_000 },
  async () => {
    const dice = diceOf(random(SEED));
    const faults: string[] = [];
    let world = await openWorld();
    await isReady(world);
    let truth = await settle(world);
    await remember(world);
    for (let index = 0; index < COUNT; index++) {
      const turn = rollPlay(world, dice);
      const begin = performance.now();
      try {
        await play(world, truth, turn);
      } catch (error) {
        faults.push(`${index}: ${titleOf(turn)}\n${error instanceof Error ? error.message : String(error)}`);
        await world.operator.kill9();
        world = await openWorld();
        await isReady(world);
        truth = await settle(world);
        await remember(world);
      }
      truth = { ...truth, uids: (await world.look()).uids };
      const fault = faults.at(-1)?.startsWith(`${index}:`) ? `FAULT ${faults.at(-1)}\n` : "";
      if (FILE)
        appendFileSync(
          FILE,
          `${index} ${Math.round(performance.now() - begin)} ms ${titleOf(turn)}\n${fault}`,
        );
    }
    console.log(`${COUNT} mistakes of people with the seed ${SEED}, ${faults.length} faults`);
    expect(faults.join("\n\n")).toBe("");
  },
);
