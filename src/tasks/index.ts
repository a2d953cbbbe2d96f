export { scriptCall } from "./converge/discover.ts";
export { checkSchemas, loadHooks, recordServerVersion } from "./files/load.ts";
export type { ModuleActor, Ports, Recorder } from "./ports.ts";
export { hookRate, runTask, taskQueues } from "./run-task.ts";
export { answerProblem, forbiddenEffect } from "./reviews/answer-problems.ts";
export { ReviewRuns } from "./reviews/answer-review.ts";
export { conversionPath } from "./reviews/conversion-path.ts";
export { HookWebhooks, equalWebhooks } from "./reviews/hook-webhooks.ts";
export { removeLeftOver } from "./reviews/left-over.ts";
