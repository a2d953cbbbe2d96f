/**
 * Decides about annotations of AddonModules and the AddonOperator: requests (of a run, of a converge of all modules) and confirmations.
 * A confirmation has the token of a question of the operator, such as whether it may delete releases.
 */

import { CONFIRM_CRDS, CONFIRM_TAKEOVER } from "../../helm/index.ts";
import { annotateCommand } from "../../kube/index.ts";
import { findNearestName, plainLine } from "../../base/index.ts";
import { REQUESTED_AT, type Question } from "../../base/model/index.ts";
import { CONFIRM_DELETE, formatConfirmCommand } from "../../engine/plan/index.ts";
import { APPROVE_UPDATE, type View } from "../../engine/state/index.ts";
import { INVALID_TOKEN_MESSAGE, isRequestToken } from "../../config/index.ts";
import { allow, refuse, type ReviewAnswer } from "./answer.ts";

type Annotations = Readonly<Record<string, string>>;

export interface AnnotationEdit {
  readonly kind: "AddonModule" | "AddonOperator";
  readonly name: string;
  readonly before: Annotations;
  readonly after: Annotations;
}

interface ChangedAnnotation {
  readonly key: string;
  readonly value: string;
}

/** As the status of a waiting update names it. */
const APPROVAL = /^[^\s@]+@sha256:[0-9a-f]{64}$/;
const KNOWN_ANNOTATIONS: Readonly<Record<AnnotationEdit["kind"], readonly string[]>> = {
  AddonModule: [REQUESTED_AT, CONFIRM_CRDS, CONFIRM_TAKEOVER, APPROVE_UPDATE],
  AddonOperator: [REQUESTED_AT, CONFIRM_DELETE],
};
/** An annotation of the operator, also with a sub-domain such as `reconcile.addon-operator.io/`. */
const OPERATOR_ANNOTATION = /^(?:[a-z]+\.)?addon-operator\.io\//;
/** A message quotes this many characters of a token. */
const MAX_QUOTED_LENGTH = 20;

/**
 * Refuses malformed requests and confirmations that confirm nothing, with the right command; warns of annotations that have
 * no effect. Decides about changed annotations only, and about removed ones never.
 */
export function checkAnnotations(edit: AnnotationEdit, view: View): ReviewAnswer {
  const { kind, before, after } = edit;
  const isOfOtherOperator = kind === "AddonOperator" && edit.name !== view.operator.name;
  if (isOfOtherOperator) return allow();
  const changed = Object.entries(after).filter(([key, value]) => before[key] !== value);
  const warnings: string[] = [];
  for (const [key, value] of changed) {
    if (!OPERATOR_ANNOTATION.test(key)) continue;
    if (!KNOWN_ANNOTATIONS[kind].includes(key)) {
      warnings.push(describeUnknownAnnotation(key, kind));
      continue;
    }
    const message = explainInvalidValue({ key, value }, edit, view);
    if (message !== undefined) return refuse(message);
  }
  return allow(warnings);
}

/** Why the edit of a known annotation is refused; undefined = its value is accepted. */
function explainInvalidValue(
  changed: ChangedAnnotation,
  edit: AnnotationEdit,
  view: View,
): string | undefined {
  if (changed.key === REQUESTED_AT) return explainInvalidRequest(changed.value, edit, view);
  if (changed.key === APPROVE_UPDATE) return explainInvalidApproval(changed.value, edit, view);
  return explainInvalidConfirmation(changed, edit, view);
}

/** Why an approval of an update is refused. Whether an update with this content waits is known only to the checks of the ModuleSources. */
function explainInvalidApproval(value: string, { name }: AnnotationEdit, view: View): string | undefined {
  if (value === "" || APPROVAL.test(value)) return undefined;
  const subject = `${APPROVE_UPDATE}: ${plainLine(value, MAX_QUOTED_LENGTH)}`;
  const show = `kubectl describe -n ${view.operator.namespace} addonmodule/${name}`;
  return `${subject} approves nothing: the value must be VERSION@sha256:DIGEST; if an update waits for an approval, this shows the command: ${show}`;
}

function describeUnknownAnnotation(key: string, kind: AnnotationEdit["kind"]): string {
  const meant = findNearestName(key, KNOWN_ANNOTATIONS[kind]);
  return `annotation ${key} has no effect on an ${kind}${meant === undefined ? "" : ` (did you mean ${meant}?)`}`;
}

/** Why a request is refused, with the right command; undefined = its token is accepted. */
function explainInvalidRequest(
  token: string,
  { kind, name }: AnnotationEdit,
  view: View,
): string | undefined {
  if (isRequestToken(token)) return undefined;
  const annotation = { [REQUESTED_AT]: '"$(date +%s)"' };
  const command = annotateCommand(`${kind.toLowerCase()}/${name}`, view.operator.namespace, annotation);
  return `${REQUESTED_AT}: ${INVALID_TOKEN_MESSAGE}: ${command}`;
}

/**
 * Why the edit of a confirmation annotation is refused. Undefined if its token is empty or answers an open question, or if the
 * operator cannot know yet which questions are open.
 */
function explainInvalidConfirmation(
  { key, value: token }: ChangedAnnotation,
  edit: AnnotationEdit,
  view: View,
): string | undefined {
  if (token === "") return undefined;
  const question = listOpenQuestions(edit, view).find(({ annotation }) => annotation === key);
  if (question?.token === token) return undefined;
  const subject = `${key}: ${plainLine(token, MAX_QUOTED_LENGTH)}`;
  if (question !== undefined)
    return `${subject} does not confirm what waits for a confirmation now; to confirm that: ${question.command}`;
  if (!areQuestionsKnown(edit, view)) return undefined;
  const status = `kubectl describe -n ${view.operator.namespace} ${edit.kind.toLowerCase()}/${edit.name}`;
  return `${subject} confirms nothing: nothing waits for a confirmation; when something does, this shows the command: ${status}`;
}

/** The questions that a user may answer by an annotation of this object: those of a module, or of the operator whether it may delete releases. */
function listOpenQuestions({ kind, name }: AnnotationEdit, view: View): Question[] {
  if (kind === "AddonModule") {
    const { problem, retry } = view.modules.get(name) ?? {};
    return [problem?.question, retry?.question].filter((each) => each !== undefined);
  }
  const { deletionLimit: limit } = view;
  if (limit === undefined || limit.confirmed) return [];
  return [{ annotation: CONFIRM_DELETE, token: limit.token, command: formatConfirmCommand(limit, view) }];
}

/** Whether everything that may wait for a confirmation is known: nothing is under way that may bring a question. */
function areQuestionsKnown({ kind, name }: AnnotationEdit, view: View): boolean {
  if (view.boot !== "running" || view.converge.phase !== "idle") return false;
  const module = view.modules.get(name);
  return kind === "AddonOperator" || (module !== undefined && module.activity === "none");
}
