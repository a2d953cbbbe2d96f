import { request, type RequestOptions } from "node:https";
import { onTestFinished } from "vitest";

import type { KubeClient, WatchHub } from "../../src/kube/index.ts";
import { silentLogger, systemClock } from "../../src/base/index.ts";
import type { Certificate } from "../../src/webhooks/certificate/certificate.ts";
import { issueCa, issueServerCertificate } from "../../src/webhooks/certificate/issue.ts";
import { Webhooks, type WebhooksOptions } from "../../src/webhooks/webhooks.ts";

const DAY = 86_400_000;
export const validity = { from: Date.now() - DAY, to: Date.now() + DAY };
const ca = issueCa(validity);
export const certificate: Certificate = {
  ...issueServerCertificate(ca, ["hooks.ns.svc"], validity),
  ca: ca.cert,
  peerCa: ca.cert,
};

/** Webhooks without an API server, closed when the test ends. */
export function webhooks(more: Partial<WebhooksOptions> = {}): Webhooks {
  const made = new Webhooks({
    client: { json: () => Promise.reject(new Error("no API server")) } as unknown as KubeClient,
    hub: { subscribe: () => ({ close: () => {} }) } as unknown as WatchHub,
    clock: systemClock,
    logger: silentLogger,
    namespace: "ns",
    hasReplicas: false,
    readOwnUser: () => Promise.resolve(undefined),
    name: "test",
    listen: { address: "127.0.0.1", port: 0 },
    source: { checkMs: DAY, read: () => Promise.resolve(certificate) },
    target: { service: { namespace: "ns", name: "hooks" } },
    findLeader: () => Promise.resolve(undefined),
    report: { webhookRequested: () => {}, webhookIssuesChanged: () => {} },
    onError: () => {},
    ...more,
    limits: { rates: { connections: Infinity, requests: Infinity }, ...more.limits },
  });
  onTestFinished(() => made.close());
  return made;
}

/** Sends an admission review. */
export function post(
  port: number,
  path: string,
  more: RequestOptions = {},
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const trust = { ca: ca.cert, servername: "hooks.ns.svc", cert: certificate.cert, key: certificate.key };
    const sent = request({
      host: "127.0.0.1",
      port,
      path,
      method: "POST",
      headers,
      agent: false,
      ...trust,
      ...more,
    });
    sent.on("error", reject).on("response", (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (part: string) => (body += part));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, body }));
    });
    sent.end(
      JSON.stringify({
        apiVersion: "admission.k8s.io/v1beta1",
        kind: "AdmissionReview",
        request: { uid: "7", operation: "CREATE" },
      }),
    );
  });
}
