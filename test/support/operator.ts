import { onTestFinished } from "vitest";
import { startOperator as start } from "../../scripts/operator.mjs";
import type { OperatorOptions, OperatorProcess } from "../../scripts/operator.mjs";
import { cluster } from "./cluster.ts";

export type { OperatorProcess };

/**
 * Starts the operator as a child process against the shared control plane (or `kubeconfig`), killed when the test ends.
 * It runs src/main.ts, or dist/main.js when OPERATOR_BUNDLE is set. Retry delays are short unless `env` says otherwise.
 */
export async function startOperator(options: Partial<OperatorOptions>): Promise<OperatorProcess> {
  const env = { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "500ms", LOG_TYPE: "text", ...options.env };
  const operator = await start({ ...options, kubeconfig: options.kubeconfig ?? cluster().kubeconfig, env });
  onTestFinished(async () => {
    await operator.kill9();
  });
  return operator;
}
