import { median, percentile } from "../bench.mjs";
import { notes, untilRecorded, wallClock, watchingHook } from "../hooks.mjs";

const SINGLE = 50;
const BURST = 500;
const ROUNDS = 10;
const PARALLEL = 20;

export default {
  name: "events",
  title: "object created until the hook's first line; 500 at once; a patch that echoes the event",
  async run(bench) {
    const rows = await single(bench);
    for (const reader of Object.keys(READERS)) rows.push(...(await bursts(bench, reader)));
    return [...rows, ...(await echo(bench))];
  },
};

async function single(bench) {
  const { dir, create, operator } = await watchingHook(bench, 'echo "$EPOCHREALTIME" >>"$NOTES/notes"');
  const times = [];
  for (let index = 0; index < SINGLE; index += 1) {
    const from = wallClock();
    await create(`single-${index}`);
    const lines = await untilRecorded(dir, index + 1);
    times.push(Number(lines[index].replace(",", ".")) * 1000 - from);
  }
  await operator.stop();
  return [
    { what: "create to first line: median", value: median(times), unit: "ms", target: 15 },
    { what: "create to first line: 95th percentile", value: percentile(times, 0.95), unit: "ms", target: 30 },
  ];
}

/** What a burst's hook does with its contexts; jq 1.6 takes 30 ms to start. */
const READERS = {
  "hook with jq": 'jq -r ".[].object.metadata.name" "$BINDING_CONTEXT_PATH" >>"$NOTES/notes"',
  "hook without jq": `grep -o '"name":"burst-[^"]*"' "$BINDING_CONTEXT_PATH" | sort -u >>"$NOTES/notes"`,
};

/** Bursts one after the other to one operator; the objects of each are deleted before the next begins. */
async function bursts(bench, reader) {
  const hook = await watchingHook(bench, READERS[reader]);
  const times = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    times.push(await burst(hook, round));
    await bench.quiet(hook.operator);
    await bench.api.send("DELETE", `${hook.path}?labelSelector=bench%3Dyes`);
    await bench.quiet(hook.operator);
  }
  const twice = notes(hook.dir).length - new Set(notes(hook.dir)).size;
  await hook.operator.stop();
  const what = `${BURST} at once, ${reader}: all handled after the last answer`;
  return [
    { what: `${what}: median of ${ROUNDS} rounds`, value: median(times), unit: "ms" },
    { what: `${what}: the worst round`, value: Math.max(...times), unit: "ms", target: 60 },
    { what: `${BURST} at once, ${reader}: handled twice`, value: twice, unit: "", target: 0 },
  ];
}

/** Resolves to the time from the last answer until all were handled. */
async function burst({ dir, create }, round) {
  let next = 0;
  const worker = async () => {
    while (next < BURST) await create(`burst-${round}-${(next += 1)}`);
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  const from = performance.now();
  await untilRecorded(dir, round * BURST);
  return performance.now() - from;
}

/** From the event, as a watch beside the operator's sees it, until the patched object is seen there. */
async function echo(bench) {
  const { api } = bench;
  const body = `jq -c '.[].object.metadata | {operation: "MergePatch", apiVersion: "v1", kind: "ConfigMap", namespace, name,
    mergePatch: {data: {echo: .name}}}' "$BINDING_CONTEXT_PATH" >"$KUBERNETES_PATCH_PATH"`;
  const { path, create, operator } = await watchingHook(bench, body);
  let watched = () => {};
  const end = await api.watch(path, ({ object }) => watched(object, performance.now()));
  const times = [];
  for (let index = 0; index < SINGLE; index += 1) {
    const name = `echo-${index}`;
    const took = new Promise((resolve) => {
      let from;
      watched = ({ metadata, data }, at) => {
        if (metadata.name !== name) return;
        from ??= at;
        if (data?.echo === name) resolve(at - from);
      };
    });
    await create(name);
    times.push(await took);
  }
  end();
  await operator.stop();
  return [
    { what: "object patch visible after the event: median", value: median(times), unit: "ms", target: 40 },
  ];
}
