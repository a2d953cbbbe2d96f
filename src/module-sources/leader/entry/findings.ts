/** What a check of a source has found. */

import type { UpdateWait } from "../../../model/index.ts";
import type { Complete } from "../../types.ts";

/** Why a module does not have the content that its source requires. */
export interface ModuleError {
  readonly reason: "NotVerified" | "Blocked" | "Overridden" | "CheckFailed" | "Withdrawn";
  /** One line, without credentials. */
  readonly message: string;
}

/** Newer content that waits. */
export interface Held extends Complete {
  /** When it was first seen, in milliseconds since the epoch. */
  readonly since: number;
  /** When it may be taken; undefined = when a user approves it. */
  readonly until: number | undefined;
  readonly waitsFor: UpdateWait;
  readonly reason: string;
}

/** What a check of a source has found, by module. */
export interface Checked {
  readonly errors: ReadonlyMap<string, ModuleError>;
  readonly held: ReadonlyMap<string, Held>;
}

/** Reasons that need a user's action: a retry does not help. */
export const FINAL: ReadonlySet<ModuleError["reason"]> = new Set(["NotVerified", "Blocked"]);
