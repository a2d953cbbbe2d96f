import { setTimeout as sleep } from "node:timers/promises";
import { percentile } from "../bench.mjs";
import { timesOfEdits } from "../edits.mjs";
import { notes, wallClock, watchingHook } from "../hooks.mjs";
import { writeModules } from "../modules.mjs";

const PER_SECOND = 100;
const STEADY = 2_000;
const BURST = 500;
const PARALLEL = 20;
const EDITS = 50;

export default {
  name: "tail",
  title: `the slowest of many: ${PER_SECOND} events a second, ${BURST} objects at once, ${EDITS} edits`,
  async run(bench) {
    return [...(await steady(bench)), ...(await burst(bench)), ...(await edits(bench))];
  },
};

/** One line for each run: when it began, and its contexts as they are. It takes as long for each of many objects as for one. */
const BODY = `now="$EPOCHREALTIME"
mapfile -t contexts <"$BINDING_CONTEXT_PATH"
printf "%s %s\\n" "$now" "\${contexts[0]}" >>"$NOTES/notes"`;

/** Creates an object each 10 ms, whether or not the former has been handled. */
async function steady(bench) {
  const { hook, seen, end } = await watchedHook(bench);
  const created = new Map();
  const answers = [];
  const from = performance.now();
  for (let index = 0; index < STEADY; index += 1) {
    await sleep(Math.max(0, from + (index * 1000) / PER_SECOND - performance.now()));
    created.set(`tail-${index}`, wallClock());
    answers.push(hook.create(`tail-${index}`));
  }
  await Promise.all(answers);
  const starts = await begun(bench, hook.dir, STEADY);
  await end();
  const since = (times) => [...created].map(([name, at]) => times.get(name) - at);
  const what = `${PER_SECOND} events a second: create to`;
  return [
    { what: `${what} hook, median`, value: percentile(since(starts), 0.5), unit: "ms" },
    {
      what: `${what} hook, 99th percentile of ${STEADY}`,
      value: percentile(since(starts), 0.99),
      unit: "ms",
      target: 50,
    },
    { what: `${what} a bare watch, 99th percentile`, value: percentile(since(seen), 0.99), unit: "ms" },
  ];
}

async function burst(bench) {
  const { hook, seen, end } = await watchedHook(bench);
  let next = 0;
  const worker = async () => {
    while (next < BURST) await hook.create(`tail-${(next += 1)}`);
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  const last = wallClock();
  const starts = await begun(bench, hook.dir, BURST);
  await end();
  const since = (times) => Math.max(...times.values()) - last;
  const what = `${BURST} objects at once: last creation until`;
  return [
    { what: `${what} the last hook begins`, value: since(starts), unit: "ms", target: 40 },
    { what: `${what} a bare watch has all`, value: since(seen), unit: "ms" },
  ];
}

/** A hook as `watchingHook` starts it, and when a watch without an operator has seen each object: no hook can begin before. */
async function watchedHook(bench) {
  const hook = await watchingHook(bench, BODY);
  const seen = new Map();
  const endWatch = await bench.api.watch(hook.path, ({ object }) =>
    seen.set(object.metadata.name, wallClock()),
  );
  const end = async () => {
    endWatch();
    await hook.operator.stop();
  };
  return { hook, seen, end };
}

/** Resolves to the times at which the hook began with each of `count` objects, by name, in milliseconds of the wall clock. */
async function begun(bench, dir, count) {
  let starts;
  const check = () => {
    starts = new Map(notes(dir).flatMap(startsOf));
    return starts.size === count;
  };
  await bench.until(check, "the hook has got all objects");
  return starts;
}

/** The names of the objects in one line of the hook, each with the time of the line. */
function startsOf(line) {
  const [seconds] = line.split(" ", 1);
  const at = Number(seconds.replace(",", ".")) * 1000;
  return JSON.parse(line.slice(seconds.length)).map(({ object }) => [object.metadata.name, at]);
}

async function edits(bench) {
  const namespace = await bench.namespace();
  const { operator, readyMs } = await bench.start({ namespace, modulesDir: writeModules(bench.dir(), 20) });
  await readyMs();
  const path = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
  const times = await timesOfEdits(bench, { operator, namespace, count: EDITS }, (text) =>
    bench.api.send("PATCH", path, { data: { benchM010: `text: ${text}\n` } }),
  );
  await operator.stop();
  return [
    { what: "edit: median", value: percentile(times, 0.5), unit: "ms" },
    { what: `edit: worst of ${EDITS}`, value: Math.max(...times), unit: "ms" },
  ];
}
