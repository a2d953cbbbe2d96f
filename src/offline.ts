import { UsageError } from "./config.ts";
import type { Environment } from "./config.ts";

/** Sub-commands that need no cluster: `hook run`, `lint`. */
export function runOffline(
  command: "hook" | "lint",
  _args: readonly string[],
  _env: Environment,
): Promise<number> {
  throw new UsageError([`${command}: not available yet`]);
}
