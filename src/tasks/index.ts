export { enabledScriptInput } from "./converge/discover.ts";
export { checkSchemas, loadHooks, recordServerVersion } from "./files/load.ts";
export type { ModuleActor, Ports, Recorder } from "./ports.ts";
export { hookRateLimit, runTask, taskQueues } from "./run-task.ts";
export { answerProblem, describeForbiddenEffect } from "./reviews/answer-problems.ts";
export { ReviewRuns } from "./reviews/answer-review.ts";
export { conversionPath } from "./reviews/conversion-path.ts";
export { HookWebhooks, findDuplicateWebhooks } from "./reviews/hook-webhooks.ts";
export { removeLeftoverWebhooks } from "./reviews/left-over.ts";
