/** Creates the CRDs of sub-charts before the first installation of a chart (docs/reference/modules.md, "The chart"). */

import { join } from "node:path";

import { isAlreadyExists } from "../../kube/index.ts";
import type { JsonObject } from "../../base/model/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { UpgradeOptions } from "../binary/helm.ts";
import { UnusableChartError } from "../chart/chart.ts";
import { listNamedObjects, parseDocuments, resourceName, type ManifestObject } from "../manifest/manifest.ts";
import { LiveObjectClient } from "../objects/live-objects.ts";
import { readCapabilities } from "../rendering.ts";
import type { Reconciliation } from "../types.ts";
import { waitUntilServed } from "./ensure-crds.ts";
import { findOwnCrd, readModuleCrds } from "./read-crds.ts";
import { crdName } from "./crd.ts";

/**
 * Creates the objects in `crds/` of enabled sub-charts that do not exist, as helm does before a first installation, except those
 * that the operator applies itself. Waits until the API serves them. Helm renders the chart, because only helm knows which
 * sub-charts are enabled. Throws UnusableChartError for a definition of the operator itself, HelmError, ApiError, ConnectionError.
 */
export async function createSubChartCrds(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
): Promise<void> {
  const { tools, request, chart } = reconciliation;
  const { chartDir, crdFiles = [] } = request.module;
  if (chart.subChartCrds.every((rel) => crdFiles.includes(join(chartDir, rel)))) return;
  const applied = new Set((await readModuleCrds(crdFiles)).crds.map(({ crd }) => crdName(crd)));
  const texts = await readCrdTexts(reconciliation, options);
  const objects = listNamedObjects(parseDocuments(texts)).filter(({ ref }) => !applied.has(ref.name));
  const problem = findOwnCrd(
    objects.map(({ ref }) => ref),
    chartDir,
  );
  if (problem !== undefined) throw new UnusableChartError(problem);
  const created = await Promise.all(objects.map((object) => createIfMissing(object, reconciliation)));
  for (const crd of created)
    if (crd !== undefined)
      await waitUntilServed({ file: chartDir, crd }, { ...tools, signal: request.signal });
}

/** The texts of the files in `crds/`: of enabled sub-charts, or of all where templates cannot be rendered without the server. */
async function readCrdTexts(reconciliation: Reconciliation, options: UpgradeOptions): Promise<string> {
  const { tools, chart } = reconciliation;
  const capabilities = await readCapabilities(reconciliation);
  try {
    const text = await tools.helm.template({
      ...options,
      ...capabilities,
      isUpgrade: false,
      includeCrds: true,
    });
    // Helm prints these files first.
    return text.split(TEMPLATE_SOURCE, 1)[0] ?? "";
  } catch (error) {
    if (!(error instanceof HelmError) || !chart.reach.lookup) throw error;
    return tools.helm.showCrds(options);
  }
}

const TEMPLATE_SOURCE = /^# Source: .*\/templates\//m;

/** Creates an object unless it exists. Returns it if it is a definition that was created. */
async function createIfMissing(
  { ref, body }: ManifestObject,
  { tools, request }: Reconciliation,
): Promise<JsonObject | undefined> {
  const client = await LiveObjectClient.resolve(tools, ref);
  if (client === undefined)
    throw new Error(
      `crds/ of a sub-chart contains ${resourceName(ref)} of ${ref.apiVersion}, which the API server does not serve`,
    );
  try {
    const created = await client.create(body, { signal: request.signal });
    return ref.kind === "CustomResourceDefinition" ? created : undefined;
  } catch (error) {
    if (isAlreadyExists(error)) return undefined;
    throw error;
  }
}
