/** Connects the decisions about edits with the webhook server. */

import { ADMIT_PATH, Admission, editWebhooks } from "../admit/index.ts";
import type { Releases } from "../helm/index.ts";
import { ownUserName } from "../kube/index.ts";
import type { State } from "../state/index.ts";
import type { Webhooks } from "../webhooks/index.ts";
import type { Base } from "./base.ts";

/** Has the API server ask about edits of the ConfigMap and of annotations of the operator's resources. */
export function admitEdits(
  webhooks: Webhooks,
  base: Base,
  { state, releases }: { readonly state: State; readonly releases: Releases },
): void {
  const { client, clock, namespace, secrets, settings } = base;
  const place = { name: settings.configMap, namespace };
  let known: string | undefined;
  const admission = new Admission({
    ...place,
    state,
    clock,
    observed: releases.observed,
    deleteBrake: settings.deleteBrake,
    redactDeep: (value) => secrets.redactDeep(value),
    // Without an answer, the request is checked like any other.
    ownUser: async (signal) => (known ??= await ownUserName(client, signal).catch(() => undefined)),
  });
  webhooks.route(ADMIT_PATH, (request, signal) => admission.answer(request, signal));
  webhooks.registrar.set("edits", { group: "operator", admission: editWebhooks(place) });
}
