// What a release publishes, made by the shell of .github/workflows/release.yaml itself.
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";

import { locate, tools } from "../../scripts/setup/tools.mjs";
import { parseYaml } from "../../src/base/index.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

interface Workflow {
  readonly jobs: Record<string, { readonly steps: readonly { readonly run?: string }[] }>;
}
const { jobs } = parseYaml(read(".github/workflows/release.yaml"), "release.yaml")
  .value as unknown as Workflow;

/** The only script of a job that contains `part`. */
function scriptWith(job: string, part: string): string {
  const scripts = (jobs[job]?.steps ?? [])
    .flatMap(({ run }) => run ?? [])
    .filter((run) => run.includes(part));
  expect(scripts).toHaveLength(1);
  return scripts[0] ?? "";
}

function temporary(): string {
  const dir = mkdtempSync(join(tmpdir(), "release-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

const release = { OWNER: "Acme", VERSION: "1.2.3", GITHUB_REF_NAME: "v1.2.3" };

/** What the job that publishes calls `IMAGE`, `CHARTS`, and `VERSION`. */
function published(): Record<string, string> {
  const dir = temporary();
  const env = { ...process.env, ...release, GITHUB_ENV: join(dir, "env") };
  execFileSync("bash", ["-e", "-c", scriptWith("publish", "CHARTS=")], { env });
  const lines = readFileSync(env.GITHUB_ENV, "utf8").trim().split("\n");
  return Object.fromEntries(lines.map((line) => line.split("=") as [string, string]));
}

/** A text for users, with the owner and the version of the release. */
const filledIn = (text: string): string => text.replaceAll("OWNER", "acme").replaceAll("0.3.0", "1.2.3");
const pages = ["README.md", "docs/get-started/install.md"];

test.each(pages)("%s names the image and the chart that are published", (path) => {
  const { IMAGE = "", CHARTS = "", VERSION = "" } = published();
  const page = filledIn(read(path));
  const names = [...page.matchAll(/ghcr\.io\/acme[\w/.:-]*/g)].map(([name]) => name);
  const known = [`${IMAGE}:${VERSION}`, `${CHARTS}/addon-operator:${VERSION}`, `${CHARTS}/addon-operator`];
  expect([...new Set(names)].toSorted()).toEqual(known.toSorted());
  expect(page).toContain(`gh attestation verify oci://${IMAGE}:${VERSION} `);
  expect(page).toContain(`cosign verify ${IMAGE}:${VERSION} `);
  expect(page).toContain(`cosign verify ${CHARTS}/addon-operator:${VERSION} `);
  expect(page).toContain(`helm install addon-operator oci://${CHARTS}/addon-operator --version ${VERSION} `);
});

test.each(pages)("%s accepts signatures of the release workflow alone", (path) => {
  const [, pattern = ""] = /^identity='(.*)'$/m.exec(read(path)) ?? [];
  const signer = "https://github.com/OWNER/addon-operator/.github/workflows/release.yaml@refs/tags/v1.2.3";
  expect(new RegExp(pattern).test(signer)).toBe(true);
  expect(new RegExp(pattern).test(signer.replace("OWNER/", "OTHER/"))).toBe(false);
  expect(new RegExp(pattern).test(signer.replace("release.yaml", "ci.yaml"))).toBe(false);
  expect(scriptWith("publish", "$IMAGE:$VERSION")).toContain('cosign sign --yes "$IMAGE@');
  expect(scriptWith("publish", "helm push")).toContain('cosign sign --yes "$CHARTS/addon-operator@');
});

const without = locate().missing.includes("helm");

describe.skipIf(without)("the packaged chart (needs helm from `npm run setup`)", () => {
  test("installs the image of the release by default", () => {
    const dir = temporary();
    cpSync(join(root, "charts"), join(dir, "charts"), { recursive: true });
    symlinkSync(tools().helm, join(dir, "helm"));
    const env = { ...process.env, ...release, PATH: [dir, process.env["PATH"]].join(delimiter), HOME: dir };
    const shell = (script: string): string =>
      execFileSync("bash", ["-e", "-o", "pipefail", "-c", script], { cwd: dir, env, encoding: "utf8" });
    shell(scriptWith("build", "helm package"));
    const { IMAGE = "", VERSION = "" } = published();
    const images = shell(`helm template x addon-operator-${VERSION}.tgz`).match(/^ *image: .*$/gm) ?? [];
    expect(images.length).toBeGreaterThan(0);
    expect([...new Set(images.map((line) => line.trim()))]).toEqual([`image: "${IMAGE}:${VERSION}"`]);
  });
});
