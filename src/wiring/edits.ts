/** Connects the checks of edits with the webhook server. */

import { ADMIT_PATH, answerEdit, editWebhooks, type AdmissionOptions } from "../admit/index.ts";
import type { Releases } from "../helm/index.ts";
import type { State } from "../state/index.ts";
import type { Webhooks } from "../webhooks/index.ts";
import type { Base } from "./base.ts";

type EditParts = Pick<Base, "clock" | "namespace" | "secrets" | "settings"> & {
  readonly state: State;
  readonly releases: Releases;
  /** Reads the operator's user name; if it is unknown, requests of the operator are checked like any others. */
  readonly readOwnUser: (signal: AbortSignal) => Promise<string | undefined>;
};

/**
 * Registers the webhooks by which the API server checks edits of the ConfigMap, and of annotations of the operator's resources,
 * before it stores them.
 */
export function registerEditWebhooks(
  webhooks: Webhooks,
  { state, releases, clock, namespace, secrets, settings, readOwnUser }: EditParts,
): void {
  const configMap = { name: settings.configMap, namespace };
  const options: AdmissionOptions = {
    ...configMap,
    state,
    clock,
    observed: releases.observed,
    deleteBrake: settings.deleteBrake,
    redactDeep: (value) => secrets.redactDeep(value),
    ownUser: readOwnUser,
  };
  webhooks.addAdmissionRoute(ADMIT_PATH, (request, signal) => answerEdit(request, signal, options));
  webhooks.registrar.set("edits", { group: "operator", admission: editWebhooks(configMap) });
}
