// What the tours of the demo have in common: the first step, and how they look, edit and wait.
import { eventually } from "../eventually.mjs";

const MODULES = ["guard-rails", "internal-ca", "namespace-census", "priority-classes", "trust-bundle"];

export async function modulesAreInstalled(demo) {
  demo.step("Wait until the operator is ready and every module has run");
  const wait = ["wait", "--for=condition=Ready", "addonmodule", ...MODULES, "--timeout=30s"];
  // Their objects may come a moment after the operator is ready.
  demo.say((await eventually(() => inNamespace(demo, wait), "every module is Ready")).trimEnd());
  const classes = demo.cluster.kubectl(["get", "priorityclasses"]);
  const [modules, priorities] = await Promise.all([tableOf(demo), classes]);
  demo.say(`${modules}\n${priorities.trimEnd()}`);
}

/** Waits until an object is there: one kubectl that waits takes less than many that look. */
export const created = ({ cluster }, object, namespace = "default") =>
  cluster.kubectl(["wait", object, "--for=create", "--timeout=30s", "-n", namespace]);

/** Waits until the status of each of these AddonModules has these values. */
export function settled(demo, modules, values) {
  const waits = Object.entries(values).map(([path, value]) => {
    const wait = ["wait", "addonmodule", ...modules, `--for=jsonpath={.status.${path}}=${value}`];
    return inNamespace(demo, [...wait, "--timeout=30s"]);
  });
  return Promise.all(waits);
}

/** Patches keys of the ConfigMap. Prints `displayed` instead of the data, to keep private keys out of the output. */
export async function setKeys(demo, data, displayed = data) {
  const patch = ["patch", "configmap", demo.namespace, "--type=merge", "-p", JSON.stringify({ data })];
  demo.say(`kubectl ${patch.slice(0, 3).join(" ")} … ${JSON.stringify(displayed)}`);
  await inNamespace(demo, patch);
}

const tableOf = async (demo) => (await inNamespace(demo, ["get", "addonmodules"])).trimEnd();
export const table = async (demo) => demo.say(await tableOf(demo));

export const inNamespace = ({ cluster, namespace }, args, input) =>
  cluster.kubectl([...args, "-n", namespace], input);
export const configMapOf = async (demo, name) =>
  JSON.parse(await inNamespace(demo, ["get", "configmap", name, "-o", "json"]));
export const elapsed = (from) => `${Math.round(performance.now() - from)} ms`;

export function expect(condition, what) {
  if (!condition) throw new Error(`expected: ${what}`);
}
