import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";

const MODULE = join(import.meta.dirname, "../src/environment.ts");
const dir = mkdtempSync(join(tmpdir(), "environment-"));
const script = join(dir, "show.mjs");
const pids = join(dir, "pids");

writeFileSync(
  script,
  `import { appendFileSync } from "node:fs";
  import { becomeSmall, environment } from ${JSON.stringify(MODULE)};
  appendFileSync(${JSON.stringify(pids)}, process.pid + "\\n");
  becomeSmall();
  const { MALLOC_ARENA_MAX: arenas } = process.env;
  console.log(JSON.stringify({ arenas, flags: process.execArgv, args: process.argv.slice(2), given: environment() }));`,
);

function show(env: Record<string, string>): {
  arenas: string;
  flags: string[];
  args: string[];
  given: object;
  starts: number;
} {
  rmSync(pids, { force: true });
  const answer = execFileSync(process.execPath, [script, "start", "--x"], { env, encoding: "utf8" });
  const started = readFileSync(pids, "utf8").trim().split("\n");
  expect(new Set(started).size).toBe(1);
  return { ...JSON.parse(answer), starts: started.length };
}

afterAll(() => rmSync(dir, { recursive: true }));

describe.runIf(process.platform === "linux")("becomeSmall (needs Linux)", () => {
  it("starts the same process once more with one arena; what it hands on is what it was given", () => {
    expect(show({ A: "b" })).toEqual({
      arenas: "1",
      flags: ["--max-semi-space-size=16"],
      args: ["start", "--x"],
      given: { A: "b" },
      starts: 2,
    });
  });

  it("leaves alone what the user has set", () => {
    const env = { MALLOC_ARENA_MAX: "4", MALLOC_TRIM_THRESHOLD_: "1" };
    expect(show(env)).toEqual({ arenas: "4", flags: [], args: ["start", "--x"], given: env, starts: 1 });
  });

  it("does not hand on what the image has set for it", () => {
    const set = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "131072" };
    const own = { ADDON_OPERATOR_OWN_VARIABLES: Object.keys(set).join(",") };
    expect(show({ ...set, ...own, A: "b" })).toMatchObject({ arenas: "1", given: { A: "b" }, starts: 1 });
  });
});
