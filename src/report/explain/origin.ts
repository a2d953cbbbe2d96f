/**
 * Displays where a module comes from: its directory, or a ModuleSource (a registry) with the content in force. Newer content of a
 * ModuleSource may be known but not in force yet, for example because it waits for an approval: the *update*.
 */

import { formatUtc } from "../../base/index.ts";
import type { UpdateWait } from "../../base/model/index.ts";
import type { ModuleView } from "../../engine/state/index.ts";

/** Newer content that waits. Times are in UTC. */
interface DisplayedUpdate {
  readonly waitsFor: UpdateWait;
  readonly version?: string;
  readonly digest?: string;
  readonly since: string;
  readonly until?: string;
  readonly message: string;
}

/** The ModuleSource of a module and its content, as the AddonModule has it. */
export interface DisplayedOrigin {
  readonly name: string;
  readonly version?: string;
  readonly digest?: string;
  readonly verifiedBy?: string;
  readonly next?: DisplayedUpdate;
}

/** The ModuleSource of a module as status and commands display it; undefined for a module of a directory. */
export function toDisplayedOrigin(view: Pick<ModuleView, "module" | "update">): DisplayedOrigin | undefined {
  const { update } = view;
  const { origin } = view.module;
  if (origin === undefined) return undefined;
  const { source: name, version, digest, verifiedBy } = origin;
  return {
    name,
    ...(version !== undefined && { version }),
    ...(digest !== undefined && { digest }),
    ...(verifiedBy !== undefined && { verifiedBy }),
    // A module that was removed from its source gets no update.
    ...(update !== undefined && !origin.removed && { next: toDisplayedUpdate(update) }),
  };
}

/** The newer content of a module that waits, with times in UTC. */
function toDisplayedUpdate(update: NonNullable<ModuleView["update"]>): DisplayedUpdate {
  const { waitsFor, version, digest, since, until, message } = update;
  return {
    waitsFor,
    ...(version !== undefined && { version }),
    ...(digest !== undefined && { digest }),
    since: formatUtc(since),
    ...(until !== undefined && { until: formatUtc(until) }),
    message,
  };
}

/** Sentences about the ModuleSource of a module: the content in force, and newer content that waits; an empty list without a ModuleSource. */
export function describeOrigin(origin: DisplayedOrigin | undefined): string[] {
  if (origin === undefined) return [];
  const { name, next } = origin;
  const content = describeContent(origin);
  return [
    ...(content === undefined ? [] : [`from ModuleSource ${name}: ${content}`]),
    ...(next === undefined ? [] : [describeUpdate(next)]),
  ];
}

/** The content in force as text: version, digest and the key that signed it; undefined if no content is in force. */
export function describeContent({ version, digest, verifiedBy }: DisplayedOrigin): string | undefined {
  if (version === undefined) return undefined;
  const signed = verifiedBy === undefined || verifiedBy === "" ? "" : `, signed by ${verifiedBy}`;
  return `version ${version} (${digest ?? ""})${signed}`;
}

/** A sentence about newer content that waits, and at most until when. */
function describeUpdate({ message, since, until }: DisplayedUpdate): string {
  const times = [`since ${since}`, until === undefined ? undefined : `until ${until}`];
  return `update: ${message} (${times.filter(Boolean).join(", ")})`;
}
