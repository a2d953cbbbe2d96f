// `go build` of what is missing, from the modules pinned in setup/go.
import { execFile } from "node:child_process";
import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { availableParallelism } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { say, step } from "./progress.mjs";
import { onPath } from "./tools.mjs";
import { versions } from "./versions.mjs";

const component = "k8s.io/component-base/version";
const [major, minor] = versions.kubernetes.split(".");
const kubernetes = `-X ${component}.gitVersion=v${versions.kubernetes} -X ${component}.gitMajor=${major} -X ${component}.gitMinor=${minor}`;

/**
 * One `go build` each, the longest first; the Kubernetes programs together, since they share most of their packages.
 * `minutes` is what it took on two cores with nothing compiled yet.
 */
const builds = [
  {
    module: "k8s",
    packages: Object.fromEntries(
      ["kube-apiserver", "kube-controller-manager", "kubectl"].map((name) => [
        name,
        `k8s.io/kubernetes/cmd/${name}`,
      ]),
    ),
    flags: kubernetes,
    minutes: 16,
  },
  {
    module: "helm4",
    packages: { helm: "helm.sh/helm/v4/cmd/helm" },
    flags: helmFlags("v4", versions.helm),
    minutes: 3,
  },
  {
    module: "helm3",
    packages: { helm3: "helm.sh/helm/v3/cmd/helm" },
    flags: helmFlags("v3", versions.helm3),
    minutes: 3,
  },
  { module: "etcd", packages: { etcd: "go.etcd.io/etcd/server/v3" }, flags: "", minutes: 1 },
];

function helmFlags(version, value) {
  return `-X helm.sh/helm/${version}/internal/version.version=v${value}`;
}

/** The `go` to use, or undefined. */
export function findGo(env) {
  return onPath("go", env) ?? onPath("go", { PATH: "/usr/local/go/bin:/opt/homebrew/bin:/usr/lib/go/bin" });
}

/** Builds the missing tools into `dir`; a list of messages for what failed. One build occupies two cores well. */
export async function build({ go, missing, dir, env }) {
  const plans = builds
    .map((plan) => ({ ...plan, wanted: Object.keys(plan.packages).filter((tool) => missing.includes(tool)) }))
    .filter(({ wanted }) => wanted.length > 0);
  const minutes = plans.reduce((sum, plan) => sum + plan.minutes, 0);
  say(`building ${missing.join(", ")} with Go, once: elsewhere it took ${minutes} minutes on two cores`);
  const failures = [];
  const worker = async () => {
    for (let plan = plans.shift(); plan; plan = plans.shift()) {
      const failure = await buildOne(plan, { go, dir, env: { ...env, CGO_ENABLED: "0", GOWORK: "off" } });
      if (failure) failures.push(failure);
    }
  };
  const workers = Math.max(1, Math.floor(availableParallelism() / 2));
  await Promise.all(Array.from({ length: workers }, worker));
  return failures;
}

/** Built under a temporary name on the same file system, so that an interrupted build leaves nothing that looks finished. */
async function buildOne({ module, packages, flags, minutes, wanted }, { go, dir, env }) {
  const work = mkdtempSync(join(dir, ".build-"));
  const paths = wanted.map((tool) => packages[tool]);
  const output = paths.length === 1 ? join(work, wanted[0]) : `${work}/`;
  const cwd = fileURLToPath(new URL(`go/${module}`, import.meta.url));
  const args = ["build", "-v", "-trimpath", "-ldflags", `-s -w ${flags}`.trim(), "-o", output, ...paths];
  const progress = countdown(await packagesOf(go, paths, { cwd, env }), minutes);
  try {
    const label = `go build ${wanted.join(", ")}`;
    const result = await step(label, go, { args, cwd, env, ...progress });
    if (!result.ok) return `${label} failed:\n${result.output.trim().split("\n").slice(-15).join("\n")}`;
    for (const tool of wanted)
      renameSync(paths.length === 1 ? output : join(work, basename(packages[tool])), join(dir, tool));
    return undefined;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** How many packages a build takes; 0 when Go cannot tell. */
function packagesOf(go, paths, { cwd, env }) {
  return new Promise((done) => {
    const options = { cwd, env, maxBuffer: 1e8 };
    execFile(go, ["list", "-deps", ...paths], options, (error, stdout) =>
      done(error ? 0 : stdout.trim().split("\n").length),
    );
  });
}

/** `{ onText, detail }` for a step that prints a line for each package: how far it is, and how much is left. */
export function countdown(total, minutes, now = Date.now) {
  const from = now();
  let built = 0;
  return {
    onText: (text) => (built += text.split("\n").length - 1),
    detail: () => {
      const spent = (now() - from) / 60_000;
      // At first all time goes into fetching modules: then only what it took elsewhere tells anything.
      const left = built > total / 20 ? (spent * (total - built)) / built : minutes - spent;
      return `${built} of ${total} packages, about ${Math.max(1, Math.ceil(left))} min left (${minutes} min elsewhere)`;
    },
  };
}
