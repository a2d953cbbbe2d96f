/** RBAC rules from kinds of objects. Groups and plurals of kinds are derived without an API server. */

import { listManifestObjects, MAX_CRD_FILE_BYTES, parseDocuments } from "../../helm/index.ts";
import { attempt, readRegularFile } from "../../base/index.ts";
import { objectOf, type Json, type JsonObject } from "../../base/model/index.ts";

/** Builds RBAC rules from verbs for kinds, which are merged, and from complete rules. */
export class RuleSet {
  readonly mapper: RestMapper;
  readonly #verbsByResource = new Map<string, Set<string>>();
  readonly #completeRules = new Map<string, Json>();

  constructor(mapper = new RestMapper()) {
    this.mapper = mapper;
  }

  /** Adds verbs for objects of a kind. */
  addVerbs(apiVersion: string | undefined, kind: string, verbs: readonly string[]): void {
    const { group, plural } = this.mapper.resolve(kind, apiVersion);
    const key = `${group}/${plural}`;
    this.#verbsByResource.set(key, new Set([...(this.#verbsByResource.get(key) ?? []), ...verbs]));
  }

  /** Adds a complete rule. */
  addRule(rule: Json): void {
    this.#completeRules.set(JSON.stringify(rule), rule);
  }

  /** Builds the rules. Resources of one group with the same verbs share one rule. */
  build(): Json[] {
    const rules = new Map<string, { apiGroups: string[]; resources: string[]; verbs: string[] }>();
    const byResource = [...this.#verbsByResource].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [resource, verbSet] of byResource) {
      const [group = "", plural = ""] = resource.split("/");
      const verbs = [...verbSet].sort();
      const groupAndVerbs = `${group} ${verbs.join()}`;
      const rule = rules.get(groupAndVerbs) ?? { apiGroups: [group], resources: [], verbs };
      rule.resources.push(plural);
      rules.set(groupAndVerbs, rule);
    }
    return [...rules.values(), ...this.#completeRules.values()];
  }
}

/** Group and plural name of a kind. */
interface KindNames {
  readonly group: string;
  readonly plural: string;
}

/** Built-in kinds by group, for bindings without apiVersion. Objects of those with a star are in no namespace. */
const BUILT_IN_KINDS: Readonly<Record<string, string>> = {
  "": "ConfigMap Endpoints Event LimitRange Namespace* Node* PersistentVolume* PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
  apps: "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
  autoscaling: "HorizontalPodAutoscaler",
  batch: "CronJob Job",
  "networking.k8s.io": "Ingress IngressClass* NetworkPolicy",
  policy: "PodDisruptionBudget",
  "rbac.authorization.k8s.io": "ClusterRole* ClusterRoleBinding* Role RoleBinding",
  "storage.k8s.io": "CSIDriver* CSINode* CSIStorageCapacity StorageClass* VolumeAttachment*",
  "apiextensions.k8s.io": "CustomResourceDefinition*",
  "apiregistration.k8s.io": "APIService*",
  "admissionregistration.k8s.io":
    "MutatingWebhookConfiguration* ValidatingAdmissionPolicy* ValidatingAdmissionPolicyBinding* ValidatingWebhookConfiguration*",
  "certificates.k8s.io": "CertificateSigningRequest*",
  "coordination.k8s.io": "Lease",
  "discovery.k8s.io": "EndpointSlice",
  "scheduling.k8s.io": "PriorityClass*",
};

/** Names of built-in kinds, by kind and by plural in lower case. */
const BUILT_IN = new Map<string, KindNames>();
const CLUSTER_WIDE_KINDS = new Set<string>();
for (const [group, kinds] of Object.entries(BUILT_IN_KINDS))
  for (const entry of kinds.toLowerCase().split(" ")) {
    const kind = entry.replace("*", "");
    const names = { group, plural: toPlural(kind) };
    BUILT_IN.set(kind, names).set(names.plural, names);
    if (entry.endsWith("*")) CLUSTER_WIDE_KINDS.add(kind);
  }

/** Maps kinds to groups and plurals: built-in kinds, kinds of CRD files, and a guess for others. */
export class RestMapper {
  /** Names from CRDs, by kind and plural in lower case. */
  readonly #fromCrds = new Map<string, KindNames>();
  readonly #clusterWide = new Set(CLUSTER_WIDE_KINDS);

  /** Adds the CRDs of files; ignores unreadable files. */
  addCrdFiles(files: readonly string[]): void {
    for (const file of files) {
      const text = attempt(() => readRegularFile(file, MAX_CRD_FILE_BYTES).toString("utf8")) ?? "";
      this.addCrds(listManifestObjects(parseDocuments(text)));
    }
  }

  /** Adds the kinds of those objects that are CRDs. A binding may name a kind by its plural, so both become keys. */
  addCrds(objects: readonly JsonObject[]): void {
    for (const { spec } of objects) {
      const { names, group, scope } = objectOf(spec);
      const { kind, plural } = objectOf(names);
      if (typeof kind !== "string" || typeof plural !== "string" || typeof group !== "string") continue;
      if (scope === "Cluster") this.#clusterWide.add(kind.toLowerCase());
      this.#fromCrds.set(kind.toLowerCase(), { group, plural });
      this.#fromCrds.set(plural, { group, plural });
    }
  }

  /** Whether objects of a kind are in no namespace: built-in kinds, and kinds of CRDs. */
  isClusterWide(kind: string): boolean {
    return this.#clusterWide.has(kind.toLowerCase());
  }

  /**
   * Group and plural of a kind, in any case and with or without apiVersion. A binding may also give the plural of a kind that is known. A kind of a CRD
   * takes precedence; one that is unknown without apiVersion counts as in the core group.
   */
  resolve(kind: string, apiVersion: string | undefined): KindNames {
    const name = kind.toLowerCase();
    // `v1` is a version of the core group, whose name is empty.
    const [group = ""] = apiVersion?.includes("/") === true ? apiVersion.split("/") : [];
    const fromCrd = this.#fromCrds.get(name);
    if (fromCrd !== undefined && (apiVersion === undefined || fromCrd.group === group)) return fromCrd;
    const names = BUILT_IN.get(name) ?? { group: "", plural: toPlural(name) };
    return apiVersion === undefined ? names : { ...names, group };
  }
}

/** The plural of a kind by the English rules that all built-in kinds and most CRDs follow. */
function toPlural(kind: string): string {
  if (kind === "endpoints") return kind;
  if (/(s|x|ch|sh)$/.test(kind)) return `${kind}es`;
  if (/[^aeiou]y$/.test(kind)) return `${kind.slice(0, -1)}ies`;
  return `${kind}s`;
}
