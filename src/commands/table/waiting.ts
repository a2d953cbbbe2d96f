/** What commands that wait for a module have in common. */

import type { Flag } from "./row.ts";

/** How it ends, beside 0 where what is waited for has come. */
export const WAIT_ENDS =
  "Ends with 1 when time is up, or the module has been Invalid or RolledBack for five seconds.";

export const WAIT_FLAGS: readonly Flag[] = [
  { flags: "--for <CONDITION>", help: "ready or healthy; default ready", values: ["ready", "healthy"] },
  { flags: "--timeout <DURATION>", help: "how long to wait; default 5m" },
];
