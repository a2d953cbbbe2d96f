export type { Terminal } from "./table/row.ts";
export { exitCodeOf, runCommandLine } from "./run.ts";
