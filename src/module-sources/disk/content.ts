/** Content of modules on disk: what is required, what exists, and what is wrong with it. */

import { attempt, parseJson } from "../../lib/index.ts";
import { objectOf, objectsIn, type Json, type JsonObject } from "../../model/index.ts";
import { NotVerifiedError, type FoundModule } from "../../registry/index.ts";
import type { ChartContent } from "../types.ts";

/** The content that a module has to have. */
export interface RequestedContent {
  readonly name: string;
  readonly version: string | undefined;
  readonly digest: string;
  /** Set if the content is a chart. */
  readonly chart?: ChartContent | undefined;
}

/** Verified content on disk. */
export interface StoredContent extends Pick<FoundModule, "digest" | "layer" | "verified"> {
  /** Undefined for a chart whose version was not requested: its archive contains it. */
  readonly version: string | undefined;
  readonly chart: ChartContent | undefined;
}

/** An artifact that is not complete on disk. */
export class NotStoredError extends Error {
  override readonly name = "NotStoredError";
}

/** A verified artifact that is not the requested content. */
export class WrongContentError extends NotVerifiedError {}

/** Parses the digests that a manifest or an index contains: `parts` are blobs, `manifests` contain digests themselves. */
export function parseReferencedDigests(
  bytes: Buffer,
): Readonly<Record<"parts" | "manifests", readonly (Json | undefined)[]>> {
  const { config, layers, manifests } = objectOf(attempt(() => parseJson(bytes.toString("utf8"))));
  const digests = (objects: readonly JsonObject[]): (Json | undefined)[] =>
    objects.map(({ digest }) => digest);
  return {
    parts: digests([objectOf(config), ...objectsIn(layers)]),
    manifests: digests(objectsIn(manifests)),
  };
}
