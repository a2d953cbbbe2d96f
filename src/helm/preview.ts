/** Previews what a run would do about a release and change in the cluster (docs/reference/commands.md). */

import { mapInParallel, oneLine, sameJson } from "../lib/index.ts";
import { describeProblem, type JsonObject } from "../model/index.ts";
import type { CrdTools } from "./crds/crd.ts";
import { previewCrds } from "./crds/ensure-crds.ts";
import { examine, planRelease } from "./decide.ts";
import { withHelmMarks, ServedObject } from "./objects/live-objects.ts";
import { diffOf, documentsOf, lastingByKey, plain, type ObjectRef } from "./manifest/manifest.ts";
import { withNamespaces } from "./manifest/edit-manifest.ts";
import { namespacedKinds } from "./objects/namespaced-kinds.ts";
import type { ReleaseMeta } from "./release/revisions.ts";
import { manifestsNow, renderNow } from "./rendering.ts";
import type { DiffRequest, ReconcileRequest, Reconciler } from "./types.ts";

/** What a run would do about a release, and why. */
export interface Preview {
  readonly action: "unchanged" | "install" | "upgrade";
  readonly why: string;
}

/**
 * Decides as `reconcileRelease` does, but writes nothing. Renders the chart where helm would apply it, so that errors of
 * the chart are reported. Throws the same errors.
 */
export async function previewRelease(tools: Reconciler, request: ReconcileRequest): Promise<Preview> {
  const { reconciliation, decision } = await planRelease(tools, request);
  if (decision.act === "nothing") return { action: "unchanged", why: "inputs are the same" };
  const { release } = reconciliation;
  const { act, why } = decision;
  if (release !== undefined && release.namespace !== tools.namespace) {
    if (!("rendered" in decision)) await renderNow(reconciliation);
    const move = `the release moves from namespace ${release.namespace} to ${tools.namespace}`;
    return { action: "upgrade", why: move };
  }
  if (act === "stay" || act === "label") return { action: "unchanged", why };
  if (act === "rollback") return { action: "upgrade", why: `${why}; the release is rolled back` };
  if (!("rendered" in decision)) await renderNow(reconciliation);
  return { action: act === "install" ? "install" : "upgrade", why };
}

/** Manifest and helm hooks as a run would render them now. Throws the same errors. */
export async function renderRelease(tools: Reconciler, request: ReconcileRequest): Promise<string[]> {
  return manifestsNow(await examine(tools, request));
}

/** Number of parallel requests. */
const AT_ONCE = 4;
const CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition";

/** An object of a release, as it was applied last and as it is rendered now. */
interface Pair {
  readonly ref: ObjectRef;
  readonly stored: JsonObject | undefined;
  readonly wanted: JsonObject | undefined;
}

/**
 * What a run would change, object by object, with lines that begin with `-`, `+` or a blank; "" for nothing. A dry-run apply
 * of each object prevents that defaults of the server appear as differences. *Drifted* marks objects that are rendered as
 * before, but were changed by others. Helm hooks are left out. Throws as `reconcile`.
 */
export async function liveDiff(tools: Reconciler, request: DiffRequest): Promise<string> {
  const reconciliation = await examine(tools, request);
  const { release } = reconciliation;
  const rendered = await manifestsNow(reconciliation);
  const stored = release === undefined ? "" : await storedManifest(tools, release, request.signal);
  const all = pairsOf(tools.namespace, [stored], rendered);
  const moves = release !== undefined && release.namespace !== tools.namespace;
  // The objects of a release that moves get another annotation, which is no drift.
  const pairs = moves ? all.map((pair) => ({ ...pair, stored: undefined })) : all;
  const found = new Map<string, string>();
  await mapInParallel(AT_ONCE, pairs, async (pair) => {
    const { apiVersion, kind, name, namespace = tools.namespace } = pair.ref;
    const text = await differenceOf(tools, pair, request).catch((error: unknown) => {
      request.signal.throwIfAborted();
      return `cannot be compared: ${oneLine(error)}\n`;
    });
    if (text !== "") found.set(`${apiVersion} ${kind} ${namespace} ${name}`, text);
  });
  const names = [...found.keys()].sort();
  return names.map((name) => `# ${name}: ${found.get(name) ?? ""}`).join("");
}

/** The manifest of a release. Objects of a release that is going to move name their namespace. */
async function storedManifest(
  { store, discovery, namespace }: Reconciler,
  release: ReleaseMeta,
  signal: AbortSignal,
): Promise<string> {
  const [manifest = ""] = await store.manifests(release, signal);
  if (release.namespace === namespace) return manifest;
  return withNamespaces(manifest, release.namespace, await namespacedKinds(discovery, [manifest]));
}

/** What a run would change in the definitions of `crds/`, which are applied first. Never throws. */
export async function crdDiff(
  tools: Pick<CrdTools, "client" | "clock" | "labels" | "namespace">,
  { crds, displayed, signal }: Pick<DiffRequest, "crds" | "displayed" | "signal">,
): Promise<string> {
  try {
    const { changes, problem } = await previewCrds(crds, { ...tools, signal });
    const refusal = problem && `# ${CRD}: refused: ${describeProblem(problem)}\n`;
    const texts = changes.map(({ name, before, after }) => {
      const what = before === undefined ? "is created" : "changes";
      return `# ${CRD} ${name}: ${what}\n${diffOf(before && displayed(before), displayed(after))}`;
    });
    return [refusal, ...texts].join("");
  } catch (error) {
    return `# ${CRD}: cannot be compared: ${oneLine(error)}\n`;
  }
}

/** The objects of the stored and the rendered manifests, paired by `keyIn`. */
function pairsOf(own: string, stored: readonly string[], rendered: readonly string[]): Pair[] {
  const old = lastingByKey(stored.flatMap(documentsOf), own);
  const now = lastingByKey(rendered.flatMap(documentsOf), own);
  const all = new Map([...old, ...now]);
  return [...all].map(([key, { ref }]) => ({
    ref,
    stored: old.get(key)?.body,
    wanted: now.get(key)?.body,
  }));
}

/** The text about one object, with its difference; "" where there is none. */
async function differenceOf(
  tools: Reconciler,
  { ref, stored, wanted }: Pair,
  { module, signal, displayed }: DiffRequest,
): Promise<string> {
  const served = await ServedObject.of(tools, ref);
  if (served === undefined) return wanted === undefined ? "" : "is created, once its kind is served\n";
  const live = await served.live({ signal });
  if (wanted === undefined)
    return live === undefined ? "" : `is removed\n${diffOf(displayed(plain(live)), undefined)}`;
  const body = withHelmMarks(wanted, module.name, tools.namespace);
  if (live === undefined) return `is created\n${diffOf(undefined, displayed(body))}`;
  const after = await served.apply(body, { signal, dryRun: true });
  if (sameJson(plain(live), plain(after))) return "";
  const what = stored !== undefined && sameJson(stored, wanted) ? "drifted" : "changes";
  return `${what}\n${diffOf(displayed(plain(live)), displayed(plain(after)))}`;
}
