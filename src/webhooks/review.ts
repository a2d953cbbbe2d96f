/** Reviews: what the API server sends to webhooks, and the form of the answers (docs/reference/hooks.md, "Webhooks"). */

import { parseExactJson } from "../base/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject } from "../base/model/index.ts";

/** An admission request: its known fields only, in the form that hooks get. `object`, `oldObject` and `options` may be null. */
export interface AdmissionRequest extends JsonObject {
  readonly uid: string;
  readonly operation: string;
  readonly kind: JsonObject;
  readonly resource: JsonObject;
  readonly userInfo: JsonObject;
  readonly object: JsonObject | null;
  readonly oldObject: JsonObject | null;
  readonly options: JsonObject | null;
  readonly name?: string;
  readonly namespace?: string;
  readonly subResource?: string;
  readonly dryRun?: boolean;
}

/** The result of an admission request. */
export interface AdmissionResponse {
  readonly allowed: boolean;
  /** HTTP status of a denial; default 403. */
  readonly code?: number;
  /** Why it is denied. */
  readonly message?: string | undefined;
  readonly warnings?: readonly string[];
  /** A JSON Patch in base64. */
  readonly patch?: string | undefined;
}

/** A request to convert objects of one custom resource. */
export interface ConversionRequest extends JsonObject {
  readonly uid: string;
  readonly desiredAPIVersion: string;
  readonly objects: JsonObject[];
}

export type ConversionResponse =
  | { readonly convertedObjects: readonly JsonObject[] }
  | { readonly failedMessage: string };

/** Answers reviews of one kind at one path. `signal` is aborted when the API server waits no longer. `client` is the address that sent the review. */
export type AdmissionHandler = (
  request: AdmissionRequest,
  signal: AbortSignal,
  client: string,
) => Promise<AdmissionResponse>;
export type ConversionHandler = (
  request: ConversionRequest,
  signal: AbortSignal,
) => Promise<ConversionResponse>;

/** Answers reviews of any kind: gets the `request` of a review and returns its `response`. */
export type ReviewHandler = (request: JsonObject, signal: AbortSignal, client: string) => Promise<JsonObject>;

const FORBIDDEN = 403;
/** Characters of a message: users must be able to read it. */
const MAX_MESSAGE_LENGTH = 8192;

function truncateMessage(message: string): string {
  return message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH - 1)}…` : message;
}

/** Makes a review handler of an admission handler: checks the request, and builds the AdmissionResponse of Kubernetes. */
export function wrapAdmissionHandler(handler: AdmissionHandler): ReviewHandler {
  return async (raw, signal, client) => {
    const request = parseAdmissionRequest(raw);
    const response = await handler(request, signal, client);
    const { allowed, code = FORBIDDEN, message, warnings = [], patch } = response;
    const status = message === undefined ? { code } : { code, message: truncateMessage(message) };
    return {
      uid: request.uid,
      allowed,
      ...(!allowed && { status }),
      ...(warnings.length > 0 && { warnings: [...warnings] }),
      ...(patch !== undefined && { patch, patchType: "JSONPatch" }),
    };
  };
}

/** Makes a review handler of a conversion handler: checks the request, and builds the ConversionResponse of Kubernetes. */
export function wrapConversionHandler(handler: ConversionHandler): ReviewHandler {
  return async ({ uid, desiredAPIVersion, objects }, signal) => {
    if (typeof uid !== "string" || typeof desiredAPIVersion !== "string")
      throw new ReviewError("the request has no uid or no desiredAPIVersion");
    if (!Array.isArray(objects) || !objects.every((each) => isJsonObject(each)))
      throw new ReviewError("the objects of the request are no list of objects");
    const response = await handler({ uid, desiredAPIVersion, objects }, signal);
    if ("failedMessage" in response) {
      const message = truncateMessage(response.failedMessage);
      return { uid, convertedObjects: [], result: { status: "Failure", message } };
    }
    return { uid, convertedObjects: [...response.convertedObjects], result: { status: "Success" } };
  };
}

/** A review that cannot be answered, and the HTTP status that says why. */
export class ReviewError extends Error {
  readonly status: number;

  constructor(message: string, status = 400) {
    super(message);
    this.status = status;
  }
}

/** A review of any kind. */
export interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: JsonObject;
}

/** Parses the body of a request as a review. Throws ReviewError if the text is no review. */
export function parseReview(text: string): Review {
  let value: unknown;
  try {
    value = parseExactJson(text);
  } catch {
    // The parser's own message quotes the text, which may contain secrets.
    throw new ReviewError("the request is malformed JSON", 400);
  }
  const { apiVersion, kind, request } = isJsonObject(value) ? value : {};
  if (typeof apiVersion !== "string" || typeof kind !== "string" || !isJsonObject(request))
    throw new ReviewError("the request is no review: it needs apiVersion, kind and request", 400);
  return { apiVersion, kind, request };
}

/** Fields of a request that are left out if they are missing or of another type. */
const OPTIONAL_FIELDS: Readonly<Record<string, "string" | "boolean" | "object">> = {
  name: "string",
  namespace: "string",
  subResource: "string",
  requestKind: "object",
  requestResource: "object",
  requestSubResource: "string",
  dryRun: "boolean",
};

/** Keeps the fields of an admission request that hooks know, with a default where one is missing. Throws ReviewError. */
function parseAdmissionRequest(raw: JsonObject): AdmissionRequest {
  const { uid, operation } = raw;
  if (typeof uid !== "string" || typeof operation !== "string")
    throw new ReviewError("the request has no uid or no operation");
  const optional = Object.entries(OPTIONAL_FIELDS).filter(
    ([key, type]) => typeof raw[key] === type && raw[key] !== null,
  );
  return {
    uid,
    operation,
    kind: objectOf(raw["kind"]),
    resource: objectOf(raw["resource"]),
    userInfo: objectOf(raw["userInfo"]),
    object: toObjectOrNull(raw["object"]),
    oldObject: toObjectOrNull(raw["oldObject"]),
    options: toObjectOrNull(raw["options"]),
    ...Object.fromEntries(optional.map(([key]) => [key, raw[key]])),
  };
}

function toObjectOrNull(value: Json | undefined): JsonObject | null {
  return isJsonObject(value) ? value : null;
}
