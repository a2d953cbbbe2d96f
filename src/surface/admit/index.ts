export { answerEdit, createAdmitPath, type AdmissionOptions, editWebhooks } from "./admission.ts";
export { checkAnnotations } from "./annotations.ts";
export type { ReviewAnswer } from "./answer.ts";
export { checkConfigEdit } from "./config-edit.ts";
export type { AdmissionSources } from "./forecast.ts";
