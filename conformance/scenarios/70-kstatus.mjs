// The health of objects by the rules of kstatus, as the resource AddonModule shows it: each row of vectors/kstatus.json is an object of a chart.
import { equal, ok } from "node:assert/strict";
import { readFileSync } from "node:fs";

const rows = JSON.parse(readFileSync(new URL("../vectors/kstatus.json", import.meta.url), "utf8"));
/** An AddonModule lists up to 20 objects that are not Current. */
const ROWS_OF_A_MODULE = 15;
const idOf = (index) => `object-${String(index + 1).padStart(2, "0")}`;
const moduleOf = (index) => `health${Math.floor(index / ROWS_OF_A_MODULE)}`;

function crd(group) {
  const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `things.${group}` },
    spec: {
      group,
      names: { kind: "Thing", plural: "things", singular: "thing" },
      scope: "Namespaced",
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          subresources: { status: {} },
        },
      ],
    },
  };
}

/** The object of a row. Its status is written afterwards, as a controller does. */
function objectOf({ apiVersion = "GROUP/v1", kind = "Thing", spec, finalizers }, index, group) {
  const metadata = { name: idOf(index), ...(finalizers && { finalizers }) };
  return { apiVersion: apiVersion.replace("GROUP", group), kind, metadata, ...(spec && { spec }) };
}

export default {
  name: "kstatus",
  cases: Object.fromEntries(
    rows.map(({ rule, status }, index) => [
      idOf(index),
      { source: "kstatus", statement: `${rule}: ${status}.` },
    ]),
  ),
  async run(world, check) {
    const group = `${world.namespace}.example.com`;
    const objects = rows.map((row, index) => objectOf(row, index, group));
    const modules = [...new Set(rows.map((_, index) => moduleOf(index)))];
    const flags = modules.map((name) => `${name}Enabled: true\n`);
    world.write("modules/values.yaml", flags.join(""));
    for (const name of modules) world.chart(`010-${name}`);
    objects.forEach((object, index) =>
      world.write(
        `modules/010-${moduleOf(index)}/templates/${object.metadata.name}.yaml`,
        JSON.stringify(object),
      ),
    );
    await world.prepare({});
    await world.apply(crd(group));
    const isServed = () => world.kubectl(["get", `things.${group}`]);
    await world.until(isServed, "the kind is served");
    await world.start();
    await world.waitReady();
    try {
      for (const [index, row] of rows.entries()) await play(world, { row, object: objects[index], group });
      await checkRows(world, check);
    } finally {
      const clean = JSON.stringify({ metadata: { finalizers: null } });
      for (const { metadata } of objects.filter(({ metadata: { finalizers } }) => finalizers))
        await world
          .kubectl(["patch", `things.${group}`, metadata.name, "--type=merge", "-p", clean])
          .catch(() => {});
      await world.stop();
      await world.kubectl(["delete", "crd", `things.${group}`, "--wait=false"]);
    }
  },
};

/** Does with an object what a controller, or a person, has done with it in its row. */
async function play(world, { row, object, group }) {
  const kind = object.kind === "Thing" ? `things.${group}` : object.kind.toLowerCase();
  const { name } = object.metadata;
  const patch = JSON.stringify({ status: row.liveStatus });
  if (row.liveStatus)
    await world.kubectl(["patch", kind, name, "--subresource=status", "--type=merge", "-p", patch]);
  if (row.isDeleted) await world.kubectl(["delete", kind, name, "--wait=false"]);
}

async function checkRows(world, check) {
  const health = async (index) => {
    const { status } = await world.get("addonmodule", moduleOf(index));
    ok(status.objects.total > 0 && status.objects.unknown === 0, JSON.stringify(status.objects));
    const found = status.health?.find(({ object }) => object.endsWith(`/${idOf(index)}`));
    return found?.status ?? "Current";
  };
  for (const [index, { status }] of rows.entries())
    await check(idOf(index), () =>
      world.until(async () => equal(await health(index), status) ?? true, status),
    );
}
