export { enabledScriptInput } from "./converge/discover.ts";
export { checkSchemas, loadHooks } from "./files/load.ts";
export { recordServerVersion } from "./files/read-modules.ts";
export type { Ports, Recorder } from "./ports.ts";
export { RateLimits, runTask, taskQueues } from "./run-task.ts";
export { describeForbiddenEffect } from "./hooks/execute-hook.ts";
export { ReviewRuns, answerProblem, conversionPath } from "./reviews/answer-review.ts";
export { HookWebhooks, findDuplicateWebhooks, removeLeftoverWebhooks } from "./reviews/hook-webhooks.ts";
export { findForbiddenWebhooks, listPermissions } from "./reviews/webhook-access.ts";
