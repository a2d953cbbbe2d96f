// What the demo shows with --tenants: modules of two teams, each of which may do only its own.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";
import { root } from "../setup/versions.mjs";
import { created, elapsed, expect, inNamespace, setKeys, settled, table } from "./steps.mjs";

const TEAMS = ["orders", "billing"];
export const tenantsModules = join(root, "examples", "tenants", "modules");

/** Makes what the modules need before the operator starts: namespaces, accounts, rights and Secrets. */
export async function prepareTenants({ cluster, say }) {
  for (const team of TEAMS) {
    const file = join(root, "examples", "tenants", "teams", `${team}.yaml`);
    await cluster.createNamespace(`team-${team}`);
    await cluster.kubectl(["create", "--validate=false", "-f", "-"], readFileSync(file, "utf8"));
  }
  say(
    "The namespaces team-orders and team-billing each contain a Secret, and a ServiceAccount that can write ConfigMaps and Secrets",
  );
}

/** `demo` is as the tour's. */
export async function tenants(demo) {
  await eachActsAsItsAccount(demo);
  await releasesAreApart(demo);
  await hooksReadTheirOwn(demo);
  await chartsStayAtHome(demo);
}

async function eachActsAsItsAccount(demo) {
  demo.step("Run two modules, each with the ServiceAccount of its team");
  await Promise.all(TEAMS.map((team) => created(demo, `addonmodule/${team}`, demo.namespace)));
  await settled(demo, TEAMS, { state: "Ready" });
  await table(demo);
  const path = "jsonpath={range .items[*]}{.metadata.name}: {.status.identity}{'\\n'}{end}";
  const identities = await inNamespace(demo, ["get", "addonmodules", "-o", path]);
  for (const team of TEAMS) expect(identities.includes(`team-${team}/deployer`), `${team} has an account`);
  demo.say(identities.trimEnd());
}

async function releasesAreApart(demo) {
  demo.step("Check that each release is in the namespace of its team, where the other team cannot read it");
  for (const team of TEAMS) {
    const other = TEAMS.find((each) => each !== team);
    const get = ["get", "secrets", "-l", "owner=helm", "-o", "name", "-n", `team-${team}`];
    const as = (who) => demo.cluster.kubectl([...get, `--as=system:serviceaccount:team-${who}:deployer`]);
    const own = await as(team);
    expect(own.includes(`sh.helm.release.v1.${team}.`), `the release of ${team} is in team-${team}`);
    demo.say(`The ServiceAccount of ${team} finds in team-${team}: ${own.trimEnd()}`);
    const refusal = await as(other).then(
      () => "",
      (error) => /Error from server.*/.exec(String(error))?.[0] ?? "",
    );
    expect(refusal.includes("forbidden"), `${other} may not read the release of ${team}`);
    demo.say(`The ServiceAccount of ${other} gets: ${refusal}`);
  }
  const left = await inNamespace(demo, ["get", "secrets", "-l", "owner=helm", "-o", "name"]);
  expect(left === "", "the operator's namespace has no release");
}

async function hooksReadTheirOwn(demo) {
  demo.step("Check which Secrets the hook of each module can read with kubectl");
  for (const team of TEAMS) {
    const get = ["get", "configmap", team, "-n", `team-${team}`, "-o", "jsonpath={.data}"];
    const read = JSON.parse(await demo.cluster.kubectl(get));
    for (const other of TEAMS)
      expect((read[other] === "yes") === (other === team), `${team} reads its own Secret`);
    demo.say(`Secrets that ${team} can read: ${JSON.stringify(read)}`);
  }
}

async function chartsStayAtHome(demo) {
  demo.step("Make the chart of orders write to the namespace of billing, which the API server refuses");
  const from = performance.now();
  await setKeys(demo, { orders: "namespace: team-billing\n" });
  const why = async () => {
    const path = 'jsonpath={.status.conditions[?(@.type=="Ready")].message}';
    const message = await inNamespace(demo, ["get", "addonmodule", "orders", "-o", path]);
    expect(
      /missing rule: grant ServiceAccount team-orders\/deployer: \w+ configmaps/.test(message),
      "the rule",
    );
    return message;
  };
  const message = await eventually(why, "the status names the missing rule");
  demo.say(`The message after ${elapsed(from)} is: ${message}`);
  await setKeys(demo, { orders: null });
  await settled(demo, ["orders"], { state: "Ready" });
  await table(demo);
}
