export { parseCrontab } from "./crontab.ts";
export { CrontabError } from "./errors.ts";
export { CronTable } from "./table.ts";
