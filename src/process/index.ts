export { endChildren, reportChildren, startOnlyWhile } from "./children.ts";
export { Coprocess, type CoprocessExit, type CoprocessOptions } from "./coprocess.ts";
export { startsAsMeant } from "./libc.ts";
export { MAX_LINE, TRUNCATED } from "./lines.ts";
export { run, type RunRequest } from "./run.ts";
export type { RunOutcome, RunResult, Stream } from "./result.ts";
export type { Usage } from "./reaper.ts";
export { Scratch, ScratchError, type ScratchData } from "./scratch.ts";
export { endStrays, strays, type Fits, type StrayOptions } from "./strays.ts";
