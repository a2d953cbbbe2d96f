#!/usr/bin/env node
// Renders the chart into deploy/manifests, for kubectl and Kustomize. A test compares the files with a new rendering.
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { execaSync } from "execa";
import { tools } from "./setup/tools.mjs";
import { root } from "./setup/versions.mjs";

const chart = join(root, "charts", "addon-operator");
const target = join(root, "deploy", "manifests");

/**
 * The chart with its defaults, without what only helm needs, and without the AddonOperator: kubectl cannot apply it together
 * with its new CRD, and the operator creates it.
 */
export function renderDeploy() {
  const args = ["template", "addon-operator", chart, "-n", "addon-operator", "--kube-version", "1.34.0"];
  const options = { stripFinalNewline: false };
  const { stdout } = execaSync(
    tools(process.env, ["helm"]).helm,
    [...args, "--set", "tests.enabled=false,addonOperator.create=false"],
    options,
  );
  const plain = stdout.replace(/^ *(app\.kubernetes\.io\/managed-by: Helm|helm\.sh\/chart: .*)\n/gm, "");
  return `# Rendered from charts/addon-operator by scripts/render-deploy.mjs.\n${plain}`;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  writeFileSync(join(target, "addon-operator.yaml"), renderDeploy());
  for (const name of ["addonmodules.yaml", "addonoperators.yaml", "modulesources.yaml"])
    copyFileSync(join(root, "crds", name), join(target, name));
}
