/** Where spans go, and what they say of requests to the API server. */

import { ownIdentity } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import type { Clock, KnownSecrets, Logger } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import type { Settings } from "../settings.ts";
import { DROP_REASONS, exportTo, note } from "../trace/index.ts";
import type { SpanExport } from "../trace/index.ts";
import { VERSION } from "../version.ts";

/** Hands spans on, where the settings name a collector. */
export function exportOf({
  settings,
  namespace,
  secrets,
  ...around
}: {
  readonly settings: Settings;
  readonly namespace: string;
  readonly secrets: KnownSecrets;
  readonly clock: Clock;
  readonly logger: Logger;
}): SpanExport | undefined {
  const { otlpEndpoint: endpoint, otlpHeaders: headers, otlpSamplingRatio: ratio, pod } = settings;
  if (endpoint === undefined) return undefined;
  const instance = ownIdentity(pod).name;
  const target = { endpoint, headers, version: VERSION, namespace, instance };
  return exportTo(target, { ...around, ratio, redactDeep: (value) => secrets.redactDeep(value) });
}

/** Notes each request within the work that it is sent for. */
export function traceRequests(client: KubeClient): void {
  client.onRequest(({ verb, resourcePathTemplate, code, seconds }) => {
    const error = code.startsWith("2") ? undefined : code;
    note(
      { kind: "api", name: `${verb} ${resourcePathTemplate}`, attributes: { code } },
      { ms: seconds * 1000, error },
    );
  });
}

/** Counts the spans that a collector does not get. */
export function countDrops(spanExport: SpanExport | undefined, metrics: Metrics): void {
  if (spanExport === undefined) return;
  for (const reason of DROP_REASONS) metrics.touch("spansDropped", { reason });
  spanExport.onDropped = (reason, count) => metrics.add("spansDropped", { reason }, count);
}
