/** Namespaces and CRDs: kinds that hold the objects of others. */

import type { ObjectRef } from "./manifest.ts";

/** Kinds whose deletion also deletes what others have put there. */
const SHARED: Readonly<Record<string, string>> = {
  Namespace: "",
  CustomResourceDefinition: "apiextensions.k8s.io",
};

/** Matches such a kind, or a word with which a template may make one. */
const MENTION =
  /kind["']?\s*:\s*["']?(?:Namespace|CustomResourceDefinition)(?:List)?\b|["'`](?:Namespace|CustomResourceDefinition)\\?["'`]/;

/** Whether a text of a chart, or its values, may make an object of such a kind. */
export function mentionsShared(text: string): boolean {
  return MENTION.test(text);
}

/** Whether an object is of such a kind. */
export function isShared({ kind, apiVersion }: ObjectRef): boolean {
  const group = apiVersion.includes("/") ? apiVersion.slice(0, apiVersion.indexOf("/")) : "";
  return SHARED[kind] === group;
}
