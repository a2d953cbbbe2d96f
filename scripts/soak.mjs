// Disturbs an operator for hours and compares what it makes of the cluster with a model, about every minute.
//   npm run soak -- [--hours N | --minutes N] [--seed N]
// The bundle, a real control plane, and the real helm. In each round the seed chooses disturbances: edits, events, changed files,
// hooks that fail, outages, restarts. Then nothing more happens until the cluster is as the model says, for some minutes at most.
// After two fifths of the time restarts end, so that one life is long enough to show what grows.
// Each difference is printed at once with its round, and the tables at the end repeat all. The exit code is 1 after a difference or
// if a figure grows without bound. To repeat a run, pass its seed: the same steps come in the same order.
import { appendFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { bundle } from "./build.mjs";
import { random } from "../test/support/random.ts";
import { eventually } from "./eventually.mjs";
import { calm, diceOf, disturb, stir } from "./soak/disturb.mjs";
import { FIGURES, look, sample } from "./soak/look.mjs";
import { differences, expected, initialState, isRunning, LOCAL, ROLES } from "./soak/model.mjs";
import { intervals, round, table, trend } from "./soak/trend.mjs";
import { closeWorld, declareSource, end, openWorld, start } from "./soak/world.mjs";

/** In this time the operator must reach what was declared: the longest delay of a repeated repair is half of it. */
const DEADLINE_MS = 240_000;
const LOOK_MS = 1000;
/** In a row: a state that passes is not the one declared. */
const LOOKS = 3;
const PAUSE_MS = 7000;
const STEPS = [4, 7, 10, 24];
/** After that share of the time, one operator lives to the end. */
const RESTARTS = 0.4;
const FATAL_DIFFERENCES = 50;

function options() {
  const text = { type: "string" };
  const { values } = parseArgs({ options: { hours: text, minutes: text, seed: text } });
  const minutes = Number(values.minutes ?? Number(values.hours ?? 1) * 60);
  const seed = Number(values.seed ?? Date.now() % 1_000_000_000);
  if (!(minutes > 0) || !Number.isInteger(seed))
    throw new Error("--hours and --minutes are numbers above 0, --seed is a whole number");
  return { minutes, seed };
}

/** A run: what has been declared, and what has been found so far. */
class Soak {
  state = initialState();
  samples = [];
  found = [];
  counts = {};
  errors = {};
  comparisons = 0;
  slowest = 0;
  round = 0;
  step = 0;
  /** There was an API outage in this round. */
  hadOutage = false;
  #begin = performance.now();

  constructor({ minutes, seed }) {
    Object.assign(this, { minutes, seed, dice: diceOf(random(seed)) });
    this.logFile = join(tmpdir(), `soak-${seed}.log`);
    writeFileSync(this.logFile, "");
  }

  get minute() {
    return (performance.now() - this.#begin) / 60_000;
  }

  say(text) {
    const line = `${this.minute.toFixed(1).padStart(6)} min  ${text}`;
    console.log(line);
    appendFileSync(this.logFile, `== ${line}\n`);
  }

  hear(line) {
    appendFileSync(this.logFile, `${line}\n`);
    if (!line.startsWith("{") || !line.includes('"level":"error"')) return;
    const { msg = line } = JSON.parse(line);
    const kind = msg
      .replaceAll(/(bench|fed)-\w+/g, "MODULE")
      .replaceAll(/\d+/g, "N")
      .slice(0, 100);
    this.errors[kind] = (this.errors[kind] ?? 0) + 1;
  }

  differ(text) {
    this.found.push(`${this.minute.toFixed(1)} min, round ${this.round}, step ${this.step}: ${text}`);
    this.say(`DIFFERENCE (seed ${this.seed}, round ${this.round}, step ${this.step}): ${text}`);
  }

  count(name) {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }

  /**
   * An operator that has ended by itself starts again, as the kubelet does it. In an outage, it loses the Lease or cannot start; on a busy
   * machine, its watchdog kills it before it has stopped.
   */
  async revive(world) {
    const { unexpected: exit, operator } = world;
    if (exit === undefined) return;
    const { code, signal } = exit;
    const endsInOutage =
      code === 0 || code === 1 || (signal === "SIGKILL" && operator.log().includes("The lease is lost"));
    if (this.hadOutage && endsInOutage) this.count(`exit with ${code ?? signal} in an outage`);
    else this.differ(`the operator ended with ${JSON.stringify(exit)}: ${operator.log().slice(-1000)}`);
    await operator.stop();
    await start(world, "main");
  }
}

async function disturbances(soak, world) {
  const steps = soak.dice.pick(STEPS);
  // The operator may have ended after the comparison, because of an outage in the last round.
  await soak.revive(world);
  soak.hadOutage = false;
  await stir(world);
  for (let index = 0; index < steps; index += 1) {
    soak.step += 1;
    const { state, dice, step } = soak;
    const name = await disturb({ world, state, dice, step });
    soak.count(name);
    soak.hadOutage ||= world.outage !== undefined;
    appendFileSync(soak.logFile, `== step ${step}: ${name}\n`);
    await sleep(dice.roll() * PAUSE_MS);
    await soak.revive(world);
  }
}

/** Waits until the operator has nothing to do and the cluster is as declared; records what differs after the deadline. */
async function compare(soak, world) {
  const from = performance.now();
  const tickIsDue = isRunning(soak.state.modules[LOCAL[ROLES.broken - 1]]);
  let [last, looks] = [[], 0];
  const agrees = async () => {
    await soak.revive(world);
    last = ["no answer"];
    const found = await look(world);
    last = differences(expected(soak.state), tickIsDue ? found : { ...found, tickAge: 0 });
    const { body } = await world.operator.http("/queue?output=json");
    const { totalTasks } = JSON.parse(body).summary;
    if (totalTasks > 0) last.push(`${totalTasks} tasks in queues`);
    looks = last.length === 0 ? looks + 1 : 0;
    return looks === LOOKS;
  };
  const options = { timeoutMs: DEADLINE_MS, intervalMs: LOOK_MS };
  await eventually(agrees, "the declared state", options).catch((error) => {
    if (last.length === 1 && last[0] === "no answer") last = [error.message];
  });
  soak.comparisons += 1;
  const seconds = (performance.now() - from) / 1000;
  soak.slowest = Math.max(soak.slowest, seconds);
  for (const each of last) soak.differ(each);
  return seconds;
}

/** Begins the life that has a trend. */
async function settle(world) {
  world.isPatient = true;
  await end(world, "SIGTERM");
  await start(world, "own");
}

async function rounds(soak, world) {
  while (soak.minute < soak.minutes && soak.found.length < FATAL_DIFFERENCES) {
    soak.round += 1;
    if (!world.isPatient && soak.minute > soak.minutes * RESTARTS) await settle(world);
    await disturbances(soak, world);
    await calm(world);
    const seconds = await compare(soak, world);
    world.proxy.seen.length = 0;
    world.registry.calls.length = 0;
    const taken = { minute: soak.minute, ...(await sample(world)) };
    soak.samples.push(taken);
    const figures = Object.entries(FIGURES).map(([name, { title }]) => `${round(taken[name])} ${title}`);
    soak.say(`round ${soak.round}: as declared after ${seconds.toFixed(0)} s; ${figures.join(", ")}`);
  }
}

/** The tables; returns whether all is well. */
function report(soak) {
  const names = Object.keys(FIGURES);
  const heads = names.map((name) => FIGURES[name].title);
  const print = (title, rows) => console.log(["", title, "", ...table(rows)].join("\n"));
  const byCount = (counts) =>
    Object.entries(counts)
      .toSorted((a, b) => b[1] - a[1])
      .map(([name, count]) => [name, String(count)]);
  print("Median (most) of each ten minutes", [
    ["minutes", "samples", ...heads],
    ...intervals(soak.samples, names),
  ]);
  const trends = names.map((name) => [name, trend(soak.samples, name, FIGURES[name].least)]);
  const cells = ([name, line]) =>
    line === undefined
      ? [FIGURES[name].title, "too few samples", "", "", ""]
      : [
          FIGURES[name].title,
          ...[line.slope, line.error, line.minutes].map((value) => String(round(value))),
          line.grows ? "GROWS" : "ok",
        ];
  print("Trend in the longest life, without its first third", [
    ["figure", "an hour", "error", "minutes", ""],
    ...trends.map(cells),
  ]);
  print("Disturbances", [["kind", "number"], ...byCount(soak.counts)]);
  print("Errors in the log", [["message", "number"], ...byCount(soak.errors).slice(0, 20)]);
  const { comparisons, slowest, found, seed, step } = soak;
  console.log(
    `\nSeed ${seed}: ${step} steps, ${comparisons} comparisons, as declared after ${slowest.toFixed(0)} s at most, ${found.length} differences`,
  );
  for (const each of found) console.log(`- ${each}`);
  return found.length === 0 && comparisons > 0 && trends.every(([, line]) => !line?.grows);
}

async function main() {
  const soak = new Soak(options());
  await bundle();
  const world = await openWorld((line) => soak.hear(line));
  // The round ends, and the tables follow.
  const stop = () => void (soak.minutes = 0);
  process.once("SIGINT", stop).once("SIGTERM", stop);
  try {
    soak.say(`seed ${soak.seed}, ${soak.minutes} minutes, log in ${soak.logFile}`);
    await start(world, "own");
    await world.operator.waitReady();
    await declareSource(world);
    const seconds = await compare(soak, world);
    soak.say(`as declared after ${seconds.toFixed(0)} s`);
    await rounds(soak, world);
  } finally {
    await closeWorld(world);
  }
  if (!report(soak)) process.exitCode = 1;
}

await main();
