export type { World } from "./table/row.ts";
export { exitCodeOf, runLine } from "./run.ts";
