/** Connects the decisions about edits with the webhook server. */

import { ADMIT_PATH, Admission, editWebhooks } from "../admit/index.ts";
import type { Releases } from "../helm/index.ts";
import type { State } from "../state/index.ts";
import type { Webhooks } from "../webhooks/index.ts";
import type { Base } from "./base.ts";

type EditParts = Pick<Base, "clock" | "namespace" | "secrets" | "settings"> & {
  readonly state: State;
  readonly releases: Releases;
  /** The operator's user; without it, a request of the operator is checked like any other. */
  readonly ownUser: (signal: AbortSignal) => Promise<string | undefined>;
};

/** Has the API server ask about edits of the ConfigMap and of annotations of the operator's resources. */
export function admitEdits(
  webhooks: Webhooks,
  { state, releases, clock, namespace, secrets, settings, ownUser }: EditParts,
): void {
  const place = { name: settings.configMap, namespace };
  const admission = new Admission({
    ...place,
    state,
    clock,
    observed: releases.observed,
    deleteBrake: settings.deleteBrake,
    redactDeep: (value) => secrets.redactDeep(value),
    ownUser,
  });
  webhooks.route(ADMIT_PATH, (request, signal) => admission.answer(request, signal));
  webhooks.registrar.set("edits", { group: "operator", admission: editWebhooks(place) });
}
