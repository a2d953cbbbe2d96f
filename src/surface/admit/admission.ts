/** Answers requests for admission of edits of the operator's ConfigMap and of its own resources. */

import { randomBytes } from "node:crypto";

import { FIELD_MANAGER, NAMESPACE_LABEL } from "../../kube/index.ts";
import { threadCpuMs, type ClientWorkBudgets, type SlowWorkBudget } from "../../base/index.ts";
import { objectOf, type Json, type JsonObject } from "../../base/model/index.ts";
import type { AdmissionRequest, AdmissionResponse, AdmissionWebhook } from "../../webhooks/index.ts";
import { checkAnnotations } from "./annotations.ts";
import { allow, type ReviewAnswer } from "./answer.ts";
import { checkConfigEdit } from "./config-edit.ts";
import type { AdmissionSources } from "./forecast.ts";
import { ADDON_MODULES, ADDON_OPERATORS } from "../../report/index.ts";

export interface AdmissionOptions extends AdmissionSources {
  /** The ConfigMap. */
  readonly name: string;
  readonly namespace: string;
  /** Reads the user name of the operator's service account; undefined = unknown. */
  readonly readOwnUser: (signal: AbortSignal) => Promise<string | undefined>;
  /** Limit the processor time of slow checks for each client, such as those of very long texts: the event loop waits for them. */
  readonly slowChecks: ClientWorkBudgets;
  /** Removes secrets. */
  readonly redactDeep: <T extends Json>(value: T) => T;
}

/**
 * Decides about a request from the state of now, without waiting for anything but the name of the operator's user, once. The
 * operator's own writes pass: they are checked before they are sent.
 */
export async function answerEdit(
  request: AdmissionRequest,
  { signal, client }: { readonly signal: AbortSignal; readonly client: string },
  options: AdmissionOptions,
): Promise<AdmissionResponse> {
  if (await isOperatorWrite(request, signal, options)) return allow();
  const { allowed, message, warnings } = checkWithinBudget(options.slowChecks.of(client), () =>
    checkEdit(request, options),
  );
  const { redactDeep } = options;
  return {
    allowed,
    warnings: redactDeep([...warnings]),
    ...(message !== undefined && { message: redactDeep(message) }),
  };
}

/** A check that takes longer than this, in ms, counts against the budget. */
const SLOW_MS = 200;

/** Runs a check unless recent checks have taken too long. The edit is then stored, as it is while the operator does not answer. */
function checkWithinBudget(budget: SlowWorkBudget, check: () => ReviewAnswer): ReviewAnswer {
  if (!budget.isLeft()) return allow(["the edit is not checked, because recent checks took too long"]);
  const startMs = threadCpuMs();
  try {
    return check();
  } finally {
    const ms = threadCpuMs() - startMs;
    if (ms > SLOW_MS) budget.spend(ms);
  }
}

/** Checks an edit of the ConfigMap or of the operator's own resources; lets all other edits pass. */
function checkEdit(
  { kind: { kind }, name = "", namespace, ...request }: AdmissionRequest,
  options: AdmissionOptions,
): ReviewAnswer {
  if (namespace !== options.namespace) return allow();
  const before = request.oldObject ?? {};
  const after = request.object ?? {};
  if (kind === "ConfigMap" && name === options.name) {
    const edit = {
      name,
      before: readStringMembers(before["data"]),
      data: readStringMembers(after["data"]),
      annotations: readAnnotations(after),
      isDryRun: request.dryRun === true,
    };
    return checkConfigEdit(edit, options);
  }
  if (kind !== "AddonModule" && kind !== "AddonOperator") return allow();
  const annotations = { before: readAnnotations(before), after: readAnnotations(after) };
  return checkAnnotations({ kind, name, ...annotations }, options.state.view);
}

/** Whether the operator itself sent the request. Any client may use the operator's field manager, and hooks its user: only both together prove it. */
async function isOperatorWrite(
  request: AdmissionRequest,
  signal: AbortSignal,
  { readOwnUser }: AdmissionOptions,
): Promise<boolean> {
  if (request.options?.["fieldManager"] !== FIELD_MANAGER) return false;
  const operatorUser = await readOwnUser(signal);
  return operatorUser !== undefined && request.userInfo["username"] === operatorUser;
}

function readAnnotations(object: JsonObject): Record<string, string> {
  return readStringMembers(objectOf(object["metadata"])["annotations"]);
}

/** The members of a map that are strings. Others are ignored, because any client that reaches the port may send requests. */
function readStringMembers(map: Json | undefined): Record<string, string> {
  const texts = Object.entries(objectOf(map)).filter(([, text]) => typeof text === "string");
  return Object.fromEntries(texts) as Record<string, string>;
}

/**
 * Creates the path at which the server answers. It contains a secret: only the API server, and who may read webhook configurations, knows it, so a
 * request at this path proves that the API server sent it. Answers contain tokens, and depend on values. Each start creates another path.
 */
export function createAdmitPath(): string {
  // Kubernetes accepts only lower-case letters and digits.
  return `/admit/${randomBytes(SECRET_BYTES).toString("hex")}`;
}

const SECRET_BYTES = 16;

const COMMON = {
  type: "validating",
  failurePolicy: "Ignore",
  sideEffects: "None",
  // Edits are stored if the operator does not answer within this time.
  timeoutSeconds: 2,
  coversOwnNamespace: true,
} as const;

/** CEL: the edit changes annotations. The API server calls no webhook for the many writes of statuses. */
const HAS_OTHER_ANNOTATIONS =
  "has(object.metadata.annotations) && (oldObject == null || !has(oldObject.metadata.annotations) || object.metadata.annotations != oldObject.metadata.annotations)";

/** The webhooks at this path for the ConfigMap of this name, and for annotations of AddonModules and the AddonOperator. */
export function editWebhooks({
  name,
  namespace,
  path,
}: Record<"name" | "namespace" | "path", string>): AdmissionWebhook[] {
  const namespaceSelector = { matchLabels: { [NAMESPACE_LABEL]: namespace } };
  const operations = ["CREATE", "UPDATE"];
  const { group, version } = ADDON_MODULES;
  const kinds = [ADDON_MODULES.plural, ADDON_OPERATORS.plural];
  return [
    {
      ...COMMON,
      path,
      name: "config-map.addon-operator.io",
      namespaceSelector,
      rules: [{ apiGroups: [""], apiVersions: ["v1"], operations, resources: ["configmaps"], scope: "*" }],
      matchConditions: [{ name: "name", expression: `request.name == '${name}'` }],
    },
    {
      ...COMMON,
      path,
      name: "annotations.addon-operator.io",
      namespaceSelector,
      rules: [{ apiGroups: [group], apiVersions: [version], operations, resources: kinds, scope: "*" }],
      matchConditions: [{ name: "annotations", expression: HAS_OTHER_ANNOTATIONS }],
    },
  ];
}
