export { scriptCall } from "./converge/discover.ts";
export { checkSchemas, loadHooks, recordServerVersion } from "./files/load.ts";
export type { ModuleActor, Ports, Recorder } from "./ports.ts";
export { hookRate, runTask, taskQueues } from "./run-task.ts";
export { answerFault, forbiddenEffect } from "./reviews/answer-faults.ts";
export { ReviewRuns } from "./reviews/answer-review.ts";
export { conversionPath } from "./reviews/conversion-path.ts";
export { HookWebhooks, equalWebhooks } from "./reviews/hook-webhooks.ts";
export { removeLeftOver } from "./reviews/left-over.ts";
