export { type Crontab, parseCrontab } from "./crontab.ts";
export { CrontabError } from "./errors.ts";
export { CronTable, type CronTableOptions } from "./table.ts";
export { isTimeZone } from "./zone.ts";
