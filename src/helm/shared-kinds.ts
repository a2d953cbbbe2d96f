import type { ObjectRef } from "./manifest.ts";

/** Kinds whose deletion takes along what others have put there. */
const SHARED: Readonly<Record<string, string>> = {
  Namespace: "",
  CustomResourceDefinition: "apiextensions.k8s.io",
};

/** As a kind that is written out, or as a word by which a template may fill one in. */
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
