/** Which differences are nobody's business (docs/RUNNING.md, "Drift"). */

import { isAtOrBelow } from "../lib/index.ts";
import { member, objectOf } from "../model/index.ts";
import type { DriftIgnore, JsonObject } from "../model/index.ts";
import type { Entry } from "./hands.ts";
import type { FieldPath } from "./paths.ts";

/** A difference, as far as it matters here. */
export interface Difference {
  readonly path: FieldPath;
  readonly pointer: string;
  readonly holder: Entry | undefined;
}

/** This operator's own hooks change objects of their module as they mean to. */
const OWN_MANAGER = "addon-operator";
/** With these, people scale; anything else that does is a controller. */
const PEOPLE = /^(?:kubectl|k9s|lens|openlens|headlamp|mozilla|curl)/i;

/** Annotations and labels that controllers write, whatever a chart says. */
const CONTROLLERS =
  /^(?:(?:deployment|deprecated\.daemonset\.template|pv|volume|volume\.beta|autoscaling\.alpha|control-plane\.alpha|endpoints)\.kubernetes\.io\/|kubectl\.kubernetes\.io\/|prometheus-operator-validated$|helm\.sh\/resource-policy$)/;

type Rule = (difference: Difference, object: JsonObject) => boolean;

const byOwnHooks: Rule = ({ holder }) => holder?.manager === OWN_MANAGER;

const byAutoscaler: Rule = ({ holder }) => holder?.subresource === "scale" && !PEOPLE.test(holder.manager);

const byVerticalAutoscaler: Rule = ({ path, holder }) =>
  holder?.manager.startsWith("vpa-") === true && path.includes("f:resources");

const status: Rule = ({ path }) => path[0] === "f:status";

const caBundle: Rule = ({ path }) => path.at(-1) === "f:caBundle";

const ofControllers: Rule = ({ path: [first, second, third = ""] }) =>
  first === "f:metadata" &&
  (second === "f:annotations" || second === "f:labels") &&
  CONTROLLERS.test(third.slice(2));

/** What a controller fills in, by kind. */
const FILLED_IN: Readonly<Record<string, string>> = {
  PersistentVolumeClaim: "/spec/resources/requests",
  ServiceAccount: "/secrets",
};

const filledIn: Rule = ({ pointer }, { kind }) => {
  const place = typeof kind === "string" ? member(FILLED_IN, kind) : undefined;
  return place !== undefined && isAtOrBelow(pointer, place);
};

const aggregated: Rule = ({ pointer }, { kind, aggregationRule }) =>
  kind === "ClusterRole" && aggregationRule !== undefined && isAtOrBelow(pointer, "/rules");

// oxfmt-ignore
const RULES: readonly Rule[] = [
  byOwnHooks, byAutoscaler, byVerticalAutoscaler, status, caBundle, ofControllers, filledIn, aggregated,
];

/** Whether a difference is no drift: by default, or because `module.yaml` says so. */
export function isIgnored(
  difference: Difference,
  object: JsonObject,
  targets: readonly DriftIgnore[],
): boolean {
  if (RULES.some((rule) => rule(difference, object))) return true;
  const { name } = objectOf(object["metadata"]);
  return targets
    .filter((target) => target.kind === object["kind"] && (target.name ?? name) === name)
    .some(({ paths }) => paths.some((path) => isAtOrBelow(difference.pointer, path)));
}
