// Values that a hook writes: which of them its module's schema, and the rules of patches, refuse. Each row is one values patch.
import { deepEqual, equal, ok } from "node:assert/strict";
import { readFileSync } from "node:fs";

const read = (name) => JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), "utf8"));
const HOOKS = 5;
const idOf = (prefix, index) => `${prefix}-${String(index + 1).padStart(2, "0")}`;

/**
 * Writes hooks that play the rows, one row a run. A failure is allowed, so that the next run comes at once; the values that
 * the next run receives tell whether the patch was accepted. Resolves to the values after all rows.
 */
async function playRows(world, patches) {
  for (let own = 0; own < HOOKS; own++) {
    const lines = patches.flatMap((patch, index) =>
      index % HOOKS === own
        ? [`${Math.floor(index / HOOKS)}) cat >"$VALUES_JSON_PATCH_PATH" <<'PATCH'\n${patch}\nPATCH\n;;`]
        : [],
    );
    const counter = `${world.dir}/tried-${own}`;
    world.write(`tried-${own}`, "-1");
    const schedule = [{ name: "tick", crontab: "* * * * * *", allowFailure: true, queue: `rows-${own}` }];
    world.hook(`modules/010-s/hooks/rows-${own}.sh`, {
      name: `rows-${own}`,
      config: { configVersion: "v1", schedule },
      body: `n=$(($(cat '${counter}') + 1))\necho "$n" >'${counter}'\ncase "$n" in\n${lines.join("\n")}\nesac`,
    });
  }
  await world.prepare({});
  await world.start();
  await world.waitReady();
  const runs = Math.ceil(patches.length / HOOKS) + 1;
  const ends = [];
  for (let own = 0; own < HOOKS; own++)
    ends.push(await world.until(() => world.runs(`rows-${own}`)[runs], `the rows of hook ${own}`));
  return ends.map(({ values }) => values);
}

/** A row of the schema table: `schema` of the key, and a value that it accepts or refuses. */
const schemas = read("schemas");
const refusedPatches = read("refused-patches");

export default [
  {
    name: "schema-rules",
    cases: Object.fromEntries(
      schemas.map(({ rule, valid }, index) => [
        idOf("value", index),
        { source: "VALUES, Validation", statement: `${rule}: ${valid ? "accepted" : "refused"}.` },
      ]),
    ),
    async run(world, check) {
      const properties = Object.fromEntries(schemas.map(({ schema }, index) => [`r${index}`, schema]));
      world.write("modules/values.yaml", "sEnabled: true\n");
      world.write("modules/010-s/openapi/values.yaml", JSON.stringify({ type: "object", properties }));
      const ends = await playRows(
        world,
        schemas.map(({ value }, index) => JSON.stringify({ op: "add", path: `/s/r${index}`, value })),
      );
      for (const [index, { value, valid }] of schemas.entries())
        await check(idOf("value", index), () => {
          const found = ends[index % HOOKS].s?.[`r${index}`];
          if (valid) deepEqual(found, value);
          else equal(found, undefined, `the value ${JSON.stringify(found)} was accepted`);
        });
    },
  },
  {
    name: "refused-patches",
    cases: Object.fromEntries(
      refusedPatches.map(({ rule }, index) => [
        idOf("patch", index),
        { source: "VALUES, Update values", statement: `${rule}: the patch takes no effect.` },
      ]),
    ),
    async run(world, check) {
      world.write("modules/values.yaml", "sEnabled: true\nglobal: {g: 1}\ns: {a: 1, l: [1]}\n");
      const ends = await playRows(
        world,
        refusedPatches.map(({ patch }, index) => patch.replaceAll("KEY", `/s/p${index}`)),
      );
      for (const [index, { rule }] of refusedPatches.entries())
        await check(idOf("patch", index), () => {
          const { s, global } = ends[index % HOOKS];
          deepEqual([s.a, s.l, global.g], [1, [1], 1]);
          ok(!(`p${index}` in s) && !("x" in global), `${rule}: ${JSON.stringify([s, global])}`);
        });
    },
  },
];
