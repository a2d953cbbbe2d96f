import { expect, it } from "vitest";

import { KnownSecrets } from "../../src/lib/index.ts";
import type { Module, Tree } from "../../src/model/index.ts";
import { learnSecrets, parseConfigMap, ValuesStore } from "../../src/values/index.ts";

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
    learnSecrets(store, secrets);
    expect(secrets.redact("of-f1les of-c0nfig of-gl0bals")).toMatch(/^(?:<redacted:\w+> ?){3}$/);
  }
});
