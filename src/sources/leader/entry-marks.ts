/**
 * Which content of a module is good or rejected, as the marks of its entry in the lock record (docs/guides/module-sources.md,
 * "When an update fails"), and how the next entry follows from the last one. *Good* content has worked, so a failed update is
 * rolled back to it; *rejected* content has failed, and is not tried again. The mark `isNew` belongs to content that is not good
 * yet, `previous` to the good content before it, and `isBack` to good content to which a failed update was rolled back.
 */

import { omitUndefined } from "../../report/index.ts";
import type { VerifiedContent } from "../disk/content.ts";
import type { RequestedModule } from "../locked-modules.ts";
import type { ChartContent, Lock, LockEntry, ModuleRequest } from "../types.ts";

/** A module that a source names. */
export interface SourceModule extends RequestedModule {
  readonly name: string;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
}

/** Value of `verifiedBy` for a chart without a signature. It cannot be a key: names of keys and identities have an extension. */
const VERIFIED_BY_NONE = "unsigned";
/** Most rejected digests in an entry: its size is limited. */
const MAX_REJECTED = 10;

/** Names the key that signed verified content, for `verifiedBy`. */
export function nameSigner({ verified }: Pick<VerifiedContent, "verified">): string {
  return verified?.signer.source ?? VERIFIED_BY_NONE;
}

/**
 * Builds the entry of new content that is locked now (`at`). A failed update rolls back to the last good content, unless the
 * module was another chart before.
 */
export function buildUpdatedEntry(
  content: VerifiedContent,
  module: SourceModule,
  locked: LockEntry | undefined,
  at: number,
): LockEntry {
  const next = buildEntry(content, module, at);
  if (locked === undefined) return next;
  const previous = isSameChart(locked.chart, content.chart) ? { previous: findGoodContent(locked) } : {};
  const rejected = listRejected(locked, module.request).filter((each) => each !== content.digest);
  return { ...next, ...previous, isNew: true, ...toRejectedMarks(rejected, module.request) };
}

/** Builds the entry after a failed update: with the good content before it, and with the failed content as rejected. */
export function buildRolledBackEntry(
  content: VerifiedContent,
  module: SourceModule,
  failed: LockEntry,
  at: number,
): LockEntry {
  const others = listRejected(failed, module.request).filter((each) => each !== failed.digest);
  const rejected = [failed.digest, ...others].slice(0, MAX_REJECTED);
  return {
    ...buildEntry(content, module, at),
    isBack: true,
    ...toRejectedMarks(rejected, module.request),
  };
}

/**
 * Builds the entry of a module whose content stays, with order, flag and chart settings of the current request. Another request
 * clears the rejected digests. The mark of a rollback goes with them, or if the content is what the request names (`isRequested`).
 */
export function buildKeptEntry(
  locked: LockEntry,
  { source, request, chart }: SourceModule,
  isRequested: boolean,
): LockEntry {
  const { version, digest, verifiedBy, at, isNew, previous, isBack, seen } = locked;
  const rejected = listRejected(locked, request);
  const isStillBack = isBack === true && rejected.length > 0 && !isRequested;
  return {
    source,
    version,
    digest,
    verifiedBy,
    at,
    ...omitUndefined({ isNew, previous, seen, chart }),
    ...toEntrySettings(request),
    ...toRejectedMarks(rejected, request),
    ...(isStillBack ? { isBack } : {}),
  };
}

/** Builds the entry of content that has become good. */
export function buildGoodEntry(entry: LockEntry): LockEntry {
  const { isNew: _, ...others } = entry;
  return others;
}

/** Whether content has failed with this request: another request tries it again. */
export function isRejected(locked: LockEntry | undefined, request: ModuleRequest, digest: string): boolean {
  return locked !== undefined && listRejected(locked, request).includes(digest);
}

/**
 * Describes for which other update an update has to wait; undefined if it may begin. At most `parallel` updates of a source
 * are in progress, or were rolled back and wait for other content.
 */
export function describeBlockingUpdate(
  lock: Lock,
  { name, source }: Pick<SourceModule, "name" | "source">,
  parallel: number,
): string | undefined {
  const others = [...lock].filter(
    ([other, { source: provider, isNew, isBack, removed }]) =>
      other !== name && provider === source && (isNew === true || isBack === true) && removed !== true,
  );
  const [first] = others;
  if (first === undefined || others.length < parallel) return undefined;
  const [other, { version, isBack }] = first;
  return isBack === true
    ? `because an update of ${other} has failed, and ${version} is in use again`
    : `while the update of ${other} to ${version} is in progress`;
}

/** Whether both are the same chart of the same location, or both are modules (undefined): else, versions cannot be compared. */
export function isSameChart(left: ChartContent | undefined, right: ChartContent | undefined): boolean {
  return left?.from === right?.from && left?.name === right?.name;
}

/** The last good content of a module: the locked one, or the one before it while that is new. */
function findGoodContent({
  version,
  digest,
  isNew,
  previous,
}: LockEntry): NonNullable<LockEntry["previous"]> {
  return isNew === true && previous !== undefined ? previous : { version, digest };
}

/** The fields of an entry that has no marks. */
function buildEntry(content: VerifiedContent, { source, request }: SourceModule, at: number): LockEntry {
  const { version, digest, chart } = content;
  const verifiedBy = nameSigner(content);
  return { source, version, digest, verifiedBy, at, ...(chart && { chart }), ...toEntrySettings(request) };
}

/** The digests that were rejected for this request. */
function listRejected({ rejected = [], rejectedFor }: LockEntry, request: ModuleRequest): readonly string[] {
  return rejectedFor === serializeRequest(request) ? rejected : [];
}

/** The marks of an entry that record rejected digests; none if there are no such digests. */
function toRejectedMarks(
  rejected: readonly string[],
  request: ModuleRequest,
): Pick<LockEntry, "rejected" | "rejectedFor"> {
  return rejected.length === 0 ? {} : { rejected, rejectedFor: serializeRequest(request) };
}

/** A request as text, which the lock records beside rejected digests. */
export function serializeRequest({ version, tag, digest }: ModuleRequest): string {
  return JSON.stringify([version, tag, digest]);
}

/** Order and flag of a request, which the lock keeps so that they apply while the source cannot be read. */
function toEntrySettings({ order, enabled }: ModuleRequest): Pick<LockEntry, "order" | "enabled"> {
  return omitUndefined({ order, enabled });
}
