/** What a hook must not do while it answers a review, and which answers are none (docs/reference/hooks.md, "Webhooks"). */

import { isReviewBinding } from "../../bindings/index.ts";
import type { HookAnswers } from "../../hooks/index.ts";
import { objectsIn, type Binding, type Hook, type ReviewTrigger } from "../../model/index.ts";
import type { ValidatedPatches } from "../../values/index.ts";

/** Why nothing of a run for this binding takes effect although its files are valid; undefined = it takes effect. */
export function describeForbiddenEffect(
  binding: Binding,
  { config, values, flags }: ValidatedPatches,
  { admission }: HookAnswers,
): string | undefined {
  if (!isReviewBinding(binding)) return undefined;
  if (config.length + values.length + flags.size > 0)
    return "a hook that answers a review must not patch values: nothing of this run takes effect";
  if (binding.type === "validating" && admission?.patch !== undefined)
    return "a hook of kubernetesValidating must not answer with a patch, only one of kubernetesMutating may: nothing of this run takes effect";
  return undefined;
}

/** Why what a hook has written does not answer the review; undefined = it does. A refusal in the hook's own words is an answer. */
export function answerProblem(
  { name }: Pick<Hook, "name">,
  { type, request }: Pick<ReviewTrigger, "type" | "request">,
  answers: HookAnswers,
): string | undefined {
  const isConversion = type === "conversion";
  const answer = isConversion ? answers.conversion : answers.admission;
  const variable = isConversion ? "CONVERSION_RESPONSE_PATH" : "ADMISSION_RESPONSE_PATH";
  if (answer === undefined) return `hook ${name} wrote no response: the file at ${variable} is empty`;
  if (!("convertedObjects" in answer) || answer.failedMessage !== undefined) return undefined;
  const count = answer.convertedObjects.length;
  const wantedCount = objectsIn(request["objects"]).length;
  if (count === wantedCount) return undefined;
  return `hook ${name} returned ${count} objects instead of ${wantedCount}`;
}
