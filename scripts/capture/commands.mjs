// The commands whose output docs/reference/status.md displays, and the states in which they run.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../eventually.mjs";
import { sameEachTime } from "./same.mjs";

export const namespace = "addon-operator";

/** Each block of the page by its name, with the command that fills it. */
export const commands = {
  get: "get addonmodules",
  wide: "get addonmodules -o wide",
  operators: "get addonoperators -o wide",
  describe: "describe addonmodule priority-classes",
  explain: "explain addonmodule.status",
};

/** A module whose hook fails, last of all, so that it holds up nobody; returns its modules directory. */
export function writeBroken(dir) {
  const hooks = join(dir, "modules", "900-issuer", "hooks");
  mkdirSync(hooks, { recursive: true });
  writeFileSync(join(dir, "modules", "values.yaml"), "issuerEnabled: true\n");
  const config = '{"configVersion": "v1", "beforeHelm": 1}';
  const script = `#!/bin/sh\nif [ "$1" = --config ]; then echo '${config}'; exit 0; fi\necho "no issuer found" >&2\nexit 1\n`;
  writeFileSync(join(hooks, "certificate.sh"), script, { mode: 0o755 });
  return join(dir, "modules");
}

const settings = {
  issuerEnabled: null,
  namespaceCensusEnabled: "false",
  guardRailsMaintenance: "NoResourceReconciliation",
};
const displayed = {
  "priority-classes": "Ready",
  "internal-ca": "Ready",
  "trust-bundle": "Ready",
  "guard-rails": "Suspended",
  "namespace-census": "Disabled",
  issuer: "Retrying",
};

/** Creates the namespace and, in it, a ConfigMap that leaves out the failing module: the first converge ends, and objects are watched from then on. */
export async function createFirst(kubectl) {
  await kubectl(["create", "namespace", namespace]);
  const data = "--from-literal=issuerEnabled=false";
  await kubectl(["create", "configmap", "addon-operator", "-n", namespace, data]);
}

/** Brings the modules into different states and runs all commands; `kubectl` takes arguments and resolves to stdout. */
export async function captureAll(kubectl) {
  const own = (...args) => kubectl([...args, "-n", namespace]);
  const wait = (name, state) =>
    own("wait", `--for=jsonpath={.status.state}=${state}`, `amod/${name}`, "--timeout=60s");
  // The operator brings its CRDs itself.
  await eventually(() => own("get", "amod", "issuer"), "the AddonModule issuer");
  await own("wait", "--for=condition=Healthy", "amod/priority-classes", "--timeout=60s");
  await own("patch", "configmap", "addon-operator", "--type=merge", "-p", JSON.stringify({ data: settings }));
  for (const [name, state] of Object.entries(displayed)) await wait(name, state);
  await own("wait", "--for=jsonpath={.status.converge.progress}=4/5", "aop/addon-operator", "--timeout=60s");
  const blocks = {};
  for (const [name, command] of Object.entries(commands)) {
    const output = await own(...command.split(" "));
    blocks[name] = `$ kubectl ${command}\n${sameEachTime(name, output)}`;
  }
  return blocks;
}
