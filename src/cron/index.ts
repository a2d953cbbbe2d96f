export { parseCrontab } from "./crontab.ts";
export { CrontabError } from "./crontab-error.ts";
export { CronTable } from "./table.ts";
