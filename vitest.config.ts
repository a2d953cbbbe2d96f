import { defineConfig } from "vitest/config";

/** For helm and kubectl: programs in Go collect no garbage in a life of a tenth of a second. */
const env = { GOGC: "off", GOMEMLIMIT: "512MiB" };

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          env,
          include: ["test/**/*.test.ts"],
          exclude: ["test/integration/**", "test/e2e/**", "test/patterns.test.ts", "test/ui/browser.test.ts"],
          testTimeout: 20_000,
          // Pure code for the most part: loading it anew for each file would take as long as the tests.
          isolate: false,
          maxWorkers: 2,
        },
      },
      {
        test: {
          // Times every regular expression.
          name: "patterns",
          include: ["test/patterns.test.ts"],
        },
      },
      {
        test: {
          // Starts a Chromium.
          name: "browser",
          include: ["test/ui/browser.test.ts"],
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
          maxWorkers: 2,
        },
      },
    ],
  },
});
