import { onTestFinished } from "vitest";
import { startOperator as start } from "../../scripts/operator.mjs";
import type { OperatorOptions, OperatorProcess } from "../../scripts/operator.mjs";
import { cluster } from "./cluster.ts";
import { watchStatuses } from "./statuses.ts";

export type { OperatorProcess };

export interface TestOptions extends Partial<OperatorOptions> {
  /** Who may read statuses, where the operator does not run against the shared control plane. */
  readonly admin?: string;
}

/**
 * Starts the operator as a child process against the shared control plane (or `kubeconfig`), killed when the test ends.
 * It runs src/main.ts, or dist/main.js when OPERATOR_BUNDLE is set. Retry delays are short unless `env` says otherwise.
 */
export async function startOperator(options: TestOptions): Promise<OperatorProcess> {
  const operator = await launchOperator(options);
  onTestFinished(async () => {
    await operator.kill9();
  });
  return operator;
}

/**
 * The same for `beforeAll`: the caller stops it. Every status it writes from its start to its end is held against the
 * rules of kstatus and Flux; `stop` and `kill9` reject when one of them was broken, or when a timer of an operator that
 * was stopped outlives it.
 */
export async function launchOperator(options: TestOptions): Promise<OperatorProcess> {
  const { admin, namespace, kubeconfig = cluster().kubeconfig } = options;
  const statuses = namespace === undefined ? undefined : await watchStatuses(namespace, admin);
  const env = { RETRY_DELAY_MIN: "50ms", RETRY_DELAY_MAX: "500ms", LOG_TYPE: "text", ...options.env };
  const operator = await start({ ...options, kubeconfig, env });
  const ending = async (end: OperatorProcess["stop"]) => {
    const exit = await end();
    await statuses?.end();
    if (operator.log().includes("hold up the end"))
      throw new Error(`a timer outlives the operator:\n${operator.log().slice(-2000)}`);
    return exit;
  };
  return { ...operator, stop: () => ending(operator.stop), kill9: () => ending(operator.kill9) };
}
