export type { Terminal } from "./table/row.ts";
export { exitCodeForError, runCommandLine } from "./run.ts";
