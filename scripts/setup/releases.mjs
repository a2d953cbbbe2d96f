// The files of the release sites: which tools each holds, its address, and its checksum.
import { readFileSync } from "node:fs";
import { versions } from "./versions.mjs";

/** Checksums (SHA-256 or SHA-512) by address, without `https://`. */
export const checksumsFile = new URL("checksums.json", import.meta.url);

const envtest = "https://github.com/kubernetes-sigs/controller-tools";
const kubernetes = "https://dl.k8s.io/v{kubernetes}/bin/{os}/{arch}";

/**
 * `tools` names the member of the tar.gz for each tool, or nothing when the file is the tool itself; `sums` is where
 * the same site publishes checksums. Of two files that serve as well the first one is taken.
 */
export const releases = [
  { tools: { kubectl: "" }, url: `${kubernetes}/kubectl`, sums: "{url}.sha256" },
  {
    tools: Object.fromEntries(
      ["etcd", "kube-apiserver", "kubectl"].map((tool) => [tool, `controller-tools/envtest/${tool}`]),
    ),
    url: `${envtest}/releases/download/envtest-v{kubernetes}/envtest-v{kubernetes}-{os}-{arch}.tar.gz`,
    sums: `${envtest}/raw/HEAD/envtest-releases.yaml`,
  },
  {
    tools: { "kube-controller-manager": "" },
    url: `${kubernetes}/kube-controller-manager`,
    sums: "{url}.sha256",
  },
  ...["helm", "helm3"].map((tool) => ({
    tools: { [tool]: "{os}-{arch}/helm" },
    url: `https://get.helm.sh/helm-v{${tool}}-{os}-{arch}.tar.gz`,
    sums: "{url}.sha256sum",
  })),
];

const arches = { x64: "amd64", arm64: "arm64" };

/** The machine as the release sites name it: `linux-amd64`. */
export function machine(platform = process.platform, arch = process.arch) {
  return `${platform}-${arches[arch] ?? arch}`;
}

export function checksums() {
  return JSON.parse(readFileSync(checksumsFile, "utf8"));
}

/** All files for a machine, with `checksum` where one is pinned: `{ tools: {name: member}, url, sums, checksum }`. */
export function releasesFor(target, known = checksums()) {
  const [os, arch] = target.split("-");
  const values = { ...versions, os, arch };
  const fill = (text, more) => text.replaceAll(/\{(\w+)\}/g, (_, name) => ({ ...values, ...more })[name]);
  return releases.map(({ tools, url, sums }) => {
    const address = fill(url);
    return {
      tools: Object.fromEntries(Object.entries(tools).map(([tool, member]) => [tool, fill(member)])),
      url: address,
      sums: fill(sums, { url: address }),
      checksum: known[address.slice("https://".length)],
    };
  });
}

/** The files that hold the tools: as few as can be, pinned ones first. */
export function choose(tools, files) {
  const left = new Set(tools);
  const chosen = [];
  const use = (file) => Object.keys(file.tools).filter((tool) => left.has(tool)).length;
  const worth = (file) => (use(file) > 0 ? use(file) + (file.checksum ? toolCount : 0) : 0);
  for (;;) {
    const best = files.reduce((a, b) => (worth(b) > worth(a) ? b : a));
    if (worth(best) === 0) return chosen;
    chosen.push(best);
    for (const tool of Object.keys(best.tools)) left.delete(tool);
  }
}

const toolCount = Object.keys(Object.assign({}, ...releases.map(({ tools }) => tools))).length;

/** The address at a mirror: below RELEASE_MIRROR, host and path as they are. */
export function mirrored(url, env = process.env) {
  const mirror = env.RELEASE_MIRROR?.replace(/\/+$/, "");
  return mirror ? url.replace("https:/", mirror) : url;
}

/** The checksum of `file` in a text of them: `SUM  FILE`, `FILE:` and `hash: SUM` below it, or nothing but one sum. */
export function checksumIn(text, file) {
  const lines = text.trim().split("\n");
  const sumOf = (line = "") => /(?:^|\s)([0-9a-f]{128}|[0-9a-f]{64})(?=\s|$)/.exec(line)?.[1];
  const at = lines.findIndex((line) => line.split(/[\s*:]+/).includes(file));
  if (at < 0)
    return lines.length === 1 ? /^([0-9a-f]{128}|[0-9a-f]{64})$/.exec(lines[0].trim())?.[0] : undefined;
  return sumOf(lines[at]) ?? (/:\s*$/.test(lines[at]) ? sumOf(lines[at + 1]) : undefined);
}
