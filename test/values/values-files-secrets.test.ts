import { expect, it } from "vitest";

import { KnownSecrets } from "../../src/base/index.ts";
import type { Module, Tree } from "../../src/base/model/index.ts";
import {
  registerSecrets,
  parseConfigMap,
  createSourceRedactor,
  ValuesStore,
} from "../../src/values/index.ts";

it("learns secrets of files, ConfigMap and globals by key and by schema, also again", () => {
  const web = {
    name: "web",
    valuesKey: "web",
    common: { file: "values.yaml" },
    own: { file: "web/values.yaml", section: { password: "of-f1les" } },
    schemas: {
      config: { file: "web.yaml", text: "{type: object, properties: {pin: {type: string, x-secret: true}}}" },
    },
  } as unknown as Module;
  const store = new ValuesStore();
  const globalValues = { token: "of-gl0bals" };
  store.setTree({ modules: [web], globalValues, globalSchemas: {} } as unknown as Tree);
  store.setConfig(parseConfigMap("ConfigMap x", { web: "pin: of-c0nfig" }, store.modules()), undefined);
  for (const secrets of [new KnownSecrets(), new KnownSecrets()]) {
    registerSecrets(store, secrets);
    expect(secrets.redact("of-f1les of-c0nfig of-gl0bals")).toMatch(/^(?:<redacted:\w+> ?){3}$/);
  }
});

it("hides plain words of Secrets in texts of the module that has them, and of all if they are global", () => {
  const source = (name: string) => [{ kind: "Secret", name }] as const;
  const module = (name: string) =>
    ({
      name,
      valuesKey: name,
      common: { file: "values.yaml" },
      own: { file: "values.yaml", enabled: true },
      schemas: {},
      valuesFrom: source(name),
    }) as unknown as Module;
  const store = new ValuesStore();
  store.setTree({ modules: [module("web"), module("db")], globalSchemas: {} } as unknown as Tree);
  store.setConfig(
    parseConfigMap("ConfigMap x", { globalValuesFrom: "[{kind: Secret, name: all}]" }, store.modules()),
    undefined,
  );
  const words = { web: "winter", db: "summer", all: "autumn" };
  for (const [name, word] of Object.entries(words))
    store.setSource(`Secret default/${name}`, { data: { "values.yaml": Buffer.from(`word: ${word}`) } });
  const text = "winter, summer, autumn";
  expect(createSourceRedactor(store, "web")(text)).toMatch(/^<redacted:\w+>, summer, <redacted:\w+>$/);
  expect(createSourceRedactor(store, "db")(text)).toMatch(/^winter, <redacted:\w+>, <redacted:\w+>$/);
  expect(createSourceRedactor(store, "other")(text)).toMatch(/^winter, summer, <redacted:\w+>$/);
});
