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
const flags = Object.entries({
  [`${component}.gitVersion`]: `v${versions.kubernetes}`,
  [`${component}.gitMajor`]: major,
  [`${component}.gitMinor`]: minor,
  "helm.sh/helm/v4/internal/version.version": `v${versions.helm}`,
  "helm.sh/helm/v3/internal/version.version": `v${versions.helm3}`,
}).map(([name, value]) => `-X ${name}=${value}`);

const kubernetes = (name) => ({ [name]: `k8s.io/kubernetes/cmd/${name}` });

/**
 * One `go build` each, the longest first. All are of one module (`setup/go`), since they share half of their packages;
 * both helms would be named alike by one build. `minutes` is about what it takes on two cores with nothing compiled yet.
 */
const builds = [
  {
    packages: {
      ...kubernetes("kube-apiserver"),
      ...kubernetes("kube-controller-manager"),
      ...kubernetes("kubectl"),
      etcd: "go.etcd.io/etcd/server/v3",
      helm: "helm.sh/helm/v4/cmd/helm",
    },
    minutes: 8,
  },
  { packages: { helm3: "helm.sh/helm/v3/cmd/helm" }, minutes: 1 },
];

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
async function buildOne({ packages, minutes, wanted }, { go, dir, env }) {
  const work = mkdtempSync(join(dir, ".build-"));
  const paths = wanted.map((tool) => packages[tool]);
  const output = paths.length === 1 ? join(work, wanted[0]) : `${work}/`;
  const cwd = fileURLToPath(new URL("go", import.meta.url));
  const args = [
    "build",
    "-v",
    "-trimpath",
    "-ldflags",
    ["-s", "-w", ...flags].join(" "),
    "-o",
    output,
    ...paths,
  ];
  const progress = countdown(await packagesOf(go, paths, { cwd, env }), minutes);
  try {
    const label = `go build ${wanted.join(", ")}`;
    const result = await step(label, go, { args, cwd, env, ...progress });
    if (!result.ok) return `${label} failed:\n${result.output.trim().split("\n").slice(-15).join("\n")}`;
    for (const tool of wanted)
      renameSync(paths.length === 1 ? output : join(work, programOf(packages[tool])), join(dir, tool));
    return undefined;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The name that `go build` gives the program of a package: its last element that is no version. */
const programOf = (path) => basename(path.replace(/\/v\d+$/, ""));

/** How many packages a build takes; 0 if Go does not report it. `paths` may begin with flags. */
export function packagesOf(go, paths, { cwd, env }) {
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
      // At first Go only fetches modules, so the estimate is the time that the build took elsewhere.
      const left = built > total / 20 ? (spent * (total - built)) / built : minutes - spent;
      return `${built} of ${total} packages, about ${Math.max(1, Math.ceil(left))} min left (${minutes} min elsewhere)`;
    },
  };
}
