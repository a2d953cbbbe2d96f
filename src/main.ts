import { becomeSmall } from "./environment.ts";

const [command] = process.argv.slice(2);
if (command === undefined || command === "start" || command.startsWith("-")) becomeSmall();
// Only now: what is loaded before is loaded twice.
await import("./cli.ts");
