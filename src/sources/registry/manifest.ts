/** Manifests and descriptors of the OCI image specification, as this program reads and writes them. */

import { createHash } from "node:crypto";

import { attempt, MAX_DEPTH, parseJson } from "../../base/index.ts";
import { asString, isJsonObject, objectOf, type Json, type JsonObject } from "../../base/model/index.ts";
import { isDigest } from "./reference.ts";

export const IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json";
export const IMAGE_INDEX = "application/vnd.oci.image.index.v1+json";
export const IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json";
export const LAYER_TAR_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip";
export const EMPTY_CONFIG = "application/vnd.oci.empty.v1+json";

/** The `Accept` header of requests for manifests. It includes Docker's types, so that the error that refuses one can name it. */
export const MANIFEST_ACCEPT = [
  IMAGE_MANIFEST,
  IMAGE_INDEX,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

/** Identifies a blob or a manifest by its digest. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  /** In bytes. */
  readonly size: number;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An image manifest whose fields are checked. */
export interface Manifest {
  readonly artifactType: string | undefined;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
  readonly subject: Descriptor | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The digest of bytes: `sha256:` and 64 hex digits. */
export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** Makes the descriptor with which a manifest refers to these bytes. */
export function describeBytes(bytes: Uint8Array, mediaType: string): Descriptor {
  return { mediaType, digest: digestOf(bytes), size: bytes.length };
}

/** Parses an image manifest and checks the fields that this program uses. Throws Error for anything else, also for an index. */
export function parseManifest(bytes: Uint8Array): Manifest {
  const value = parseJsonObject(bytes);
  const { mediaType = IMAGE_MANIFEST, layers } = value;
  if (mediaType !== IMAGE_MANIFEST)
    throw new Error(`it is not an image manifest but ${JSON.stringify(mediaType)}`);
  if (!Array.isArray(layers)) throw new Error("its manifest has no layers");
  // Other readers could read such a document as an index, with other content than this program sees.
  if (value["manifests"] !== undefined) throw new Error("its manifest is an index, too");
  return {
    artifactType: asString(value["artifactType"]),
    config: parseDescriptor(value["config"]),
    layers: layers.map(parseDescriptor),
    subject: value["subject"] === undefined ? undefined : parseDescriptor(value["subject"]),
    annotations: pickStrings(value["annotations"]),
  };
}

/** Parses the descriptors of an image index. Leaves out invalid descriptors. Throws Error if the bytes are no index. */
export function parseIndex(bytes: Uint8Array): Descriptor[] {
  // Without the key, another program has answered. Go programs write an empty list as null.
  const { manifests } = parseJsonObject(bytes);
  if (manifests !== null && !Array.isArray(manifests)) throw new Error("its manifests are not a list");
  return (manifests ?? []).flatMap((each) => attempt(() => parseDescriptor(each)) ?? []);
}

/** Most objects and lists in a document of a registry. To parse more of them takes too long for their few bytes. */
const MAX_CONTAINERS = 50_000;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
/** By byte: how much deeper the bytes after it are nested. */
const DEPTH_CHANGES = new Map([
  [0x5b, 1],
  [0x5d, -1],
  [0x7b, 1],
  [0x7d, -1],
]);

/**
 * Throws Error for JSON with too many objects and lists, or with too many in one another: a megabyte of brackets takes half a
 * second to parse, and this scan some milliseconds.
 */
function requireSimple(bytes: Uint8Array): void {
  let [count, depth, isInText] = [0, 0, false];
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index] ?? 0;
    if (byte === QUOTE) isInText = !isInText;
    else if (isInText) index += byte === BACKSLASH ? 1 : 0;
    else {
      const change = DEPTH_CHANGES.get(byte) ?? 0;
      depth += change;
      count += Math.max(change, 0);
      if (depth > MAX_DEPTH || count > MAX_CONTAINERS)
        throw new Error(
          `it has more than ${MAX_DEPTH} levels, or more than ${MAX_CONTAINERS} objects and lists`,
        );
    }
  }
}

/** Parses untrusted bytes as a JSON object. Throws Error if they are something else. */
export function parseJsonObject(bytes: Uint8Array): JsonObject {
  requireSimple(bytes);
  const value = parseJson(Buffer.from(bytes).toString("utf8"));
  if (!isJsonObject(value)) throw new Error("it is not a JSON object");
  return value;
}

/** Parses a descriptor of an untrusted manifest. Throws Error unless it has a type, a SHA-256 digest and a size. */
function parseDescriptor(value: Json | undefined): Descriptor {
  if (!isJsonObject(value)) throw new Error("it has a descriptor that is not an object");
  const { mediaType, digest, size, artifactType } = value;
  if (typeof mediaType !== "string" || !isDigest(digest))
    throw new Error("it has a descriptor without sha256 digest");
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    throw new Error("it has a descriptor without size");
  const annotations = pickStrings(value["annotations"]);
  const required = { mediaType, digest, size, annotations };
  return typeof artifactType === "string" ? { ...required, artifactType } : required;
}

/** The members of a map whose values are strings; leaves out all others, because annotations must be strings. */
function pickStrings(value: Json | undefined): Record<string, string> {
  const isText = (entry: [string, unknown]): entry is [string, string] => typeof entry[1] === "string";
  return Object.fromEntries(Object.entries(objectOf(value)).filter(isText));
}
