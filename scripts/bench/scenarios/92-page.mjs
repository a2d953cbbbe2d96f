import { setTimeout as sleep } from "node:timers/promises";
import { chromiumFile, startChromium } from "../../../test/support/chromium.ts";
import { median } from "../bench.mjs";
import { tinyKey, tinyName, writeTiny } from "../tiny.mjs";

const MODULES = 1000;
const VISITS = 9;
const EDITS = 10;
/** After the first converge the garbage goes and the last labels are written. */
const SETTLE_MS = 10_000;
const IDLE_MS = 10_000;
/** Runs begin in different seconds, by which the page tells them apart. */
const APART_MS = 1500;

export default {
  name: "page",
  title: `the page with ${MODULES} modules: first paint, an update, and what it costs the operator`,
  long: true,
  async run(bench) {
    const program = chromiumFile();
    if (program === undefined) throw new Error("there is no Chromium: see TEST_CHROMIUM");
    const options = { namespace: await bench.namespace(), modulesDir: writeTiny(bench.dir(), MODULES) };
    // The first one leaves more garbage than two restarts differ by.
    await (await started(bench, options)).stop();
    const off = await started(bench, options);
    const without = await idle(bench, off);
    await off.stop();
    const operator = await started(bench, { ...options, args: ["--ui"] });
    const nobody = await idle(bench, operator);
    const browser = await startChromium(program);
    try {
      const paints = await firstPaints(browser, operator);
      const page = await opened(browser, operator);
      const updates = await timesOfUpdates(page, bench.api, options.namespace);
      const looking = await idle(bench, operator);
      await operator.stop();
      return [
        { what: `first paint: median of ${VISITS}`, value: median(paints), unit: "ms", target: 300 },
        { what: `first paint: worst of ${VISITS}`, value: Math.max(...paints), unit: "ms" },
        { what: `edit to the page: median of ${EDITS}`, value: median(updates), unit: "ms", target: 200 },
        { what: `edit to the page: worst of ${EDITS}`, value: Math.max(...updates), unit: "ms" },
        { what: "processor while nobody looks, without the page", value: without.share, unit: "%" },
        { what: "processor while nobody looks, with it", value: nobody.share, unit: "%", target: 1 },
        { what: "processor while one looks", value: looking.share, unit: "%" },
        { what: "resident without the page", value: without.resident, unit: "MB" },
        {
          what: "resident while nobody looks",
          value: nobody.resident,
          unit: "MB",
          target: without.resident + 3,
        },
        { what: "resident while one looks", value: looking.resident, unit: "MB" },
      ];
    } finally {
      await browser.close();
    }
  },
};

async function started(bench, options) {
  const { operator, readyMs } = await bench.start(options);
  await readyMs();
  await sleep(SETTLE_MS);
  return operator;
}

async function idle(bench, operator) {
  const before = bench.cpuMs(operator);
  await sleep(IDLE_MS);
  const share = Number(((100 * (bench.cpuMs(operator) - before)) / IDLE_MS).toFixed(2));
  return { share, resident: bench.memory(operator).resident };
}

/** In the page: the moment after the picture in which the first row displays another run than that. */
const DRAWN = `window.drawn = (before) => new Promise((resolve) => {
  const look = () => {
    const run = document.querySelector("tbody td[title*='Z: ']")?.title ?? before;
    if (run === before) requestAnimationFrame(look);
    else setTimeout(() => resolve({ run, sinceNavigation: performance.now(), at: Date.now() }));
  };
  look();
})`;

async function opened(browser, operator) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(DRAWN);
  await page.goto(`${operator.url}/ui/`);
  return page;
}

/** From the beginning of the navigation, each in a page of its own. */
async function firstPaints(browser, operator) {
  const times = [];
  for (let visit = 0; visit < VISITS; visit += 1) {
    const page = await opened(browser, operator);
    times.push((await page.evaluate("drawn()")).sinceNavigation);
    await page.close();
  }
  return times;
}

/** From the request that edits a section of the ConfigMap until the page displays the run. */
async function timesOfUpdates(page, api, namespace) {
  const path = `/api/v1/namespaces/${namespace}/configmaps/addon-operator`;
  await page.getByRole("searchbox").fill(tinyName(500));
  const times = [];
  for (let index = 0; index < EDITS; index += 1) {
    await sleep(APART_MS);
    const { run } = await page.evaluate("drawn()");
    const displayed = page.evaluate(`drawn(${JSON.stringify(run)})`);
    const from = Date.now();
    await api.send("PATCH", path, { data: { [tinyKey(500)]: `edit: ${index}` } });
    times.push((await displayed).at - from);
  }
  return times;
}
