/** Finds groups and plurals of kinds without a server, as the RESTMapper of a client does with one. */

import { readFile } from "node:fs/promises";

import { bodiesOf, documentsOf } from "../helm/index.ts";
import { objectOf, type JsonObject } from "../model/index.ts";

/** Group and plural name of a kind. */
export interface KindNames {
  readonly group: string;
  readonly plural: string;
}

/** Kinds that every cluster has, by group, for bindings that give no apiVersion. */
const BUILT_IN: Readonly<Record<string, string>> = {
  "": "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
  apps: "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
  autoscaling: "HorizontalPodAutoscaler",
  batch: "CronJob Job",
  "networking.k8s.io": "Ingress IngressClass NetworkPolicy",
  policy: "PodDisruptionBudget",
  "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
  "storage.k8s.io": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment",
  "apiextensions.k8s.io": "CustomResourceDefinition",
  "apiregistration.k8s.io": "APIService",
  "admissionregistration.k8s.io":
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
  "certificates.k8s.io": "CertificateSigningRequest",
  "coordination.k8s.io": "Lease",
  "discovery.k8s.io": "EndpointSlice",
  "scheduling.k8s.io": "PriorityClass",
};

const GROUPS = new Map(
  Object.entries(BUILT_IN).flatMap(([group, kinds]) =>
    kinds.split(" ").map((kind) => [kind.toLowerCase(), group] as const),
  ),
);

/** Names of kinds without a server: built-in ones, those of CRD files, and a guess for the rest. */
export class RestMapper {
  /** Of CRD files, by kind in lower case. */
  readonly #own = new Map<string, KindNames>();

  /** Adds the CRDs of files; what cannot be read is left out. */
  async learn(files: readonly string[]): Promise<void> {
    for (const file of files) {
      const text = await readFile(file, "utf8").catch(() => "");
      this.learnFrom(bodiesOf(documentsOf(text)));
    }
  }

  /** Takes in those that are CRDs. */
  learnFrom(objects: readonly JsonObject[]): void {
    for (const object of objects) this.#learnOne(object);
  }

  /** Bindings may name a kind in any case, or by its plural. */
  resolve(kind: string, apiVersion: string | undefined): KindNames {
    const name = kind.toLowerCase();
    const group = apiVersion?.includes("/") === true ? apiVersion.split("/")[0] : undefined;
    const own = this.#own.get(name);
    if (own !== undefined && (apiVersion === undefined || own.group === group)) return own;
    if (apiVersion !== undefined) return { group: group ?? "", plural: pluralOf(name) };
    return { group: GROUPS.get(name) ?? GROUPS.get(name.replace(/s$/, "")) ?? "", plural: pluralOf(name) };
  }

  #learnOne({ spec }: JsonObject): void {
    const { names, group } = objectOf(spec);
    const { kind, plural } = objectOf(names);
    if (typeof kind !== "string" || typeof plural !== "string" || typeof group !== "string") return;
    this.#own.set(kind.toLowerCase(), { group, plural });
    this.#own.set(plural, { group, plural });
  }
}

/** The usual plural: that of most CRDs and all built-in kinds. */
function pluralOf(name: string): string {
  if (GROUPS.has(name.replace(/s$/, "")) && name.endsWith("s") && !GROUPS.has(name)) return name;
  if (name === "endpoints") return name;
  if (/(s|x|ch|sh)$/.test(name)) return `${name}es`;
  if (/[^aeiou]y$/.test(name)) return `${name.slice(0, -1)}ies`;
  return `${name}s`;
}
