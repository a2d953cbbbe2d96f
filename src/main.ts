/** The entry point: prepares the process, then loads the command line. */

import { becomeSmall } from "./environment.ts";

const [command] = process.argv.slice(2);
if (command === undefined || command === "start" || command.startsWith("-")) becomeSmall();
// Loaded only now: whatever is loaded before the process is replaced is loaded twice.
await import("./cli.ts");
