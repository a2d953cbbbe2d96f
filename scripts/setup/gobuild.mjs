// `go build` of what is missing, from the modules pinned in setup/go.
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { step } from "./progress.mjs";
import { onPath } from "./tools.mjs";
import { versions } from "./versions.mjs";

const component = "k8s.io/component-base/version";
const [major, minor] = versions.kubernetes.split(".");
const kubernetes = `-X ${component}.gitVersion=v${versions.kubernetes} -X ${component}.gitMajor=${major} -X ${component}.gitMinor=${minor}`;

/** One `go build` each; the Kubernetes programs together, since they share most of their packages. */
export const builds = [
  { module: "etcd", packages: { etcd: "go.etcd.io/etcd/server/v3" }, flags: "" },
  { module: "helm4", packages: { helm: "helm.sh/helm/v4/cmd/helm" }, flags: helmFlags("v4", versions.helm) },
  {
    module: "helm3",
    packages: { helm3: "helm.sh/helm/v3/cmd/helm" },
    flags: helmFlags("v3", versions.helm3),
  },
  {
    module: "k8s",
    packages: Object.fromEntries(
      ["kube-apiserver", "kube-controller-manager", "kubectl"].map((name) => [
        name,
        `k8s.io/kubernetes/cmd/${name}`,
      ]),
    ),
    flags: kubernetes,
  },
];

function helmFlags(major, version) {
  return `-X helm.sh/helm/${major}/internal/version.version=v${version}`;
}

/** The `go` to use, or undefined. */
export function findGo(env) {
  return onPath("go", env) ?? onPath("go", { PATH: "/usr/local/go/bin:/opt/homebrew/bin:/usr/lib/go/bin" });
}

/** Builds the missing tools into `dir`; a list of messages for what failed. */
export async function build({ go, missing, dir, env }) {
  const failures = [];
  for (const plan of builds) {
    const wanted = Object.keys(plan.packages).filter((tool) => missing.includes(tool));
    if (wanted.length === 0) continue;
    const failure = await buildOne(plan, { go, wanted, dir, env });
    if (failure) failures.push(failure);
  }
  return failures;
}

/** Built under a temporary name on the same file system, so that an interrupted build leaves nothing that looks finished. */
async function buildOne(plan, { go, wanted, dir, env }) {
  const work = mkdtempSync(join(dir, ".build-"));
  const packages = wanted.map((tool) => plan.packages[tool]);
  const output = packages.length === 1 ? join(work, wanted[0]) : `${work}/`;
  const cwd = fileURLToPath(new URL(`go/${plan.module}`, import.meta.url));
  const args = ["build", "-trimpath", "-ldflags", `-s -w ${plan.flags}`.trim(), "-o", output, ...packages];
  try {
    const options = { args, cwd, env: { ...env, CGO_ENABLED: "0", GOWORK: "off" } };
    const result = await step(`go build ${wanted.join(", ")}`, go, options);
    if (!result.ok) return `go build ${wanted.join(", ")} failed:\n${result.output.trim()}`;
    for (const tool of wanted)
      renameSync(packages.length === 1 ? output : join(work, basename(plan.packages[tool])), join(dir, tool));
    return undefined;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
