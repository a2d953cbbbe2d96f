// OpenAPI schemas: defaults, x-extend, x-required-for-helm, and what happens with values that do not fit.
import { deepEqual, equal, ok } from "node:assert/strict";

const VALIDATION = "VALUES, Validation";

const CONFIG_SCHEMA = `
type: object
required: [host]
properties:
  host: {type: string}
  port: {type: integer, minimum: 1, default: 80}
  tags: {type: array, items: {type: string}}
  nested: {type: object, default: {}, properties: {colour: {type: string, default: red}}}
`;
const VALUES_SCHEMA = `
x-extend: {schema: config-values.yaml}
type: object
x-required-for-helm: [found]
properties:
  found: {type: string}
  inside: {type: object, default: {}, properties: {mode: {type: string, default: fast}}}
`;

function prepareFiles(world) {
  world.write("modules/values.yaml", "sEnabled: true\n");
  world.write("modules/010-s/openapi/config-values.yaml", CONFIG_SCHEMA);
  world.write("modules/010-s/openapi/values.yaml", VALUES_SCHEMA);
  world.write("modules/010-s/values.yaml", "s: {host: file.example.com}\n");
  const template =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata: {values: {{ .Values.s | toJson | quote }}}\n";
  world.chart("010-s", { templates: { "cm.yaml": template } });
  world.hook("modules/010-s/hooks/find.sh", {
    name: "find",
    config: { configVersion: "v1", beforeHelm: 2 },
    body: `[ ! -e "$GATES/find" ] || echo '{"op": "add", "path": "/s/found", "value": "it"}' >"$VALUES_JSON_PATCH_PATH"`,
  });
  // Writes a number where the schema wants a text, until the gate opens.
  world.hook("modules/010-s/hooks/wrong.sh", {
    name: "wrong",
    config: { configVersion: "v1", beforeHelm: 1 },
    body: `[ -e "$GATES/wrong" ] || echo '{"op": "add", "path": "/s/found", "value": 5}' >"$VALUES_JSON_PATCH_PATH"`,
  });
}

export default {
  name: "schemas",
  cases: {
    defaults: {
      source: "VALUES, Defaults",
      statement: "Defaults of both schemas, also inside objects, are in the values.",
    },
    "config-defaults": {
      source: "VALUES, Defaults",
      statement: "The file's value wins over a default, and a missing key has the default.",
    },
    "patch-refused": {
      source: VALIDATION,
      statement:
        "A values patch that does not fit the schema fails its hook, and the hook is executed again.",
    },
    "required-for-helm": {
      source: "VALUES, Required fields",
      statement: "Helm waits until the fields of x-required-for-helm are there; hooks do not.",
    },
    extend: {
      source: "VALUES, Extending",
      statement: "With x-extend, values of the config schema are valid in the values schema.",
    },
    "edit-refused": {
      source: VALIDATION,
      statement: "An edit of the ConfigMap that does not fit the schema takes no effect.",
    },
    "unknown-refused": {
      source: VALIDATION,
      statement: "An undeclared key does not fit: additionalProperties is false by default.",
    },
    "edit-corrected": { source: VALIDATION, statement: "The corrected edit takes effect." },
    "start-refused": {
      source: VALIDATION,
      statement: "Values that do not fit at the start: the module is not installed with them.",
    },
  },
  async run(world, check) {
    prepareFiles(world);
    await world.prepare({});
    await world.start();
    const values = async () => {
      const text = (await world.get("configmap", "s"))?.data.values;
      return text === undefined ? undefined : JSON.parse(text);
    };
    await check("defaults", async () => {
      const [run] = await world.until(
        () => world.runs("wrong").length > 0 && world.runs("wrong"),
        "the first hook",
      );
      deepEqual([run.values.s.nested, run.values.s.inside], [{ colour: "red" }, { mode: "fast" }]);
    });
    await check("config-defaults", () => {
      const { s } = world.runs("wrong")[0].values;
      deepEqual([s.host, s.port], ["file.example.com", 80]);
    });
    await check("patch-refused", async () => {
      await world.until(() => world.runs("wrong").length > 1, "the hook again");
      equal(world.runs("wrong")[1].values.s.found, undefined);
      deepEqual(world.runs("find"), []);
      world.openGate("wrong");
    });
    await check("required-for-helm", async () => {
      await world.until(() => world.runs("find").length > 1, "the module's hooks again");
      equal(await values(), undefined);
      world.openGate("find");
      await world.until(async () => (await values())?.found === "it", "the release");
    });
    await world.waitReady();
    await check("extend", async () => {
      await world.editConfig({ s: "host: edited.example.com\n" });
      await world.until(
        async () => (await values()).host === "edited.example.com",
        "the chart has the value",
      );
    });
    const refused = async (section, marker) => {
      const before = world.runs("find").length;
      await world.editConfig({ s: section });
      // Another edit of another section is handled afterwards: what was before it was handled, too.
      await world.editConfig({ global: `marker: ${marker}\n` });
      await world.editConfig({ global: `marker: ${marker}\n`, s: "host: edited.example.com\n" });
      await world.until(
        () =>
          world
            .runs("find")
            .slice(before)
            .some((run) => run.values.global.marker === marker),
        "the other edit",
      );
      const seen = world
        .runs("find")
        .slice(before)
        .map((run) => run.values.s);
      ok(
        seen.every((each) => each.port === 80 && each.unknown === undefined),
        JSON.stringify(seen),
      );
    };
    await check("edit-refused", () => refused("host: edited.example.com\nport: none\n", "first"));
    await check("unknown-refused", () => refused("host: edited.example.com\nunknown: 1\n", "second"));
    await check("edit-corrected", async () => {
      await world.editConfig({ s: "host: edited.example.com\nport: 8080\n" });
      await world.until(async () => (await values()).port === 8080, "the chart has the value");
    });
    await world.stop();
    await world.editConfig({ s: "host: start.example.com\nport: none\n" });
    await world.start();
    await check("start-refused", async () => {
      const ended = world.exit.then(() => "ended");
      const corrected = world
        .editConfig({ s: "host: start.example.com\nport: none\nunknown: 2\n" })
        .then(() => "edited");
      await Promise.race([ended, corrected]);
      const { host, port } = await values();
      deepEqual([host, port], ["edited.example.com", 8080]);
    });
  },
};
