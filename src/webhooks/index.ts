export { mountedCertificateSource, secretCertificateSource } from "./certificate/certificate.ts";
export type { CertificateSource } from "./certificate/certificate.ts";
export { OwnCertificate } from "./certificate/own-certificate.ts";
export type { AdmissionWebhook, WebhookTarget } from "./registration/admission-objects.ts";
export { Registrar } from "./registration/registrar.ts";
export type { AdmissionRequest, AdmissionResponse, ConversionRequest, ConversionResponse } from "./review.ts";
export type { WebhookReport } from "./server.ts";
export { Webhooks, serverName } from "./webhooks.ts";
