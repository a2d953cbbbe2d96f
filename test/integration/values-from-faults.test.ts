// Runs at night: faults.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "vitest";

import { cluster, eventually, freshNamespace } from "../support/cluster.ts";
import { installCrds } from "../support/crds.ts";
import { hookLab, type Lab } from "../support/hook-files.ts";
import { startOperator } from "../support/operator.ts";
import { condition, module, of } from "../support/requiring.ts";

// docs/reference/values.md, "Values from Secrets", over a real API server.

const { apply, kubectl, json } = cluster();

const secret = (namespace: string, data: Record<string, string>, name = "db"): object => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name, namespace },
  stringData: data,
});

const SCHEMA =
  "type: object\nproperties: {size: {type: integer}, password: {type: string, maxLength: 400}}\n";

function withSchema(lab: Lab, dir: string, addonYaml: string): void {
  module(lab, dir, addonYaml);
  lab.file(`modules/${dir}/openapi/config-values.yaml`, SCHEMA);
}

test(
  "content that cannot be used makes its module Invalid, with Secret, key and remedy, until it is corrected",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("values-from");
    const lab = hookLab("values-from");
    const source = (name: string, more = "") => `valuesFrom: [{kind: Secret, name: ${name}${more}}]\n`;
    withSchema(lab, "010-yaml", source("no-yaml"));
    withSchema(lab, "010-large", source("large", ", key: text, path: /password"));
    withSchema(lab, "010-place", source("place", ", key: text, path: /size"));
    withSchema(lab, "010-good", source("good"));
    await apply(
      secret(namespace, { "values.yaml": "password: [hidden-4711" }, "no-yaml"),
      secret(namespace, { text: "hidden-4711" }, "place"),
      secret(namespace, { "values.yaml": "{size: 1, password: hidden-4711}" }, "good"),
    );
    // Without an annotation of kubectl apply, which would be too long.
    const large = secret(namespace, { text: "hidden-4711".padEnd(1024 * 1024 - 100, "x") }, "large");
    await kubectl(["create", "-f", "-"], JSON.stringify(large));
    const args = ["--module-queues=own"];
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir, args });
    const context = operator.log;
    const is = (name: string, state: string) =>
      eventually(async () => (await of(namespace, name)).status?.state === state, `${name} is ${state}`, {
        context,
      });
    await is("good", "Ready");
    for (const name of ["yaml", "large", "place"]) await is(name, "Invalid");
    const said = async (name: string) => condition(namespace, name, "Ready");
    expect(await said("yaml")).toMatch(
      new RegExp(`Secret ${namespace}/no-yaml: values.yaml: has values of module yaml and is no valid YAML`),
    );
    expect(await said("large")).toMatch(
      /large: text: has values of module large and is larger than 512 KiB \(.+\)$/,
    );
    expect(await said("place")).toMatch(
      /place: text: its value does not fit the schema of module place: place\/size: .+\(.+\)$/,
    );

    await apply(secret(namespace, { "values.yaml": "size: 2" }, "no-yaml"));
    const short = secret(namespace, { text: "short-4711" }, "large");
    await kubectl(["replace", "-f", "-"], JSON.stringify(short));
    await is("yaml", "Ready");
    await is("large", "Ready");
    await apply(secret(namespace, { "values.yaml": "size: [hidden-4711" }, "good"));
    await eventually(
      async () => (await said("good")).includes("its last good content stays in force"),
      "it stays in force",
      { context },
    );
    const { data } = await json<{ data: { size: string } }>(["get", "configmap", "good", "-n", namespace]);
    expect(data.size).toBe("1");
    expect(operator.log()).not.toContain("hidden-4711");
  },
);

test(
  "a value from a Secret is not in status, Events, page, bundle, runs, plan, log, or errors of hooks",
  { timeout: 240_000 },
  async () => {
    await installCrds();
    const namespace = await freshNamespace("values-from");
    const lab = hookLab("values-from");
    const VALUE = "tr0ub4dor-and-3-more";
    const WORD = "midwinter";
    const LINES = Array.from({ length: 9 }, (_, index) => `line ${index} of a text in a Secret`).join("\n");
    const wrapped =
      Buffer.from(LINES)
        .toString("base64")
        .match(/.{1,76}/g) ?? [];
    const from = (key: string, path: string) => `{kind: Secret, name: db, key: ${key}, path: /${path}}`;
    module(
      lab,
      "010-web",
      `valuesFrom: [${from("text", "note")}, ${from("word", "word")}, ${from("lines", "lines")}]\n`,
    );
    lab.file(
      "modules/010-web/templates/map.yaml",
      `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {note: "{{ .Values.web.note }}"}
{{- if .Values.web.fail }}{{ fail (printf "no chart for %s" .Values.web.word) }}{{ end }}\n`,
    );
    lab.hook(
      "modules/010-web/hooks/look.sh",
      { configVersion: "v1", beforeHelm: 1 },
      `note=$(jq -r .web.note "$VALUES_PATH"); jq -c . "$CONFIG_VALUES_PATH" >"$RECORDS/config.json"
echo "it says $note"; echo '{"level":"error","msg":"it says '"$note"'"}'
word=$(jq -r .web.word "$VALUES_PATH"); echo "it says $word"; jq -j .web.lines "$VALUES_PATH" | base64 -w 76
[ -e "$RECORDS/go-good" ] || { echo "cannot use $note and $word" >&2; exit 1; }`,
    );
    await apply(secret(namespace, { text: VALUE, word: WORD, lines: LINES }));
    const args = ["--ui", "--status-values=redacted", "--log-level=debug"];
    const operator = await startOperator({ namespace, modulesDir: lab.modulesDir, args });
    const context = operator.log;
    const pages: string[] = [];
    const end = new AbortController();
    const { body } = await operator.until(
      () => fetch(`${operator.url}/ui/events`, { signal: end.signal }),
      "the page is there",
    );
    const decoder = new TextDecoder();
    void body
      ?.pipeTo(new WritableStream({ write: (chunk) => void pages.push(decoder.decode(chunk)) }))
      .catch(() => {});
    await eventually(
      async () => /cannot use/.test(await condition(namespace, "web", "Ready")),
      "the hook fails",
      { context },
    );
    const shown = [await condition(namespace, "web", "Ready")];
    lab.release("good");
    await eventually(async () => (await of(namespace, "web")).status?.state === "Ready", "it is Ready", {
      context,
    });
    const note = ["get", "configmap", "web", "-n", namespace, "-o", "jsonpath={.data.note}"];
    expect(await kubectl(note)).toBe(VALUE);
    expect(readFileSync(join(lab.dir, "records", "config.json"), "utf8")).not.toContain(VALUE);

    // Now helm quotes it, in a run and in a preview.
    const data = { web: "fail: true\n" };
    await apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: "addon-operator", namespace },
      data,
    });
    await eventually(
      async () => (await condition(namespace, "web", "Ready")).includes("no chart for <redacted:"),
      "helm fails",
      { context },
    );
    for (const command of [
      ["module", "diff", "web"],
      ["module", "why", "web"],
      ["status"],
      ["plan"],
      ["logs", "web"],
      ["raw", "/runs.json?lines=true"],
      ["raw", "/bundle.json"],
    ]) {
      const { stdout, stderr } = await operator.cli(command);
      shown.push(`${command.join(" ")}: ${stdout}${stderr}`);
    }
    shown.push(await kubectl(["get", "addonmodules,addonoperators,events", "-n", namespace, "-o", "json"]));
    shown.push((await operator.http("/metrics")).body, operator.log(), pages.join(""));
    end.abort();
    expect(pages.join("")).toContain("web");
    for (const text of shown)
      for (const secret of [VALUE, WORD, ...wrapped]) expect(text).not.toContain(secret);
    expect(shown.join("\n")).toContain("cannot use <redacted:");
  },
);
