export { Admission } from "./admission.ts";
export { checkAnnotations } from "./annotations.ts";
export type { Answer } from "./answer.ts";
export { checkConfigEdit } from "./config-edit.ts";
export type { AdmissionSources } from "./forecast.ts";
export { ADMIT_PATH, editWebhooks } from "./registered.ts";
