/** Sends spans to an OpenTelemetry collector by OTLP over HTTP, as JSON. Loaded with the first batch. */

import { SpanKind, SpanStatusCode, TraceFlags } from "@opentelemetry/api";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";
import { resourceFromAttributes } from "@opentelemetry/resources";

import type { Span } from "../model/index.ts";

type OtlpSpan = Parameters<typeof JsonTraceSerializer.serializeRequest>[0][number];

/** The collector, and the resource attributes of spans. */
export interface OtlpTarget {
  /** URL of the collector, without `/v1/traces`. */
  readonly endpoint: string;
  /** HTTP headers as comma-separated `name=value`; values are percent-encoded. */
  readonly headers: string | undefined;
  readonly version: string;
  readonly namespace: string;
  readonly instance: string;
}

/** Sends a batch; throws if the collector does not accept it. */
export type SendSpans = (spans: readonly Span[], signal: AbortSignal) => Promise<void>;

/** Makes a function that sends batches of spans to the collector in one POST request each. */
export function makeOtlpSender({ endpoint, headers, version, namespace, instance }: OtlpTarget): SendSpans {
  const url = `${endpoint.replace(/\/$/, "")}/v1/traces`;
  const resource = resourceFromAttributes({
    "service.name": "addon-operator",
    "service.version": version,
    "service.instance.id": instance,
    "k8s.namespace.name": namespace,
  });
  const common = { resource, instrumentationScope: { name: "addon-operator", version } };
  return async (spans, signal) => {
    const body = JsonTraceSerializer.serializeRequest(spans.map((span) => toOtlpSpan(span, common)));
    const request = { method: "POST", headers: parseHeaders(headers), redirect: "manual", signal } as const;
    const response = await fetch(url, { ...request, body: Buffer.from(body ?? []) }).catch(
      (error: unknown) => {
        // `fetch` itself says only "fetch failed"; the cause names the reason.
        throw error instanceof Error && error.cause instanceof Error ? error.cause : error;
      },
    );
    await response.body?.cancel(); // Frees the connection.
    if (!response.ok) throw new Error(`it answers ${response.status}`);
  };
}

/**
 * Parses OTEL_EXPORTER_OTLP_HEADERS, such as `authorization=Bearer%20abc,x-team=web`, and adds the content type. The error
 * does not quote the text, which may contain a token.
 */
function parseHeaders(text = ""): Headers {
  try {
    const pairs = text.split(",").filter((each) => each.trim() !== "");
    const headers = pairs.map((pair): [string, string] => {
      // The value may contain further equals signs.
      const [name = "", ...valueParts] = pair.split("=");
      return [decodeURIComponent(name.trim()), decodeURIComponent(valueParts.join("=").trim())];
    });
    return new Headers([...headers, ["Content-Type", "application/json"]]);
  } catch {
    throw new Error("OTEL_EXPORTER_OTLP_HEADERS is not accepted; use name=value, with commas between");
  }
}

/** Converts a span to the form that OpenTelemetry's serializer expects. `common` is the same for all spans. */
function toOtlpSpan(span: Span, common: Pick<OtlpSpan, "resource" | "instrumentationScope">): OtlpSpan {
  const { traceId, spanId, parentId, name, kind, error, startMs, endMs = startMs } = span;
  const contextOf = (id: string) => ({ traceId, spanId: id, traceFlags: TraceFlags.SAMPLED });
  return {
    ...common,
    name,
    kind: kind === "api" ? SpanKind.CLIENT : SpanKind.INTERNAL,
    spanContext: () => contextOf(spanId),
    ...(parentId === undefined ? {} : { parentSpanContext: contextOf(parentId) }),
    startTime: toHrTime(startMs),
    endTime: toHrTime(endMs),
    duration: toHrTime(endMs - startMs),
    ended: true,
    status:
      error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
    attributes: toOtlpAttributes(span),
    links: [],
    events: [],
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** The attributes of a span with the prefix `addon_operator.`, and its kind. */
function toOtlpAttributes({ kind, attributes }: Span): OtlpSpan["attributes"] {
  const definedAttributes = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const prefixed = definedAttributes.map(([key, value]) => [`addon_operator.${key}`, value]);
  return Object.fromEntries([["addon_operator.span", kind], ...prefixed]) as OtlpSpan["attributes"];
}

/** Converts milliseconds to OpenTelemetry's pair of seconds and nanoseconds. */
function toHrTime(ms: number): [number, number] {
  const seconds = Math.floor(ms / 1000);
  return [seconds, Math.round((ms - seconds * 1000) * 1e6)];
}
