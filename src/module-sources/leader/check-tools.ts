/** What checks of ModuleSources use of the operator: the lock, the state, the registries and the reports. */

import { Memo } from "../../lib/index.ts";
import type { Signer } from "../../registry/index.ts";
import type { SourcesContext } from "../context.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import type { RefusalMemo } from "../fetch/fetch-content.ts";
import type { AccessOptions } from "../fetch/registry-access.ts";
import type { LockedModules } from "../locked-modules.ts";
import type { Source } from "../source-list.ts";
import { describeContentProblem } from "./check-content.ts";
import { describeUpdateFailure } from "./entry/failed-update.ts";
import type { PendingUpdate } from "./entry/findings.ts";
import type { CandidateContent } from "./entry/roll-back.ts";
import { createReporter, type CheckReporter } from "./reporter.ts";

/** Most refused digests that are remembered, so that a check does not fetch them again. */
const MAX_REFUSALS = 1000;
/** Most indexes of chart repositories that are kept in memory between checks. */
const MAX_INDEXES = 100;

/** The functions and limits that a check of a source uses. */
export interface CheckTools {
  readonly lockedModules: LockedModules;
  readonly blobStore: BlobStore;
  readonly access: AccessOptions;
  /** All keys of the installer. */
  readonly installerKeys: () => readonly Signer[];
  /** Most bytes of blobs on disk. */
  readonly maxBytes: number;
  /** Why the content must not be used, in one line. */
  readonly findContentProblem: (content: CandidateContent) => Promise<string | undefined>;
  /** Whether the source still names the module in this way: it may have changed during the check. */
  readonly isStillRequested: (source: Source, name: string) => boolean;
  /** Changes lock and content, while nothing else does, and then publishes both. */
  readonly commit: (work: () => Promise<void>) => Promise<void>;
  /** Digests that were refused, with the keys at that time. */
  readonly refusals: RefusalMemo;
  readonly reporter: CheckReporter;
  /** The digest from which the installed release was made, if that is known. */
  readonly getInstalledDigest: (module: string) => string | undefined;
  /** Why the update that is in use has failed; undefined if it has not. */
  readonly getUpdateFailure: (module: string) => string | undefined;
  /** What a user has approved: `VERSION@DIGEST`. */
  readonly getApproval: (module: string) => string | undefined;
  /** Ends an approval whose content is in force. */
  readonly endApproval: (module: string, approval: string) => void;
  /** What waited for the module at the last check. */
  readonly getPendingUpdate: (source: string, module: string) => PendingUpdate | undefined;
  /** The operator's time zone. */
  readonly timeZone: string;
  readonly now: () => number;
}

/** Connects checks to the operator. `controller` adds the functions that depend on the checks under way. */
export function createCheckTools(
  { options, lockedModules, blobStore, installerKeys }: SourcesContext,
  controller: Pick<CheckTools, "commit" | "isStillRequested" | "getPendingUpdate">,
): CheckTools {
  const { clock, state } = options;
  return {
    lockedModules,
    blobStore,
    access: { ...options, indexes: new Memo(MAX_INDEXES) },
    ...controller,
    maxBytes: options.maxBytes,
    installerKeys: () => installerKeys().keys,
    findContentProblem: (content) =>
      describeContentProblem({ ...options, tmpDir: blobStore.scratchDir }, content),
    getApproval: (module) => state.module(module)?.confirmedUpdate,
    endApproval: (module, approval) =>
      state.recordModule(module, "confirmationEnded", "confirmedUpdate", approval),
    getInstalledDigest: options.getInstalledDigest,
    getUpdateFailure: (module) => {
      const entry = lockedModules.entries.get(module);
      return (
        entry &&
        describeUpdateFailure(entry, state.view.modules.get(module), () => options.getInstalledDigest(module))
      );
    },
    timeZone: options.timeZone,
    refusals: new Memo(MAX_REFUSALS),
    reporter: createReporter(options),
    now: () => clock.now(),
  };
}
