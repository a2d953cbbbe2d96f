/** Content of modules on disk: what is required, what exists, and what is wrong with it. */

import { NotVerifiedError, type FoundModule } from "../registry/index.ts";
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

/** Verified content whose version is known. */
export interface VerifiedContent extends StoredContent {
  readonly version: string;
}

/** An artifact that is not complete on disk. */
export class NotStoredError extends Error {
  override readonly name = "NotStoredError";
}

/** A verified artifact that is not the requested content. */
export class WrongContentError extends NotVerifiedError {}
