import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";

import { parseYaml } from "../../src/base/index.ts";

const root = new URL("../../", import.meta.url);
const text = (path: string): string => readFileSync(new URL(path, root), "utf8");
const { scripts } = JSON.parse(text("package.json")) as { scripts: Record<string, string> };

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Record<string, string>;
  readonly steps: readonly {
    readonly uses?: string;
    readonly run?: string;
    readonly with?: Record<string, string | boolean | number>;
  }[];
}

interface Workflow {
  readonly on: object;
  readonly permissions: Record<string, string>;
  readonly jobs: Record<string, Job>;
}

const read = (file: string): Workflow =>
  parseYaml(text(`.github/workflows/${file}`), file).value as unknown as Workflow;

const files = readdirSync(new URL(".github/workflows/", root));

test("there are four of them", () => {
  expect(files.toSorted()).toEqual(["ci.yaml", "docs.yaml", "nightly.yaml", "release.yaml"]);
});

describe.each(files)("%s", (file) => {
  const workflow = read(file);
  const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);
  const commands = steps.flatMap(({ run }) => run ?? []).join("\n");

  test("calls only scripts of package.json", () => {
    const called = [...commands.matchAll(/npm run ([\w:-]+)/g)].map(([, name = ""]) => name);
    expect(called.length).toBeGreaterThan(0);
    expect(called.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
  });

  test("names the commit of every action, with its version for people", () => {
    const lines = text(`.github/workflows/${file}`).match(/uses: .*/g) ?? [];
    expect(lines.length).toBe(steps.flatMap(({ uses }) => uses ?? []).length);
    const pinned = /^uses: [\w-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;
    expect(lines.filter((line) => !pinned.test(line))).toEqual([]);
  });

  test("may read, and leaves no credentials in the checkout", () => {
    expect(workflow.permissions).toEqual({ contents: "read" });
    const checkouts = steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
    expect(checkouts.filter((step) => step.with?.["persist-credentials"] !== false)).toEqual([]);
  });

  test("runs no scripts of dependencies at their installation", () => {
    const installs = commands.match(/npm (ci|install).*/g) ?? [];
    expect(installs.filter((line) => !line.includes("--ignore-scripts"))).toEqual([]);
  });

  test("puts nothing that others may choose into a shell", () => {
    expect(commands).not.toContain("${{");
  });

  test("runs nothing of the checkout but those scripts", () => {
    expect(commands).not.toMatch(/\bnode scripts\//);
  });
});

test("build arguments that workflows give are the Dockerfile's", () => {
  const dockerfile = text("Dockerfile");
  const known = new Set([...dockerfile.matchAll(/^ARG (\w+)/gm)].map(([, name]) => name));
  const given = files
    .flatMap((file) => [
      ...text(`.github/workflows/${file}`).matchAll(/--build-arg (\w+)=|^ {12}([A-Z]+)=/gm),
    ])
    .map(([, first, second]) => first ?? second ?? "");
  expect(new Set(given)).toEqual(new Set(["BUNDLE", "TOOLS", "VERSION", "REVISION"]));
  expect(given.filter((name) => !known.has(name))).toEqual([]);
});

describe("a release", () => {
  const { jobs } = read("release.yaml");
  const stepsOf = (job: Job): string[] => job.steps.map(({ uses = "", run = "" }) => `${uses}${run}`);

  test("what may write runs nothing of the checkout, and what runs it may write nothing", () => {
    const writing = Object.entries(jobs).filter(([, job]) =>
      Object.values(job.permissions ?? {}).includes("write"),
    );
    expect(writing.map(([name]) => name)).toEqual(["publish"]);
    for (const [, job] of writing)
      expect(stepsOf(job).filter((step) => /checkout|npm |build-push|setup-node/.test(step))).toEqual([]);
    expect(jobs["build"]?.permissions).toBeUndefined();
    expect(stepsOf(jobs["check"] as Job).join("\n")).toContain("npm run check");
  });

  test("what is signed is built where no development dependencies ran, after they found nothing wrong", () => {
    expect(stepsOf(jobs["build"] as Job).filter((step) => /npm |setup-node/.test(step))).toEqual([]);
    const installs = stepsOf(jobs["cli"] as Job).filter((step) => /npm (ci|install)/.test(step));
    expect(installs).toEqual(["npm ci --omit=dev --ignore-scripts"]);
    expect([jobs["build"]?.needs, jobs["cli"]?.needs, jobs["publish"]?.needs]).toEqual([
      "check",
      "check",
      ["build", "cli"],
    ]);
  });

  test("what is signed has the version of the tag, whatever the build says", () => {
    const publish = JSON.stringify(jobs["publish"]);
    expect(publish).not.toMatch(/needs\.[a-z]+\.outputs/);
    expect(publish).toContain("VERSION=${GITHUB_REF_NAME#v}");
  });

  test("the build takes nothing from a cache", () => {
    const found = stepsOf(jobs["build"] as Job).filter((step) => /actions\/cache|setup-go/.test(step));
    expect(found).toEqual([]);
    expect(text(".github/workflows/release.yaml")).not.toContain("cache: npm");
  });

  test("image, chart, and command line are signed and have SLSA provenance", () => {
    const steps = stepsOf(jobs["publish"] as Job);
    const attested = steps.filter((step) => step.startsWith("actions/attest-build-provenance@"));
    expect(attested).toHaveLength(3);
    expect(steps.join("\n").match(/cosign sign(?:-blob)? /g)).toHaveLength(3);
    expect(jobs["publish"]?.permissions).toMatchObject({ "id-token": "write", attestations: "write" });
  });
});

test("the image is built on bases named by digest, without scripts of dependencies", () => {
  const dockerfile = text("Dockerfile");
  const bases = [...dockerfile.matchAll(/^ARG (?:BASE|GO)=(.+)$/gm)].map(([, base = ""]) => base);
  expect(bases).toHaveLength(2);
  expect(bases.filter((base) => !/^\w+:[\w.-]+@sha256:[0-9a-f]{64}$/.test(base))).toEqual([]);
  const installs = dockerfile.match(/npm ci.*/g) ?? [];
  expect(installs.filter((line) => !line.includes("--ignore-scripts"))).toEqual([]);
});

test("the site gets the pages of a release when the release is done, from its tag", () => {
  const { jobs } = read("docs.yaml");
  expect(text(".github/workflows/docs.yaml")).toContain(
    "workflow_run: {workflows: [release], types: [completed]}",
  );
  expect(jobs["build"]?.steps[0]?.with).toMatchObject({ "fetch-depth": 0 });
});

describe("a night", () => {
  const { jobs } = read("nightly.yaml");

  test("has one seed, which its first job prints and the others use", () => {
    expect(jobs["seed"]?.steps[0]?.run).toContain("tee");
    const seeded = Object.entries(jobs).filter(([, job]) => job.needs === "seed");
    expect(seeded.map(([name]) => name)).toEqual(["units", "integration", "fuzz", "soak"]);
    for (const [, job] of seeded)
      expect(JSON.stringify(job)).toContain('"SEED":"${{ needs.seed.outputs.seed }}"');
  });
});
