// Runs the conformance suite: on a separate control plane unless --kubeconfig names a cluster, and for this operator unless
// --operator names another command.
//   npm run conformance -- [--operator 'COMMAND'] [--kubeconfig FILE] [--only NAME,…] [--report FILE] [--timeout SECONDS]
import { join } from "node:path";
import { execa } from "execa";
import { startCluster } from "./control-plane.mjs";
import { modernNode, tools } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const args = process.argv.slice(2);
const has = (flag) => args.some((arg) => arg === flag || arg.startsWith(`${flag}=`));
const node = modernNode();
const bin = tools(process.env, ["kubectl", "helm"]);

/** The built operator. No Pod ever runs on the separate control plane, so a module is ready when it is applied. */
async function ownOperator() {
  await execa(node, [join("scripts", "build.mjs")], { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
  return `'${node}' '${join(root, "dist", "main.js")}' start --ready=applied --helm-bin='${bin.helm}'`;
}

const operator = has("--operator") ? [] : [`--operator=${await ownOperator()}`];
const cluster = has("--kubeconfig") ? undefined : await startCluster();
try {
  // The chart of the operator brings them; without them, it writes no status.
  await cluster?.kubectl(["apply", "--server-side", "-f", join(root, "crds")]);
  const where = cluster === undefined ? [] : [`--kubeconfig=${cluster.kubeconfig}`];
  const suite = join(root, "conformance", "run.mjs");
  const { exitCode } = await execa(
    node,
    [suite, `--kubectl=${bin.kubectl}`, ...operator, ...where, ...args],
    {
      stdio: "inherit",
      reject: false,
    },
  );
  process.exitCode = exitCode ?? 1;
} finally {
  await cluster?.stop();
}
