/** Previews what a run would do about a release and change in the cluster (docs/reference/commands.md). */

import { mapInParallel, oneLine, sameJson } from "../base/index.ts";
import { describeProblem, type JsonObject } from "../base/model/index.ts";
import type { CrdTools } from "./crds/crd.ts";
import { previewCrds } from "./crds/ensure-crds.ts";
import { collectFacts, planRelease, type ReleasePlan } from "./decide.ts";
import { withHelmMetadata, LiveObjectClient } from "./objects/live-objects.ts";
import { diffObjects, withoutServerFields } from "./manifest/difference.ts";
import { indexLastingObjects, parseDocuments, type ObjectRef } from "./manifest/manifest.ts";
import { createNamespaceAdder } from "./manifest/edit-manifest.ts";
import type { ReleaseMeta } from "./release/revisions.ts";
import { renderManifests, renderChart } from "./rendering.ts";
import type { DiffRequest, ReconcileRequest, Reconciler } from "./types.ts";

export interface Preview {
  readonly action: "unchanged" | "install" | "upgrade";
  readonly why: string;
}

/**
 * Decides as `reconcileRelease` does, but writes nothing. Renders the chart where helm would apply it, so that errors of
 * the chart are reported. Throws the same errors.
 */
export async function previewRelease(tools: Reconciler, request: ReconcileRequest): Promise<Preview> {
  const plan = await planRelease(tools, request);
  const { reconciliation, decision } = plan;
  if (decision.act === "keep") return { action: "unchanged", why: "inputs are the same" };
  const { release } = reconciliation;
  const { act, why } = decision;
  // A run moves the release first. The moved release has no digest of its inputs, so it is not left as it is.
  if (release !== undefined && release.namespace !== tools.namespace) {
    await reportChartErrors(plan);
    const move = `the release moves from namespace ${release.namespace} to ${tools.namespace}`;
    return { action: "upgrade", why: move };
  }
  // `stay` leaves a release rolled back, `label` writes labels of a release with an equal manifest.
  if (act === "stay" || act === "label") return { action: "unchanged", why };
  if (act === "rollback") return { action: "upgrade", why: `${why}; the release is rolled back` };
  await reportChartErrors(plan);
  return { action: act === "install" ? "install" : "upgrade", why };
}

/** Throws the errors of the chart that helm would report: renders the chart, unless the plan has rendered it. */
async function reportChartErrors({ reconciliation, decision }: ReleasePlan): Promise<void> {
  if (!("rendered" in decision)) await renderChart(reconciliation);
}

const MAX_PARALLEL_REQUESTS = 4;
const CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition";

/** An object of a release: `stored` as it was applied last, `wanted` as it is rendered now; undefined where it does not exist. */
interface ObjectPair {
  readonly ref: ObjectRef;
  readonly stored: JsonObject | undefined;
  readonly wanted: JsonObject | undefined;
}

/**
 * What a run would change, object by object, as text for the user, with lines that begin with `-`, `+` or a blank; "" for nothing. A
 * dry-run apply of each object prevents that defaults of the server appear as differences. *Drifted* marks objects that are rendered as
 * before, but were changed by others. Helm hooks are left out. Throws as `reconcile`.
 */
export async function diffRelease(tools: Reconciler, request: DiffRequest): Promise<string> {
  const reconciliation = await collectFacts(tools, request);
  const { release } = reconciliation;
  const rendered = await renderManifests(reconciliation);
  const stored = release === undefined ? "" : await readStoredManifest(tools, release, request.signal);
  const allPairs = pairObjects(tools.namespace, [stored], rendered);
  const isMoving = release !== undefined && release.namespace !== tools.namespace;
  // The objects of a release that moves get another annotation, which is no drift: without `stored`, none is called drifted.
  const pairs = isMoving ? allPairs.map((pair) => ({ ...pair, stored: undefined })) : allPairs;
  const differences = new Map<string, string>();
  await mapInParallel(MAX_PARALLEL_REQUESTS, pairs, async (pair) => {
    const { apiVersion, kind, name, namespace = tools.namespace } = pair.ref;
    const text = await describeDifference(tools, pair, request).catch((error: unknown) => {
      request.signal.throwIfAborted();
      return `cannot be compared: ${oneLine(error)}\n`;
    });
    if (text !== "") differences.set(`${apiVersion} ${kind} ${namespace} ${name}`, text);
  });
  const names = [...differences.keys()].sort();
  return names.map((name) => `# ${name}: ${differences.get(name) ?? ""}`).join("");
}

/**
 * Reads the manifest of a release from its record. If the release is going to move to another namespace, adds the present
 * namespace to the objects that do not name one, so that they are compared with the right live objects.
 */
async function readStoredManifest(
  { store, discovery, namespace }: Reconciler,
  release: ReleaseMeta,
  signal: AbortSignal,
): Promise<string> {
  const [manifest = ""] = await store.readManifests(release, signal);
  if (release.namespace === namespace) return manifest;
  const addNamespace = await createNamespaceAdder(discovery, [manifest], release.namespace);
  return addNamespace(manifest);
}

/** Describes what a run would change in the CRDs of `crds/`, which it applies before the chart. Reports errors in the text. */
export async function diffCrds(
  tools: Pick<CrdTools, "client" | "clock" | "labels" | "namespace">,
  { crds, redact, signal }: Pick<DiffRequest, "crds" | "redact" | "signal">,
): Promise<string> {
  try {
    const { changes, problem } = await previewCrds(crds, { ...tools, signal });
    const refusal = problem && `# ${CRD}: refused: ${describeProblem(problem)}\n`;
    const texts = changes.map(({ name, before, after }) => {
      const what = before === undefined ? "is created" : "changes";
      return `# ${CRD} ${name}: ${what}\n${diffObjects(before && redact(before), redact(after))}`;
    });
    return [refusal, ...texts].join("");
  } catch (error) {
    return `# ${CRD}: cannot be compared: ${oneLine(error)}\n`;
  }
}

/** Pairs the objects of the stored manifests with the same objects of the rendered ones. `namespace` is that of the release. */
function pairObjects(
  namespace: string,
  stored: readonly string[],
  rendered: readonly string[],
): ObjectPair[] {
  const storedByKey = indexLastingObjects(stored.flatMap(parseDocuments), namespace);
  const wantedByKey = indexLastingObjects(rendered.flatMap(parseDocuments), namespace);
  return [...new Map([...storedByKey, ...wantedByKey])].map(([key, { ref }]) => ({
    ref,
    stored: storedByKey.get(key)?.body,
    wanted: wantedByKey.get(key)?.body,
  }));
}

/**
 * Describes how a run would change one object: created, removed, changed or drifted, with a diff. A dry-run apply shows the
 * result, defaults of the server included. Returns "" if nothing would change. `redact` hides values of Secrets.
 */
async function describeDifference(
  tools: Reconciler,
  { ref, stored, wanted }: ObjectPair,
  { module, signal, redact }: DiffRequest,
): Promise<string> {
  const served = await LiveObjectClient.resolve(tools, ref);
  if (served === undefined) return wanted === undefined ? "" : "is created, once its kind is served\n";
  const live = await served.get({ signal });
  const before = live && withoutServerFields(live);
  if (wanted === undefined)
    return before === undefined ? "" : `is removed\n${diffObjects(redact(before), undefined)}`;
  const body = withHelmMetadata(wanted, module.name, tools.namespace);
  if (before === undefined) return `is created\n${diffObjects(undefined, redact(body))}`;
  const after = withoutServerFields(await served.apply(body, { signal, dryRun: true }));
  if (sameJson(before, after)) return "";
  // If the chart renders the object as before, someone else has changed the live one.
  const isDrifted = stored !== undefined && sameJson(stored, wanted);
  return `${isDrifted ? "drifted" : "changes"}\n${diffObjects(redact(before), redact(after))}`;
}
