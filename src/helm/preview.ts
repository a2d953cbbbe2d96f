/** What a run would do about a release, and change in the cluster (docs/DEBUG.md): looked at, not done. */

import { inParallel, oneLine, sameJson } from "../lib/index.ts";
import { describeProblem, type JsonObject } from "../model/index.ts";
import { previewCrds } from "./crds/ensure-crds.ts";
import { examine, type DiffRequest, type ReconcileRequest, type Reconciler } from "./decide.ts";
import { marked, ServedObject } from "./live-objects.ts";
import { diffOf, documentsOf, lastingByKey, plain, type ObjectRef } from "./manifest/manifest.ts";
import { isSame, manifestsNow, renderNow } from "./rendering.ts";

/** What a run would do about a release, and why. */
export interface Preview {
  readonly action: "unchanged" | "install" | "upgrade";
  readonly why: string;
}

/**
 * Decides as `reconcileRelease` does and stops there; nothing is written. What helm would have to apply is
 * rendered, so that errors of the chart show. Throws the same errors.
 */
export async function previewRelease(tools: Reconciler, request: ReconcileRequest): Promise<Preview> {
  const { reconciliation, decision } = await examine(tools, request);
  if (decision.act === "nothing") return { action: "unchanged", why: "inputs are the same" };
  const { act, why } = decision;
  if (act === "stay") return { action: "unchanged", why };
  if (act === "rollback") return { action: "upgrade", why: `${why}; the release goes back` };
  const rendered = await renderNow(reconciliation);
  const { release } = reconciliation;
  if (act !== "compare" || release === undefined)
    return { action: act === "install" ? "install" : "upgrade", why };
  const same = await isSame(tools, release, rendered);
  if (same) return { action: "unchanged", why: `${why}; the manifest stays the same` };
  return { action: "upgrade", why: `${why}; the manifest changes` };
}

/** Manifest and helm hooks as a run would render them now. Throws the same errors. */
export async function renderRelease(tools: Reconciler, request: ReconcileRequest): Promise<string[]> {
  return manifestsNow((await examine(tools, request)).reconciliation);
}

/** Objects asked for at the same time. */
const AT_ONCE = 4;
const CRD = "apiextensions.k8s.io/v1 CustomResourceDefinition";

/** An object of a release: as it was applied last, and as it is rendered now. */
interface Pair {
  readonly ref: ObjectRef;
  readonly stored: JsonObject | undefined;
  readonly wanted: JsonObject | undefined;
}

/**
 * What a run would change, object by object, with lines that begin with `-`, `+` or a blank; "" for nothing. Each object
 * is asked for by a dry run of its application, so that the server's defaults are no differences; *drifted* is what
 * somebody else has changed, since it is rendered as before. Helm hooks are left out. Throws as `reconcile`.
 */
export async function liveDiff(tools: Reconciler, request: DiffRequest): Promise<string> {
  const { reconciliation } = await examine(tools, request);
  const { release } = reconciliation;
  const rendered = await manifestsNow(reconciliation);
  const [stored = ""] = release === undefined ? [] : await tools.store.manifests(release, request.signal);
  const found = new Map<string, string>();
  await inParallel(AT_ONCE, pairsOf(tools.namespace, [stored], rendered), async (pair) => {
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

/** The same of definitions in `crds/`, which come before everything else. Never throws. */
export async function crdDiff(
  { client, clock }: Pick<Reconciler, "client" | "clock">,
  { crds, shown, signal }: Pick<DiffRequest, "crds" | "shown" | "signal">,
): Promise<string> {
  try {
    const { changes, problem } = await previewCrds(crds, { client, clock, signal });
    const refusal = problem && `# ${CRD}: refused: ${describeProblem(problem)}\n`;
    const texts = changes.map(({ name, before, after }) => {
      const what = before === undefined ? "is created" : "changes";
      return `# ${CRD} ${name}: ${what}\n${diffOf(before && shown(before), shown(after))}`;
    });
    return [refusal, ...texts].join("");
  } catch (error) {
    return `# ${CRD}: cannot be compared: ${oneLine(error)}\n`;
  }
}

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

/** What is said of one object, with its difference; "" where there is none. */
async function differenceOf(
  tools: Reconciler,
  { ref, stored, wanted }: Pair,
  { module, signal, shown }: DiffRequest,
): Promise<string> {
  const served = await ServedObject.of(tools, ref);
  if (served === undefined) return wanted === undefined ? "" : "is created, once its kind is served\n";
  const live = await served.live({ signal });
  if (wanted === undefined)
    return live === undefined ? "" : `is removed\n${diffOf(shown(plain(live)), undefined)}`;
  const body = marked(wanted, module.name, tools.namespace);
  if (live === undefined) return `is created\n${diffOf(undefined, shown(body))}`;
  const after = await served.apply(body, { signal, dryRun: true });
  if (sameJson(plain(live), plain(after))) return "";
  const what = stored !== undefined && sameJson(stored, wanted) ? "drifted" : "changes";
  return `${what}\n${diffOf(shown(plain(live)), shown(plain(after)))}`;
}
