import { defineConfig } from "vitest/config";

/** For helm and kubectl: programs in Go collect no garbage in a life of a tenth of a second. */
const env = { GOGC: "off", GOMEMLIMIT: "512MiB" };

/** These measure processor time or memory: each runs in a process of its own. */
const measuring = [
  "test/patterns.test.ts",
  "test/fuzz/faces.test.ts",
  "test/hooks/run-hook.test.ts",
  "test/lib/idle-memory.test.ts",
];

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          env,
          include: ["test/**/*.test.ts"],
          exclude: ["test/integration/**", "test/e2e/**", ...measuring, "test/page/browser.test.ts"],
          testTimeout: 20_000,
          // Pure code for the most part: loading it anew for each file would take as long as the tests.
          isolate: false,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "measuring",
          include: measuring,
          testTimeout: 20_000,
        },
      },
      {
        test: {
          // Starts a Chromium.
          name: "browser",
          include: ["test/page/browser.test.ts"],
          testTimeout: 20_000,
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
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // Tests often wait for leases, timers and the API server: one worker more than two processors.
          maxWorkers: 3,
        },
      },
    ],
  },
});
