/**
 * Decides about edits of the operator's ConfigMap before they are stored (docs/guides/webhooks.md, "Reject wrong edits"). The ConfigMap has a
 * key with the values of each module (its *section*) and a key `…Enabled`. A simulation is a copy of the operator's state, in which an edit is tried.
 */

import { sameJson } from "../../base/index.ts";
import { describeProblem, member, type Problem } from "../../base/model/index.ts";
import { CONFIRM_DELETE, formatConfirmCommand, explainDeletionLimit } from "../../engine/plan/index.ts";
import type { DeletionLimitView, Simulation } from "../../engine/state/index.ts";
import {
  checkDisabledModules,
  describeUnknownKeys,
  findBlockingProblems,
  reparseConfigMap,
  findSizeProblem,
} from "../../values/index.ts";
import type { ParsedConfig } from "../../values/index.ts";
import { allow, MAX_WARNINGS, refuse, type ReviewAnswer } from "./answer.ts";
import { describeEffects, forecastEdit, type AdmissionSources, type Forecast } from "./forecast.ts";
/** Far more than there are keys of modules: more would take long to check. */
const MAX_KEYS = 20_000;
/** A message names this many problems and counts the others: it must be readable. */
const MAX_PROBLEMS = 20;

type Data = Readonly<Record<string, string>>;

export interface ConfigEdit {
  /** Name of the ConfigMap, for messages. */
  readonly name: string;
  readonly before: Data;
  readonly data: Data;
  /** Of the edited object. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly isDryRun: boolean;
}

/**
 * Refuses what would make the ConfigMap invalid, what exceeds the deletion limit, and what switches a protected module off, with the messages
 * of the operator. Warns of keys without effect and, in a dry run, of what the edit would do. Changes nothing: the state is tried on a copy.
 */
export function checkConfigEdit(edit: ConfigEdit, sources: AdmissionSources): ReviewAnswer {
  const { name, data } = edit;
  const { state } = sources;
  if (sameJson(edit.before, data)) return allow();
  if (!state.view.config.isInForce) return allow(["the operator is starting, so the edit is not checked"]);
  const file = `ConfigMap ${name}`;
  const tooLarge = findTooManyKeys(file, data) ?? findSizeProblem(file, data);
  if (tooLarge !== undefined) return refuseProblems([tooLarge]);
  const simulation = state.createSimulation();
  const { values } = simulation;
  const config = reparseConfigMap({ file, before: values.config }, data, values.modules());
  const candidate = { name, config, overlay: values.overlay };
  const problems = findBlockingProblems(values, candidate);
  if (problems.length > 0) return refuseProblems(problems);
  const notes = [
    ...describeWarnings(config, edit, simulation),
    ...checkDisabledModules(values, candidate).filter(isProblemOfEdit(edit)).map(describeProblem),
  ];
  return checkValidEdit(config, { edit, simulation, notes }, sources);
}

function findTooManyKeys(file: string, data: Data): Problem | undefined {
  const count = Object.keys(data).length;
  if (count <= MAX_KEYS) return undefined;
  return { file, message: `too large: it has ${count} keys`, remedy: `keep at most ${MAX_KEYS} keys` };
}

/** Refuses an edit with the texts that the Event ConfigMapInvalid would have. */
function refuseProblems(problems: readonly Problem[]): ReviewAnswer {
  const texts = problems.slice(0, MAX_PROBLEMS).map(describeProblem);
  const more = problems.length - MAX_PROBLEMS;
  if (more > 0) texts.push(`and ${more} more problems`);
  return refuse(texts.join("; "));
}

function isChanged({ before, data }: ConfigEdit, key: string): boolean {
  return member(before, key) !== member(data, key);
}

/**
 * Decides about an edit whose content is valid. Refuses it if it would remove a protected module, or if its removals
 * exceed the deletion limit and are not confirmed.
 */
function checkValidEdit(
  config: ParsedConfig,
  { edit, simulation, notes }: { edit: ConfigEdit; simulation: Simulation; notes: readonly string[] },
  sources: AdmissionSources,
): ReviewAnswer {
  const { state } = sources;
  // Before the first converge (a run of all modules) there are no decisions to compare with.
  const hasConverged = state.view.converge.handled !== undefined;
  if (!hasConverged) return allow(notes);
  simulation.setConfig(config);
  const causesConverge =
    simulation.values.digests.globalConfigDigest() !== state.values.digests.globalConfigDigest();
  // Without a converge, the edit switches no module on or off; it only runs the modules whose values it changes.
  if (!causesConverge) {
    const effects = edit.isDryRun ? describeEffects(simulation, { state, forecasts: undefined }) : [];
    return allow([...notes, ...effects]);
  }
  // Also without the edit, because only what the edit adds counts.
  const before = forecastEdit(state.createSimulation(), sources);
  const after = forecastEdit(simulation, sources);
  const protectedRemovals = after.enablementChanges
    .filter(isProtectedRemoval)
    .flatMap(({ decision }) => decision.problem ?? []);
  if (protectedRemovals.length > 0) return refuseProblems(protectedRemovals);
  const exceeded = findNewlyExceededLimit(before, after);
  const isConfirmed = exceeded !== undefined && edit.annotations[CONFIRM_DELETE] === exceeded.token;
  if (exceeded !== undefined && !isConfirmed) return refuse(explainLimitRefusal(exceeded, sources));
  const limitNotes = exceeded === undefined ? [] : [explainDeletionLimit(exceeded, state.view)];
  const effects = edit.isDryRun ? describeEffects(simulation, { state, forecasts: { before, after } }) : [];
  return allow([...limitNotes, ...notes, ...effects]);
}

/** Warnings about keys that match no module, and about the texts of keys, as far as the edit has changed them. */
function describeWarnings(config: ParsedConfig, edit: ConfigEdit, { values }: Simulation): string[] {
  const unknown = config.unknownKeys.filter((key) => isChanged(edit, key));
  // A suggestion compares a key with the keys of all modules, so only as many keys get one as the answer shows.
  const described = describeUnknownKeys(unknown.slice(0, MAX_WARNINGS), values.modules());
  const keys = [...described, ...unknown.slice(MAX_WARNINGS)];
  const keyWarnings = keys.map((key) => `${key}: this key matches no module and has no effect`);
  const changedTexts = [...config.texts].filter(([key]) => isChanged(edit, key));
  return [...keyWarnings, ...changedTexts.flatMap(([, { warnings }]) => warnings)];
}

/** Returns a test whether the edit has changed the key of a problem (`section` or `section/path`), or the key that enables its module. */
function isProblemOfEdit(edit: ConfigEdit): (problem: Problem) => boolean {
  return ({ key = "" }) => {
    const [section = ""] = key.split("/");
    return isChanged(edit, section) || isChanged(edit, `${section}Enabled`);
  };
}

/** Whether the edit switches off a module that is protected: a module that is off has no other problem. */
function isProtectedRemoval({ decision }: Forecast["enablementChanges"][number]): boolean {
  return !decision.enabled && decision.problem !== undefined;
}

/** The removals that exceed the deletion limit; undefined if they are confirmed, or if all of them exceed it without the edit, too. */
function findNewlyExceededLimit(before: Forecast, after: Forecast): DeletionLimitView | undefined {
  const { deletionLimit: limit } = after.removals;
  if (limit === undefined || limit.confirmed) return undefined;
  const coveredBefore = new Set(before.removals.deletionLimit?.covers);
  return limit.covers.every((release) => coveredBefore.has(release)) ? undefined : limit;
}

/** Why the edit is refused. An edit with the annotation is stored, and its removals wait for the confirmation. */
function explainLimitRefusal(limit: DeletionLimitView, { state: { view } }: AdmissionSources): string {
  const annotated = `repeat the edit with the annotation ${CONFIRM_DELETE}: ${limit.token} of the ConfigMap`;
  const remedy = `leave them enabled, or ${annotated}, and confirm then: ${formatConfirmCommand(limit, view)}`;
  return explainDeletionLimit(limit, view, remedy);
}
