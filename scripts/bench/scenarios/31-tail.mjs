import { setTimeout as sleep } from "node:timers/promises";
import { percentile } from "../bench.mjs";
import { timesOfEdits } from "../edits.mjs";
import { untilRecorded, wallClock, watchingHook } from "../hooks.mjs";
import { writeModules } from "../modules.mjs";

const PER_SECOND = 100;
const STEADY = 2_000;
const BURST = 500;
const PARALLEL = 20;
const EDITS = 100;

export default {
  name: "tail",
  title: `the slowest of many: ${PER_SECOND} events a second, ${BURST} objects at once, ${EDITS} edits`,
  async run(bench) {
    return [...(await steady(bench)), ...(await burst(bench)), ...(await edits(bench))];
  },
};

/** One line for each object: its name, and when the hook that got it began. Without other processes, whose starts take longer than the hook. */
const BODY = `now="$EPOCHREALTIME"
declare -A names
read -r text <"$BINDING_CONTEXT_PATH"
while [[ "$text" =~ \\"name\\":\\"(tail-[0-9]+)\\" ]]; do
  names["\${BASH_REMATCH[1]}"]=1
  text="\${text#*"\${BASH_REMATCH[0]}"}"
done
printf "%s $now\\n" "\${!names[@]}" >>"$NOTES/notes"`;

/** Creates an object each 10 ms, whether or not the former has been handled. */
async function steady(bench) {
  const hook = await watchingHook(bench, BODY);
  const created = new Map();
  const answers = [];
  const from = performance.now();
  for (let index = 0; index < STEADY; index += 1) {
    await sleep(Math.max(0, from + (index * 1000) / PER_SECOND - performance.now()));
    created.set(`tail-${index}`, wallClock());
    answers.push(hook.create(`tail-${index}`));
  }
  await Promise.all(answers);
  const delays = await begun(hook.dir, STEADY, (name, at) => at - created.get(name));
  await hook.operator.stop();
  return [
    {
      what: `${PER_SECOND} events a second: create to hook, median`,
      value: percentile(delays, 0.5),
      unit: "ms",
    },
    {
      what: `${PER_SECOND} events a second: create to hook, 99th percentile of ${STEADY}`,
      value: percentile(delays, 0.99),
      unit: "ms",
      target: 50,
    },
  ];
}

async function burst(bench) {
  const hook = await watchingHook(bench, BODY);
  let next = 0;
  const worker = async () => {
    while (next < BURST) await hook.create(`tail-${(next += 1)}`);
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  const last = wallClock();
  const starts = await begun(hook.dir, BURST, (_name, at) => at);
  await hook.operator.stop();
  const what = `${BURST} objects at once: last creation until the last hook begins`;
  return [{ what, value: Math.max(...starts) - last, unit: "ms", target: 40 }];
}

/** Resolves to `value(name, milliseconds of the wall clock)` of each of `count` lines. */
async function begun(dir, count, value) {
  const lines = await untilRecorded(dir, count);
  return lines.map((line) => {
    const [name, seconds] = line.split(" ");
    return value(name, Number(seconds.replace(",", ".")) * 1000);
  });
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
  return [{ what: `edit: 99th percentile of ${EDITS}`, value: percentile(times, 0.99), unit: "ms" }];
}
