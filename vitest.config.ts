import { defineConfig } from "vitest/config";
import { BaseSequencer } from "vitest/node";
import type { TestSpecification } from "vitest/node";

/** For helm and kubectl: programs in Go collect no garbage in a life of a tenth of a second. */
const env = { GOGC: "off", GOMEMLIMIT: "512MiB" };

/** A machine may be slow, and busy with other things: only what never comes is to fail. */
const patience = { testTimeout: 120_000, hookTimeout: 120_000, expect: { poll: { timeout: 60_000 } } };

/** As many as processors of a small machine. All projects that run together have the same number, however many there are. */
const maxWorkers = 2;

/** These measure processor time or memory: each runs in a process of its own. */
const measuring = [
  "test/patterns.test.ts",
  "test/fuzz/faces.test.ts",
  "test/hooks/run-hook.test.ts",
  "test/base/idle-memory.test.ts",
];

/** Small files that take long. */
const long = [
  "test/integration/budgets.test.ts",
  "test/integration/readme.test.ts",
  "test/integration/scenarios/each-write.test.ts",
  "test/integration/scenarios/kill-points.test.ts",
  "test/integration/scenarios/server.test.ts",
  "test/integration/scripts/control-plane.test.ts",
  "test/integration/status-docs.test.ts",
  "test/integration/tenancy-tokens.test.ts",
];

/** In a fresh checkout large files come first: small ones that take long would be left to one worker at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => long.some((name) => moduleId.endsWith(name));
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: "unit",
          env,
          include: ["test/**/*.test.ts"],
          exclude: ["test/integration/**", "test/e2e/**", ...measuring, "test/page/browser.test.ts"],
          ...patience,
          // Pure code for the most part: loading it anew for each file would take as long as the tests.
          isolate: false,
          maxWorkers,
        },
      },
      {
        test: {
          name: "measuring",
          include: measuring,
          ...patience,
          maxWorkers,
        },
      },
      {
        test: {
          // Starts a Chromium.
          name: "browser",
          include: ["test/page/browser.test.ts"],
          ...patience,
          maxWorkers,
        },
      },
      {
        test: {
          name: "integration",
          env,
          include: ["test/integration/**/*.test.ts"],
          globalSetup: ["test/support/global-setup.ts"],
          // No file leaves anything behind in its process; to load it all anew for each was a sixth of their time.
          isolate: false,
          ...patience,
          // Tests often wait for leases, timers and the API server: one worker more than two processors. Three keep both busy
          // (a file takes two thirds of a processor, half of that for Node.js): what shortens the run is less work.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
