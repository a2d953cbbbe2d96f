/** Manifests and descriptors of the OCI image specification, as this program reads and writes them. */

import { createHash } from "node:crypto";

import { attempt, parseJson } from "../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/index.ts";
import { isDigest } from "./reference.ts";

export const IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json";
export const IMAGE_INDEX = "application/vnd.oci.image.index.v1+json";
export const IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json";
export const LAYER = "application/vnd.oci.image.layer.v1.tar+gzip";
export const EMPTY = "application/vnd.oci.empty.v1+json";

/** What the registry may answer for a manifest; the Docker types are accepted for the error that names them. */
export const ACCEPT = [
  IMAGE_MANIFEST,
  IMAGE_INDEX,
  "application/vnd.docker.distribution.manifest.v2+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
].join(", ");

/** Names a blob or a manifest by its content. */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  /** Bytes. */
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

/** `sha256:…` of the bytes. */
export function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}

/** The descriptor of these bytes. */
export function describeBytes(bytes: Uint8Array, mediaType: string): Descriptor {
  return { mediaType, digest: digestOf(bytes), size: bytes.length };
}

/** Reads an image manifest. Throws Error for anything else, also for an index. */
export function parseManifest(bytes: Uint8Array): Manifest {
  const value = jsonObject(bytes);
  const { mediaType = IMAGE_MANIFEST, layers } = value;
  if (mediaType !== IMAGE_MANIFEST)
    throw new Error(`it is not an image manifest but ${JSON.stringify(mediaType)}`);
  if (!Array.isArray(layers)) throw new Error("its manifest has no layers");
  // Other readers could take it for an index.
  if (value["manifests"] !== undefined) throw new Error("its manifest is an index, too");
  return {
    artifactType: typeof value["artifactType"] === "string" ? value["artifactType"] : undefined,
    config: descriptor(value["config"]),
    layers: layers.map(descriptor),
    subject: value["subject"] === undefined ? undefined : descriptor(value["subject"]),
    annotations: texts(value["annotations"]),
  };
}

/** Reads the descriptors of an index; those that this program cannot use are left out. Throws Error for anything else. */
export function parseIndex(bytes: Uint8Array): Descriptor[] {
  const { manifests = null } = jsonObject(bytes);
  if (manifests !== null && !Array.isArray(manifests)) throw new Error("its manifests are not a list");
  return (manifests ?? []).flatMap((each) => attempt(() => descriptor(each)) ?? []);
}

/** Parses untrusted bytes as a JSON object. Throws Error. */
export function jsonObject(bytes: Uint8Array): JsonObject {
  const value = parseJson(Buffer.from(bytes).toString("utf8"));
  if (!isJsonObject(value)) throw new Error("it is not a JSON object");
  return value;
}

/** Checks a descriptor of an untrusted manifest. Throws Error. */
function descriptor(value: Json | undefined): Descriptor {
  if (!isJsonObject(value)) throw new Error("it has a descriptor that is not an object");
  const { mediaType, digest, size, artifactType } = value;
  if (typeof mediaType !== "string" || !isDigest(digest))
    throw new Error("it has a descriptor without sha256 digest");
  if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
    throw new Error("it has a descriptor without size");
  const annotations = texts(value["annotations"]);
  return {
    mediaType,
    digest,
    size,
    annotations,
    ...(typeof artifactType === "string" ? { artifactType } : {}),
  };
}

/** The members that are texts; other members are ignored. */
function texts(value: Json | undefined): Record<string, string> {
  if (!isJsonObject(value)) return {};
  const entries = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return Object.fromEntries(entries);
}
