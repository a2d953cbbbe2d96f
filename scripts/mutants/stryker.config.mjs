/**
 * `npm run mutants`: changes the code that decides in small ways, one at a time, and checks that a test fails. One package:
 * `npm run mutants -- --mutate 'src/engine/plan/*.ts'`. The report is in `.tmp/mutants`.
 */
export default {
  mutate: [
    "src/{engine,values,modules}/**/*.ts",
    "src/helm/decide.ts",
    "src/report/explain/*.ts",
    "src/base/redact/**/*.ts",
  ],
  plugins: ["./scripts/mutants/runner.mjs"],
  testRunner: "in-process",
  // The random histories of the engine take as long as all other tests together.
  inProcess: {
    include: [
      "test/{scenarios,engine,modules,report,values}/**/*.test.ts",
      "test/helm/decide.test.ts",
      "test/base/redact/*.test.ts",
    ],
    exclude: ["test/scenarios/fuzz.test.ts"],
  },
  coverageAnalysis: "perTest",
  // Constants that are made while a file is loaded: each would need a new process and all tests.
  ignoreStatic: true,
  concurrency: 1,
  incremental: true,
  incrementalFile: ".tmp/mutants/incremental.json",
  tempDirName: ".tmp/mutants/sandbox",
  ignorePatterns: [".tmp", "build", "dist"],
  // No type checks, and no tsconfig: Stryker reads it through an interface that TypeScript 7 does not have.
  disableTypeChecks: false,
  tsconfigFile: "none",
  reporters: ["progress-append-only", "clear-text", "json", "html"],
  clearTextReporter: { logTests: false, allowEmojis: false },
  jsonReporter: { fileName: ".tmp/mutants/report.json" },
  htmlReporter: { fileName: ".tmp/mutants/report.html" },
  warnings: { unknownOptions: false },
};
