export { findProgram } from "./child.ts";
export { endChildren, endStrays, reportChildren, startOnlyWhile, strays } from "./children.ts";
export type { Fits, StrayOptions } from "./children.ts";
export { Coprocess, type CoprocessExit, type CoprocessOptions } from "./coprocess.ts";
export { startsAsMeant, type Usage } from "./libc.ts";
export { MAX_LINE, TRUNCATED } from "./output.ts";
export { run, type RunOutcome, type RunRequest, type RunResult, type Stream } from "./run-process.ts";
export { LastingDir, Scratch, ScratchError, useTempDir, type ScratchData } from "./scratch.ts";
export { watchdog, type Watchdog } from "./watchdog.ts";
