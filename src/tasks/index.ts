export { enabledScriptInput } from "./converge/discover.ts";
export { checkSchemas, loadHooks, recordServerVersion } from "./files/load.ts";
export type { ModuleActor, Ports, Recorder } from "./ports.ts";
export { hookRateLimit, runTask, taskQueues } from "./run-task.ts";
export { answerProblem, describeForbiddenEffect } from "./reviews/answer-problems.ts";
export { ReviewRuns, conversionPath } from "./reviews/answer-review.ts";
export { HookWebhooks, findDuplicateWebhooks, removeLeftoverWebhooks } from "./reviews/hook-webhooks.ts";
