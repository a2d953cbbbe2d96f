/** Makes a binding context of a review in a file (`hook run --review FILE`). */

import { listBindings, isReviewBinding } from "../bindings/index.ts";
import { renderContext } from "../hooks/index.ts";
import { asString, isJsonObject, objectsIn, ProblemError } from "../model/index.ts";
import type { Hook, JsonObject, ReviewTrigger } from "../model/index.ts";
import { conversionPath } from "../tasks/index.ts";

/** A review for one of the bindings of a hook. */
export interface OfflineReview {
  readonly trigger: ReviewTrigger;
  /** The text of the binding context. */
  readonly context: string;
}

/** Builds the binding context with which the matching webhook binding gets the review. Throws ProblemError if none or several match. */
export function buildReviewContext(
  hooks: readonly Hook[],
  review: JsonObject,
  { file, binding: name }: { readonly file: string; readonly binding: string | undefined },
): OfflineReview {
  const { request } = review;
  if (!isJsonObject(request))
    throw fileProblem(file, "is no AdmissionReview or ConversionReview", "it needs `request`");
  const isConversion = "desiredAPIVersion" in request;
  const matching = hooks.flatMap((hook) =>
    listBindings(hook.config)
      .filter((binding) => isReviewBinding(binding))
      .filter((binding) => (binding.type === "conversion") === isConversion)
      .filter((binding) => name === undefined || binding.name === name)
      .map((binding) => ({ hook, binding })),
  );
  const [first, second] = matching;
  if (first === undefined)
    throw fileProblem(file, "the hook has no webhook binding for it", "check --binding");
  if (second !== undefined && name === undefined) {
    const remedy = `choose one with --binding: ${matching.map(({ binding }) => binding.name).join(", ")}`;
    throw fileProblem(file, "several bindings of the hook could get it", remedy);
  }
  const { hook, binding } = first;
  const rule =
    binding.type === "conversion"
      ? (findFirstConversion(hook, request) ?? binding.conversions[0])
      : undefined;
  const trigger = { type: binding.type, binding, request, rule } as ReviewTrigger;
  const snapshots = { byBindingName: () => [], byBindingId: () => [] };
  const context = [...renderContext({ config: hook.config, triggers: [trigger], snapshots })].join("");
  return { trigger, context };
}

/**
 * The first conversion that a ConversionReview needs: the objects may have to pass several versions. Undefined if the hook's
 * conversions do not lead to the desired version.
 */
function findFirstConversion(hook: Hook, { objects, desiredAPIVersion }: JsonObject) {
  const steps = hook.config.bindings.conversion.flatMap((binding) =>
    binding.conversions.map((rule) => ({ hook, binding, rule })),
  );
  const [first] = objectsIn(objects);
  const from = asString(first?.["apiVersion"]) ?? "";
  const path = conversionPath(steps, from, asString(desiredAPIVersion) ?? "");
  return path?.[0]?.rule;
}

function fileProblem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError({ file, message, remedy });
}
