export { parseCrontab } from "./crontab.ts";
export { CrontabError } from "./fields.ts";
export { findNextOpening, type MaintenanceWindow } from "./windows.ts";
export { CronTable } from "./table.ts";
