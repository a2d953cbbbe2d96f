// The steps of the demo with --requirements: it breaks one module on purpose, the others continue, and it repairs the module.
import { eventually } from "../eventually.mjs";
import {
  configMapOf,
  created,
  elapsed,
  expect,
  inNamespace,
  modulesAreInstalled,
  setKeys,
  settled,
  table,
} from "./steps.mjs";

/** `demo` is as the tour's. */
export async function requirements(demo) {
  await modulesAreInstalled(demo);
  const authority = await breakOne(demo);
  await explainWaits(demo);
  await repair(demo, authority);
  await blockRemoval(demo);
}

/** Returns the previous section of internal-ca. */
async function breakOne(demo) {
  demo.step("Break internal-ca, which trust-bundle requires, and edit other modules, which continue");
  const { data } = await configMapOf(demo, demo.namespace);
  await inNamespace(demo, ["patch", "secret", "internal-ca", "--type=merge", "-p", '{"immutable":true}']);
  demo.say("The Secret internal-ca is now immutable, and the edit requires a new certificate authority");
  const from = performance.now();
  await setKeys(demo, {
    internalCa: null,
    trustBundle: "extraCertificates: []\n",
    priorityClasses: "classes:\n  batch-low:\n    value: -10\n    description: Work that can wait\n",
  });
  await created(demo, "priorityclass/batch-low");
  demo.say(`The PriorityClass batch-low existed ${elapsed(from)} later`);
  await settled(demo, ["internal-ca"], { state: "Retrying" });
  await settled(demo, ["trust-bundle"], { requiresMet: "0/1" });
  await table(demo);
  return data.internalCa;
}

async function explainWaits(demo) {
  demo.step("Find the causes with module why and module graph");
  const why = async () => {
    const { stdout } = await demo.operator.cli(["module", "why", "trust-bundle"]);
    expect(/waits for internal-ca, which is not Ready/.test(stdout), "trust-bundle waits for internal-ca");
    expect(/internal-ca: .*immutable/s.test(stdout), "the explanation contains the error of internal-ca");
    return stdout;
  };
  const [reported, { stdout: graph }] = await Promise.all([
    eventually(why, "the output says which module trust-bundle waits for"),
    demo.operator.cli(["module", "graph"]),
  ]);
  demo.say(`addon-operator module why trust-bundle\n${reported.trimEnd()}`);
  demo.say(`addon-operator module graph\n${graph.trimEnd()}`);
}

async function repair(demo, internalCa) {
  demo.step("Repair internal-ca with the previous certificate authority");
  await setKeys(demo, { internalCa }, { internalCa: "…" });
  await settled(demo, ["internal-ca", "trust-bundle"], { state: "Ready" });
  await table(demo);
}

async function blockRemoval(demo) {
  demo.step("Disable internal-ca, which stays until you disable trust-bundle");
  await setKeys(demo, { internalCaEnabled: "false" });
  await settled(demo, ["internal-ca"], { state: "Pending" });
  const { stdout } = await demo.operator.cli(["module", "why", "internal-ca"]);
  expect(
    stdout.includes("disabled, but stays while trust-bundle requires it"),
    "the output says why internal-ca stays",
  );
  demo.say(`addon-operator module why internal-ca\n${stdout.trimEnd()}`);
  await setKeys(demo, { trustBundleEnabled: "false" });
  await settled(demo, ["internal-ca", "trust-bundle"], { state: "Disabled" });
  await table(demo);
}
