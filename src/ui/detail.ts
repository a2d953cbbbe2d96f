/** One module in detail, from the status that the operator writes of it; secrets are still in the texts. */

import { explainModule, type Moment } from "../plan/index.ts";
import type { ModuleView } from "../state/index.ts";
import type { ModuleStatus } from "../status/index.ts";
import type { ModuleDetail, ObjectRow } from "./wire.ts";

/** Why the module is as it is; `status` is undefined where none is written, as by a follower. */
export function detailOf(module: ModuleView, at: Moment, status: ModuleStatus | undefined): ModuleDetail {
  return {
    conditions:
      status?.conditions.map(({ type, status: is, ...rest }) => ({ type, status: is, ...rest })) ?? [],
    why: explainModule(module, at),
    requires: (status?.requires ?? []).map(({ name, range, met, message }) => ({
      name,
      text: [range, message].filter(Boolean).join(": "),
      met,
    })),
    requiredBy: [...at.view.modules.values()].flatMap((each) =>
      Object.hasOwn(each.module.requires?.modules ?? {}, module.name) ? [each.name] : [],
    ),
    objects: objectsOf(status),
    facts: factsOf(module, status),
  };
}

/** What is not as it should be: gone, ill, changed by others. */
function objectsOf(status: ModuleStatus | undefined): ObjectRow[] {
  const absent = status?.absent ?? [];
  const ill = status?.health ?? [];
  const drifted = status?.drift ?? [];
  return [
    ...absent.map((object) => ({ object, what: "Gone", message: "" })),
    ...ill.map(({ object, status: what, reason = "", message = "" }) => ({
      object,
      what,
      message: [reason, message].filter(Boolean).join(": "),
    })),
    ...drifted.map(({ object, field, manager }) => ({
      object,
      what: "Drifted",
      message: manager === undefined ? field : `${field}, by ${manager}`,
    })),
  ];
}

function factsOf(module: ModuleView, status: ModuleStatus | undefined): [string, string][] {
  const { release, lastRun, nextRetryAt } = status ?? {};
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["Directory", module.module.dir],
    ["Chart version", module.module.chartVersion],
    ["Release", release && `${release.name ?? ""}.v${release.revision ?? ""}, ${release.status ?? ""}`],
    ["Last applied", release?.lastDeployed],
    ["Last run", lastRun && inWords(lastRun)],
    ["Next try", nextRetryAt],
  ];
  return facts.flatMap(([name, text]): [string, string][] => (text === undefined ? [] : [[name, text]]));
}

function inWords({ result, step, hook, trigger, message }: NonNullable<ModuleStatus["lastRun"]>): string {
  const where = result === "Succeeded" ? undefined : `in ${[step, hook].filter(Boolean).join(" ")}`;
  return [[result ?? "Under way", where].filter(Boolean).join(" "), trigger, message]
    .filter(Boolean)
    .join(": ");
}
