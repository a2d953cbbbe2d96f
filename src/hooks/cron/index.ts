export { findNextOpening, parseCrontab, type MaintenanceWindow } from "./crontab.ts";
export { CrontabError } from "./fields.ts";
export { CronTable } from "./table.ts";
