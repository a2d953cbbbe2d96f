// API server and controller manager of any version of Kubernetes: from its release site, else built with Go.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { download } from "../setup/download.mjs";
import { countdown, findGo, packagesOf } from "../setup/gobuild.mjs";
import { lock } from "../setup/lock.mjs";
import { say, step } from "../setup/progress.mjs";
import { record, removeChanged } from "../setup/recorded.mjs";
import { isExecutable, tools, toolsEnv } from "../setup/tools.mjs";
import { cacheRoot, versions } from "../setup/versions.mjs";

export const serverTools = ["kube-apiserver", "kube-controller-manager"];
/** About what the build takes on two cores with nothing compiled yet. */
const MINUTES = 12;

/** The variables that name these two of that version to the tests; gets what is not in the cache. */
export async function serverEnv(version, env = process.env) {
  const paths = version === versions.kubernetes ? tools(env, serverTools) : await fetched(version, env);
  await Promise.all(serverTools.map((tool) => mustBe(paths[tool], version)));
  return toolsEnv(paths);
}

/** The versions of Kubernetes that the Go module proxy lists, such as `v1.38.0-beta.0`. */
export async function publishedVersions(env = process.env) {
  const go = findGo(env);
  if (!go) throw new Error("There is no Go on this machine to ask for the versions of Kubernetes.");
  const args = ["list", "-m", "-versions", "-json", "k8s.io/kubernetes"];
  const { stdout } = await execa(go, args, { cwd: tmpdir(), env, extendEnv: false });
  return JSON.parse(stdout).Versions;
}

/** Both by their paths. */
async function fetched(version, env) {
  const dir = join(cacheRoot(env), `kubernetes-${version}`);
  mkdirSync(dir, { recursive: true });
  const missing = () => serverTools.filter((tool) => !isExecutable(join(dir, tool)));
  const wait = (pid) => say(`another process (${pid}) is getting Kubernetes ${version}: waiting for it`);
  const release = await lock(join(cacheRoot(env), "setup.lock"), wait);
  try {
    await removeChanged(dir, serverTools);
    const asked = missing();
    const failures = asked.length > 0 ? await download(asked, dir, { env, files: filesOf(version) }) : [];
    if (missing().length > 0) failures.push(...(await build({ version, missing: missing(), dir, env })));
    if (missing().length > 0)
      throw new Error(
        [`Kubernetes ${version}: not to be had: ${missing().join(", ")}.`, ...failures].join("\n  "),
      );
    if (asked.length > 0) await record(dir, asked);
  } finally {
    release();
  }
  return Object.fromEntries(serverTools.map((tool) => [tool, join(dir, tool)]));
}

/** A file by that name may be of any version: of a build that went wrong, or copied there. */
export async function mustBe(path, version) {
  const { stdout } = await execa(path, ["--version"]);
  if (stdout.trim() === `Kubernetes v${version}`) return;
  throw new Error(
    `${path} says "${stdout.trim()}", not Kubernetes v${version}: delete it, or name another one, and run again`,
  );
}

function filesOf(version) {
  const [os, arch] = [process.platform, process.arch === "x64" ? "amd64" : process.arch];
  return serverTools.map((tool) => {
    const url = `https://dl.k8s.io/v${version}/bin/${os}/${arch}/${tool}`;
    return { tools: { [tool]: "" }, url, sums: `${url}.sha256`, checksum: undefined };
  });
}

/** `go build` in Kubernetes' own module, with the versions that it pins itself. Resolves to what went wrong. */
async function build({ version, missing, dir, env }) {
  const go = findGo(env);
  if (!go) return ["There is no Go on this machine to build it with."];
  const work = mkdtempSync(join(dir, ".build-"));
  try {
    say(`building ${missing.join(", ")} ${version} with Go, once: elsewhere it took ${MINUTES} minutes`);
    const goEnv = { ...env, CGO_ENABLED: "0", GOWORK: "off" };
    const source = await sourceOf(go, version, { env: goEnv, work });
    const options = { cwd: source, env: goEnv };
    const module = ["-mod=mod", `-modfile=${join(work, "go.mod")}`];
    const packages = missing.map((tool) => `./cmd/${tool}`);
    const args = ["build", "-v", "-trimpath", ...module, "-ldflags", flagsOf(version), "-o", `${work}/`];
    const progress = countdown(await packagesOf(go, [...module, ...packages], options), MINUTES);
    const label = `go build ${missing.join(", ")} ${version}`;
    const result = await step(label, go, { args: [...args, ...packages], ...options, ...progress });
    if (!result.ok) return [`${label} failed:\n${result.output.trim().split("\n").slice(-15).join("\n")}`];
    for (const tool of missing) renameSync(join(work, tool), join(dir, tool));
    return [];
  } catch (error) {
    return [`Kubernetes ${version} from the Go module proxy: ${error.stderr || error.message}`];
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function flagsOf(version) {
  const [major, minor] = version.split(".");
  const names = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const set = Object.entries(names).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  return ["-s", "-w", ...set].join(" ");
}

/** The directory of Kubernetes' module; `work` gets the go.mod that it is built with. */
async function sourceOf(go, version, { env, work }) {
  const { stdout } = await execa(go, ["mod", "download", "-json", `k8s.io/kubernetes@v${version}`], {
    env,
    extendEnv: false,
  });
  const { Dir: source } = JSON.parse(stdout);
  const { text, unused } = standAlone(readFileSync(join(source, "go.mod"), "utf8"), version);
  writeFileSync(join(work, "go.mod"), text.replaceAll("{work}", work));
  cpSync(join(source, "go.sum"), join(work, "go.sum"));
  for (const module of unused) {
    mkdirSync(join(work, module), { recursive: true });
    writeFileSync(join(work, module, "go.mod"), `module ${module}\n`);
  }
  return source;
}

/** Modules of its repository that none of its servers is made of; not every proxy has them. */
const UNUSED = /\/(sample-[a-z-]+|code-generator|kube-proxy)$/;

/**
 * Kubernetes' go.mod for outside of its repository: the modules that lie beside it there come as they are published,
 * and those that are not needed are empty ones below `{work}`.
 */
export function standAlone(text, version) {
  const published = version.replace(/^1\./, "v0.");
  const unused = [];
  const replaced = text.replaceAll(/(\S+) => \.\/staging\/src\/(\S+)/g, (_, module) => {
    if (!UNUSED.test(module)) return `${module} => ${module} ${published}`;
    unused.push(module);
    return `${module} => {work}/${module}`;
  });
  return { text: replaced, unused };
}
