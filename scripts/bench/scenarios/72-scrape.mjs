import { request } from "node:http";
import { median } from "../bench.mjs";
import { shHook, writeTiny } from "../tiny.mjs";

const COUNT = 1000;
const SCRAPES = 20;
const FORMS = { "plain text": "text/plain", OpenMetrics: "application/openmetrics-text" };

export default {
  name: "scrape",
  title: `/metrics with ${COUNT} modules that have a hook each`,
  long: true,
  async run(bench) {
    const files = () => ({ "hooks/before.sh": shHook("beforeHelm", ":") });
    const modulesDir = writeTiny(bench.dir(), COUNT, files);
    const { operator, readyMs } = await bench.start({ namespace: await bench.namespace(), modulesDir });
    await readyMs();
    await bench.quiet(operator);
    const rows = [];
    for (const [form, accept] of Object.entries(FORMS))
      rows.push(...(await scrapes(bench, operator, { form, accept })));
    await operator.stop();
    return rows;
  },
};

async function scrapes(bench, operator, { form, accept }) {
  // The first one makes all texts.
  const first = await scrape(operator, accept);
  const before = bench.cpuMs(operator);
  const times = [];
  for (let index = 0; index < SCRAPES; index += 1) times.push((await scrape(operator, accept)).ms);
  const cpu = before === undefined ? undefined : (bench.cpuMs(operator) - before) / SCRAPES;
  return [
    { what: `${form}: size`, value: first.bytes / 1e6, unit: "MB" },
    { what: `${form}: median of ${SCRAPES}`, value: median(times), unit: "ms", target: 50 },
    { what: `${form}: worst of ${SCRAPES}`, value: Math.max(...times), unit: "ms" },
    { what: `${form}: processor time of each`, value: cpu, unit: "ms" },
  ];
}

/** Reads all of it, and makes nothing of it. */
function scrape({ url }, accept) {
  return new Promise((resolve, reject) => {
    const from = performance.now();
    const call = request(`${url}/metrics`, { agent: false, headers: { accept } }, (response) => {
      let bytes = 0;
      response.on("data", (chunk) => (bytes += chunk.length));
      response.on("end", () => resolve({ bytes, ms: performance.now() - from }));
    });
    call.once("error", reject).end();
  });
}
