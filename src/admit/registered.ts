/** The webhooks that the operator registers for edits of the ConfigMap and of annotations. */

import { ADDON_MODULES, ADDON_OPERATORS } from "../status/index.ts";
import type { AdmissionWebhook } from "../webhooks/index.ts";

/** Edits are stored if the operator does not answer within this time. */
const TIMEOUT_SECONDS = 2;

/** The path at which the server answers. */
export const ADMIT_PATH = "/admit";

const COMMON = {
  type: "validating",
  path: ADMIT_PATH,
  failurePolicy: "Ignore",
  sideEffects: "None",
  timeoutSeconds: TIMEOUT_SECONDS,
  coversOwnNamespace: true,
} as const;

/** CEL: the edit changes annotations. The API server calls no webhook for the many writes of statuses. */
const HAS_OTHER_ANNOTATIONS =
  "has(object.metadata.annotations) && (oldObject == null || !has(oldObject.metadata.annotations) || object.metadata.annotations != oldObject.metadata.annotations)";

/** The webhooks for the ConfigMap of this name, and for annotations of AddonModules and the AddonOperator. */
export function editWebhooks({ name, namespace }: { name: string; namespace: string }): AdmissionWebhook[] {
  const namespaceSelector = { matchLabels: { "kubernetes.io/metadata.name": namespace } };
  const operations = ["CREATE", "UPDATE"];
  const { group, version } = ADDON_MODULES;
  const kinds = [ADDON_MODULES.plural, ADDON_OPERATORS.plural];
  return [
    {
      ...COMMON,
      name: "config-map.addon-operator.io",
      namespaceSelector,
      rules: [{ apiGroups: [""], apiVersions: ["v1"], operations, resources: ["configmaps"], scope: "*" }],
      matchConditions: [{ name: "name", expression: `request.name == '${name}'` }],
    },
    {
      ...COMMON,
      name: "annotations.addon-operator.io",
      namespaceSelector,
      rules: [{ apiGroups: [group], apiVersions: [version], operations, resources: kinds, scope: "*" }],
      matchConditions: [{ name: "annotations", expression: HAS_OTHER_ANNOTATIONS }],
    },
  ];
}
