// Tables of jq filters, values patches and crontab lines, each row with the result that the Go libraries give.
import { deepEqual, ok } from "node:assert/strict";
import { readFileSync } from "node:fs";

const read = (name) => JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), "utf8"));
const { input: jqInput, filters } = read("jq");
const jq = filters.map(([filter, result]) => ({ filter, result }));
const patches = read("values-patches");
const crontabs = read("crontabs");

const title = (text) => text.replaceAll(/\s+/g, " ").slice(0, 80);
const casesOf = (prefix, rows, describe) =>
  Object.fromEntries(rows.map((row, i) => [`${prefix}-${String(i + 1).padStart(2, "0")}`, describe(row)]));

export default [
  {
    name: "jq",
    cases: casesOf("filter", jq, ({ filter, result }) => ({
      source: "hook contract, jq",
      statement: title(`${filter} gives ${JSON.stringify(result)}`),
    })),
    async run(world, check) {
      const kubernetes = jq.map(({ filter }, i) => ({
        name: `f${i}`,
        apiVersion: "v1",
        kind: "ConfigMap",
        namespace: { nameSelector: { matchNames: [world.namespace] } },
        nameSelector: { matchNames: ["input"] },
        jqFilter: `.data.input | fromjson | ${filter}`,
      }));
      world.hook("global-hooks/jq.sh", { name: "jq", config: { configVersion: "v1", kubernetes } });
      await world.prepare({});
      const data = { input: JSON.stringify(jqInput) };
      await world.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "input" }, data });
      await world.start();
      await world.waitReady();
      const contexts = world.runs("jq").flatMap((run) => run.contexts);
      for (const [i, { result }] of jq.entries())
        await check(`filter-${String(i + 1).padStart(2, "0")}`, () =>
          deepEqual(contexts.find(({ binding }) => binding === `f${i}`).objects[0].filterResult, result),
        );
    },
  },
  {
    name: "values-patches",
    cases: casesOf("patch", patches, ({ patch }) => ({
      source: "VALUES, Update values",
      statement: title(patch),
    })),
    async run(world, check) {
      // Each hook starts from an own key, so that the rows do not depend on each other.
      const initial = Object.fromEntries(patches.map(({ values }, i) => [`p${i}`, values]));
      world.write("modules/values.yaml", JSON.stringify({ global: initial }));
      patches.forEach(({ patch }, i) =>
        world.hook(`global-hooks/p${i}.sh`, {
          name: `p${i}`,
          config: { configVersion: "v1", onStartup: i + 1 },
          body: `cat >"$VALUES_JSON_PATCH_PATH" <<'PATCH'\n${patch.replaceAll("KEY", `/global/p${i}`)}\nPATCH`,
        }),
      );
      world.hook("global-hooks/last.sh", { name: "last", config: { configVersion: "v1", beforeAll: 1 } });
      await world.prepare({});
      await world.start();
      await world.waitReady();
      const { global } = world.runs("last")[0].values;
      for (const [i, { result }] of patches.entries())
        await check(`patch-${String(i + 1).padStart(2, "0")}`, () => deepEqual(global[`p${i}`], result));
    },
  },
  {
    name: "crontabs",
    cases: {
      ...casesOf("valid", crontabs.valid, (line) => ({
        source: "hook contract, crontab",
        statement: title(`"${line}" is valid`),
      })),
      ...casesOf("invalid", crontabs.invalid, (line) => ({
        source: "hook contract, crontab",
        statement: title(`"${line}" is refused`),
      })),
    },
    async run(world, check) {
      await world.prepare({});
      const hook = (schedule) =>
        world.hook("global-hooks/cron.sh", { name: "cron", config: { configVersion: "v1", schedule } });
      hook(crontabs.valid.map((crontab, i) => ({ name: `c${i}`, crontab })));
      await world.start();
      const outcome = await world.waitReady().then(
        () => true,
        (error) => error,
      );
      // One start tells of all lines: if it fails, the log names the line.
      for (const i of crontabs.valid.keys())
        await check(`valid-${String(i + 1).padStart(2, "0")}`, () => ok(outcome === true, String(outcome)));
      await world.stop();
      for (const [i, crontab] of crontabs.invalid.entries()) {
        hook([{ name: "c", crontab }]);
        await world.start();
        const ready = world
          .until(async () => (await world.http("/readyz")).status === 200, "ready")
          .then(
            () => "ready",
            () => "not ready",
          );
        const first = await Promise.race([ready, world.exit.then(() => "ended")]);
        await check(`invalid-${String(i + 1).padStart(2, "0")}`, () =>
          ok(first !== "ready", "the operator accepts the line"),
        );
        await world.stop();
      }
    },
  },
];
