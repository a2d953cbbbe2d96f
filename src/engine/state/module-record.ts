/**
 * The record of one module: everything that the operator knows of it (`module-events.ts` changes it). It includes confirmations: a
 * user writes a token into an annotation of the AddonModule to allow one certain change, for example of its CRDs.
 */

import { NO_DRIFT, type Drift } from "../../kube/drift/index.ts";
import type { Health } from "../../kube/health/index.ts";
import {
  listEnabledCrdFiles,
  type CrdRequest,
  type Release,
  CONFIRM_CRDS,
  CONFIRM_TAKEOVER,
} from "../../helm/index.ts";
import type { EnabledBy, Hook, Module, Problem, WaitingUpdate } from "../../base/model/index.ts";
import { buildHelmInput, type ValuesView } from "../../values/index.ts";
import { NEVER_RAN, type RunRecord } from "./run-record.ts";

/** A decision of modules discovery about one module. */
export interface Enablement {
  readonly enabled: boolean;
  readonly by: EnabledBy;
  readonly reason?: string | undefined;
  readonly problem?: Problem;
  /** Its `enabled` script was not run, because values are missing: it runs nothing until the next discovery. */
  readonly awaitsScript?: boolean;
}

/** The health of one revision of a release. */
export interface RevisionHealth extends Health {
  readonly revision: number | undefined;
}

/** A user's request to roll back, which a change of the chart or of the values ends. */
export interface RollbackRequest {
  /** Undefined = the last one before the current one. */
  readonly revision: number | undefined;
  /** The module and the digest of the user's values at the time of the request. */
  readonly module: Module;
  readonly userValuesDigest: string;
}

/** The record of one module, without what can be derived. Immutable: each event makes a new record. */
export interface ModuleRecord {
  readonly module: Module;
  readonly hooks: readonly Hook[];
  /** The module as it was when its hooks and schemas were last loaded. */
  readonly loadedModule: Module | undefined;
  /** How often the module's files were read again outside of a converge; undefined = never. */
  readonly files: number | undefined;
  /** The module as it was when its CRDs were last applied. */
  readonly crdsAppliedFor: Module | undefined;
  /** Progress text of the work on its CRDs; undefined while there is none. */
  readonly crdWork: string | undefined;
  /** Set if its hooks could not be configured or its schemas not compiled. */
  readonly loadProblem: Problem | undefined;
  /** A problem that discovery or a run found: the module is protected but off, another owner has the release, values or CRDs are refused. Only with `retriedAs` can it end without a user. */
  readonly decisionProblem: Problem | undefined;
  readonly enabled: boolean;
  readonly enabledBy: EnabledBy;
  readonly enabledReason: string | undefined;
  readonly awaitsScript: boolean;
  /** The last call of its `enabled` script took too long. */
  readonly scriptHangs: boolean;
  readonly run: RunRecord;
  readonly release: Release | undefined;
  /** Missing objects of the release that are due to be restored, as `namespace/Kind/name` or `Kind/name`. */
  readonly missingObjects: readonly string[];
  /** Missing objects in back-off, because they disappear repeatedly; they move to `missingObjects` when it ends. */
  readonly deferredObjects: readonly string[];
  /** Former objects of the release that finalizers keep although they are being deleted, with these finalizers. */
  readonly leftovers: readonly string[];
  /** Undefined while no objects of its release are watched. */
  readonly health: RevisionHealth | undefined;
  /** Result of the last readiness probe; undefined before the first one since the module became enabled. */
  readonly probe: { readonly failure: string | undefined } | undefined;
  readonly drift: Drift;
  /** Why the release record cannot be read; then the objects of the release are unknown. */
  readonly releaseReadError: string | undefined;
  /** Why some kubernetes bindings of its hooks cannot work. */
  readonly issues: readonly string[];
  readonly requestedToken: string | undefined;
  readonly rollbackRequest: RollbackRequest | undefined;
  /** Token of the CRD change that a user has confirmed. */
  readonly confirmedCrds: string | undefined;
  /** Token of the existing objects that a user allows the release to take over. */
  readonly confirmedTakeover: string | undefined;
  /** The content of a registry, as `VERSION@DIGEST`, that a user has approved. */
  readonly confirmedUpdate: string | undefined;
  /** Newer content of a registry that is not used yet; undefined = none is known. */
  readonly update: WaitingUpdate | undefined;
  /** Confirmations without an open question, as token by annotation: the annotation is removed from the AddonModule. */
  readonly endedConfirmations: Readonly<Record<string, string>>;
  /** Ids of bindings whose Synchronization succeeded in this first run. A retry of the run does not repeat them. */
  readonly synchronizedBindings: ReadonlySet<string>;
  /** Ids of the hooks whose watches and schedules are active. */
  readonly activeHooks: ReadonlySet<string>;
  /** A hook or helm ran for this module in this process, so a delete must run the delete hooks. */
  readonly hasRunInProcess: boolean;
  /** The module is off, and its removal is decided but not done. */
  readonly isRemovalDecided: boolean;
  /** False before the first discovery of the module: then `enabled` means nothing. */
  readonly isDiscovered: boolean;
}

/** The record of a module of which nothing is known yet besides its files. */
export function newModuleRecord(module: Module): ModuleRecord {
  return {
    module,
    hooks: [],
    loadedModule: undefined,
    files: undefined,
    crdsAppliedFor: undefined,
    crdWork: undefined,
    loadProblem: undefined,
    decisionProblem: undefined,
    enabled: false,
    enabledBy: "none",
    enabledReason: undefined,
    awaitsScript: false,
    scriptHangs: false,
    run: NEVER_RAN,
    release: undefined,
    missingObjects: [],
    deferredObjects: [],
    leftovers: [],
    health: undefined,
    probe: undefined,
    drift: NO_DRIFT,
    releaseReadError: undefined,
    issues: [],
    requestedToken: undefined,
    rollbackRequest: undefined,
    confirmedCrds: undefined,
    confirmedTakeover: undefined,
    confirmedUpdate: undefined,
    update: undefined,
    endedConfirmations: {},
    synchronizedBindings: new Set(),
    activeHooks: new Set(),
    hasRunInProcess: false,
    isRemovalDecided: false,
    isDiscovered: false,
  };
}

/** What to apply before a run of the module: its CRD files that these values select, and the user's confirmation of a CRD change. */
export function buildCrdRequest(
  values: ValuesView,
  { module, confirmedCrds }: Pick<ModuleRecord, "module" | "confirmedCrds">,
): CrdRequest {
  const files = listEnabledCrdFiles(module, () => buildHelmInput(values, module).values);
  return { release: module.name, files, confirmed: confirmedCrds };
}

/** Whether the module's files cannot be used: unlike other problems, this forbids to remove the module, too. */
export function hasBrokenFiles({ module, loadProblem }: ModuleRecord): boolean {
  return (module.problem ?? loadProblem) !== undefined;
}

/** Whether the `enabled` script of the module failed, so that its last decision stays until the script answers. */
export function hasFailedScript({ decisionProblem }: Pick<ModuleRecord, "decisionProblem">): boolean {
  return decisionProblem?.retriedAs === "ScriptFailed";
}

/** The problem of the module, in its files or found by discovery or a run. A user must solve it, unless the operator tries again (`retriedAs`). */
export function problemOf({ module, loadProblem, decisionProblem }: ModuleRecord): Problem | undefined {
  return module.problem ?? loadProblem ?? decisionProblem;
}

/** Separates the parts of a request token; the value of an annotation cannot contain it. */
const SEPARATOR = "\n";

/**
 * Makes a token for a run that a command requests: a token that differs from the last one makes a run due. It consists of the last
 * token that a user wrote into the annotation, which the status must go on to report as handled, and a counter.
 */
export function makeRequestToken(lastToken: string | undefined): string {
  const [annotation = "", count = "0"] = (lastToken ?? "").split(SEPARATOR);
  return `${annotation}${SEPARATOR}${Number(count) + 1}`;
}

/** The part of a request token that a user wrote into the annotation; undefined if no annotation preceded the request. */
export function readAnnotationToken(token: string | undefined): string | undefined {
  return token?.split(SEPARATOR)[0] || undefined;
}

/** Annotation of the AddonModule that approves new content of a module from a registry: `VERSION@DIGEST`. */
export const APPROVE_UPDATE = "addon-operator.io/approve";

type Annotations = Readonly<Record<string, string>>;

/** The annotations with confirmations of users, by the field of the record that has the confirmed token. */
const ANNOTATIONS = {
  confirmedCrds: CONFIRM_CRDS,
  confirmedTakeover: CONFIRM_TAKEOVER,
  confirmedUpdate: APPROVE_UPDATE,
} as const;
export type Confirmed = keyof typeof ANNOTATIONS;
const CONFIRMED = Object.keys(ANNOTATIONS) as Confirmed[];
type Confirmations = Pick<ModuleRecord, Confirmed | "endedConfirmations">;

/**
 * Reads the users' confirmations from the annotations of the AddonModule for the record. A confirmation that was used does
 * not count again, although its annotation exists until the status mirror has removed it.
 */
export function readConfirmations(record: ModuleRecord, annotations: Annotations): Partial<Confirmations> {
  const isStillAnnotated = ([name, token]: [string, string]): boolean => annotations[name] === token;
  const ended = Object.fromEntries(Object.entries(record.endedConfirmations).filter(isStillAnnotated));
  // Each kind of confirmation is a field of the record with the confirmed token.
  const tokens = CONFIRMED.map((kind) => {
    const name = ANNOTATIONS[kind];
    return [kind, ended[name] === undefined ? annotations[name] : undefined];
  });
  return { ...Object.fromEntries(tokens), endedConfirmations: ended };
}

/** Whether the record has the confirmations of these annotations already, used ones included: then `readConfirmations` would change nothing. */
export function hasConfirmations(record: ModuleRecord, annotations: Annotations): boolean {
  return CONFIRMED.every((kind) => {
    const name = ANNOTATIONS[kind];
    return annotations[name] === (record[kind] ?? record.endedConfirmations[name]);
  });
}

/** Ends a confirmation that was used or is not needed: the status mirror removes its annotation. A newer confirmation (another `token`) stays. */
export function endConfirmation(
  record: ModuleRecord,
  kind: Confirmed,
  token?: string,
): Partial<Confirmations> {
  if (token === undefined || record[kind] !== token) return {};
  const endedConfirmations = { ...record.endedConfirmations, [ANNOTATIONS[kind]]: token };
  return { [kind]: undefined, endedConfirmations };
}
