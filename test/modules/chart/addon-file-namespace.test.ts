import { expect, test } from "vitest";

import { readTree } from "../../../src/modules/index.ts";
import { directories } from "../module-directories.ts";

// docs/guides/tenancy.md, "Give a module a namespace".

async function read(addonFile: string | undefined, namespaceTemplate?: string) {
  const on = await directories();
  await on.put("m/1-web/values.yaml", "webEnabled: true\n");
  if (addonFile !== undefined) await on.put("m/1-web/addon.yaml", addonFile);
  const accounts: (string | undefined)[] = [];
  const { modules } = await readTree({
    modulesDirs: [on.at("m")],
    globalHooksDir: undefined,
    unnumberedOrder: 1,
    strict: false,
    archives: on.archives,
    namespaceTemplate,
    findRefusal: ({ namespace }) => void accounts.push(namespace),
  });
  const [module] = modules;
  return { namespace: module?.namespace, problem: module?.problem, checked: accounts[0] };
}

const LONG = "x".repeat(63);

test.each([
  ["nothing", undefined, undefined, undefined],
  ["a template", undefined, "addon-{name}", "addon-web"],
  ["a template for all modules", undefined, "addons", "addons"],
  ["addon.yaml", "namespace: team-a\n", undefined, "team-a"],
  ["addon.yaml and a template", "namespace: team-a\n", "addon-{name}", "team-a"],
  ["a long addon.yaml", `namespace: ${LONG}\n`, undefined, LONG],
])(
  "by %s, the module is in a namespace, which the account is checked for",
  async (...[, file, template, expected]) => {
    const { namespace, problem, checked } = await read(file, template);
    expect([namespace, checked, problem]).toEqual([expected, expected, undefined]);
  },
);

test.each([
  ["Team", "namespace: Team\n"],
  ["-a", "namespace: -a\n"],
  ["a.b", "namespace: a.b\n"],
  ["one that is too long", `namespace: ${LONG}x\n`],
  ["a number", "namespace: 5\n"],
])("%s is no namespace", async (...[, file]) => {
  const { namespace, problem } = await read(file);
  expect([namespace, problem?.key]).toEqual([undefined, "namespace"]);
});

test("a namespace that a template makes too long is a problem of the module", async () => {
  const { problem } = await read(undefined, `${LONG}-{name}`);
  expect(problem).toMatchObject({
    key: "namespace",
    message: `would be ${LONG}-web by --module-namespace-template, which is longer than 63 characters`,
  });
});

test("an addon.yaml with another mistake names its namespace", async () => {
  const { namespace, problem } = await read("namespace: team-a\nunknown: 1\n");
  expect([namespace, problem?.key]).toEqual(["team-a", "unknown"]);
});
