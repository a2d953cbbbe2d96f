/** Finds the objects that stay when a release goes (docs/RUNNING.md, "What outlives a release"). */

import { getMetadata, isNotFound } from "../../kube/index.ts";
import type { Discovery, KubeClient, WatchedObject } from "../../kube/index.ts";
import { inParallel, oneLine } from "../../lib/index.ts";
import { nameOf, type ObjectRef } from "../manifest/manifest.ts";

/** What is needed to look at the objects of a release. */
export interface LookTools {
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, "resolve">;
  /** Namespace of the releases, and of objects that name none. */
  readonly namespace: string;
}

/** An object that stays when a release goes. */
export interface Outliving {
  readonly object: ObjectRef;
  readonly why: string;
}

/** Annotations that helm puts on each object of a release. */
const OWNER = { name: "meta.helm.sh/release-name", namespace: "meta.helm.sh/release-namespace" } as const;

/** What helm marks an object of a release with when it applies it. */
export function helmMarks(release: string, namespace: string) {
  return {
    labels: { "app.kubernetes.io/managed-by": "Helm" },
    annotations: { [OWNER.name]: release, [OWNER.namespace]: namespace },
  };
}

/** helm looks for it in manifests and, in upgrades, on objects. */
export const RESOURCE_POLICY = "helm.sh/resource-policy";
export const KEEP = "keep";

/** Objects read at the same time. */
const AT_ONCE = 8;

/**
 * The objects of a release that must stay when it goes: another release has taken them over, or they are marked to
 * be kept. helm itself goes by the record of the release alone. Throws when an object cannot be looked at.
 */
export async function outliving(
  tools: LookTools,
  release: string,
  look: { readonly objects: readonly ObjectRef[]; readonly signal: AbortSignal | undefined },
): Promise<Outliving[]> {
  const looked = await inParallel(AT_ONCE, look.objects, async (object): Promise<Outliving[]> => {
    const annotations = await annotationsOf(tools, object, look.signal);
    const why = annotations && reasonToStay(annotations, { release, namespace: tools.namespace });
    return why === undefined ? [] : [{ object, why }];
  });
  return looked.flat();
}

function reasonToStay(
  annotations: Readonly<Record<string, string>>,
  own: { readonly release: string; readonly namespace: string },
): string | undefined {
  const owner = ownerOf(annotations, own.namespace);
  if (owner !== undefined && (owner.release !== own.release || owner.namespace !== own.namespace))
    return `it belongs to the release ${owner.namespace}/${owner.release} now`;
  return annotations[RESOURCE_POLICY]?.trim() === KEEP
    ? `it is annotated ${RESOURCE_POLICY}: ${KEEP}`
    : undefined;
}

/** The release that an object's annotations name. */
export function ownerOf(
  annotations: Readonly<Record<string, string>>,
  namespace: string,
): { readonly release: string; readonly namespace: string } | undefined {
  const release = annotations[OWNER.name];
  return release === undefined
    ? undefined
    : { release, namespace: annotations[OWNER.namespace] ?? namespace };
}

/** Annotations of an object as it is now; undefined when there is none. */
export async function annotationsOf(
  { client, discovery, namespace }: LookTools,
  object: ObjectRef,
  signal: AbortSignal | undefined,
): Promise<Readonly<Record<string, string>> | undefined> {
  try {
    const resource = await discovery.resolve(object.kind, object.apiVersion);
    if (resource?.verbs.includes("get") !== true) return undefined;
    const target = { resource, namespace: object.namespace ?? namespace, name: object.name };
    const { metadata } = await getMetadata<WatchedObject>(client, target, { signal });
    return (metadata["annotations"] ?? {}) as Record<string, string>;
  } catch (error) {
    signal?.throwIfAborted();
    if (isNotFound(error)) return undefined;
    throw new Error(`cannot tell whose ${nameOf(object)} is: ${oneLine(error)}`, { cause: error });
  }
}
