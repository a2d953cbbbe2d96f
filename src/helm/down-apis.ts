/**
 * Prevents that an aggregated API that is down counts as one that was removed: helm renders `.Capabilities.APIVersions` without it, and an
 * upgrade would change or delete the objects that depend on it.
 */

import { remedyOf, type GroupVersion } from "../kube/index.ts";
import { canonicalJson, listNames, sameJson } from "../base/index.ts";
import { isContainer, valueAt, type Json } from "../base/model/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { formatApiVersion, listApiVersions } from "./chart/capabilities.ts";
import { readChartTexts } from "./chart/chart.ts";
import {
  listObjectRefs,
  manifestChecksum,
  parseDocuments,
  resourceKey,
  resourceName,
  type RenderedChart,
} from "./manifest/manifest.ts";
import { isInstalled, RELEASE_LABELS } from "./release/revisions.ts";
import { renderForApis } from "./rendering.ts";
import type { Reconciliation } from "./types.ts";

/** An upgrade waits, because an API that is down decides what the chart renders. A retry succeeds when the API answers or is removed. */
export class DownApiError extends Error {
  /** `effect`: what the chart does to the objects without the APIs. */
  constructor(apis: readonly string[], objects: readonly string[], effect = "would delete or change") {
    const names = listNames(objects, MAX_NAMED_OBJECTS);
    super(
      `the upgrade waits for the API ${apis.join(", ")}, which does not answer: without it, the chart ${effect} ${names}; ${remedyOf(apis[0] ?? "")}; repair the API, or delete the APIService if it is not needed any more`,
    );
    this.name = "DownApiError";
  }
}

const MAX_NAMED_OBJECTS = 5;

/** The label of the inputs of a release whose chart has deleted or changed objects without an API: its runs fail until the API answers. */
const LOST_OBJECTS = "lost-objects";

/** Documents of a manifest by their canonical text. */
type DocumentsByText = ReadonlyMap<string, Json>;

/** What APIs that are down change in the manifest of a chart. */
interface EffectOfDownApis {
  readonly apis: readonly string[];
  /** All documents that the chart renders while the APIs do not answer. */
  readonly without: DocumentsByText;
  /** Documents that the chart renders only if the APIs answer. */
  readonly onlyWithApis: DocumentsByText;
  /** Documents that the chart renders only while they do not answer. */
  readonly onlyWithout: DocumentsByText;
  /** Documents of the installed revision that an upgrade now would delete or change. */
  readonly affected: readonly Json[];
  /** All documents of the installed revision, with the random content of `without`. */
  readonly recorded: readonly Json[];
}

/**
 * Whether a rendering differs from the installed revision only because APIs are down, so that the release stays as it is. False if no such API
 * affects the release. Throws DownApiError if one does and other inputs changed, too.
 */
export async function differsOnlyByDownApis(
  reconciliation: Reconciliation,
  rendered: RenderedChart,
): Promise<boolean> {
  const effect = await findEffectOfDownApis(reconciliation, rendered);
  if (effect === undefined) return false;
  const { apis, without, onlyWithApis, onlyWithout, affected, recorded } = effect;
  if (affected.length === 0) {
    const isSame = manifestChecksum(recorded) === manifestChecksum([...without.values()]);
    return isSame && lacksParts(reconciliation, effect);
  }
  const expected = indexByText(recorded);
  for (const text of onlyWithApis.keys()) expected.delete(text);
  for (const [text, document] of onlyWithout) expected.set(text, document);
  const checksum = manifestChecksum([...expected.values()]);
  // Random content differs from that of `rendered`, but not from that of `without`.
  if (checksum === rendered.checksum || checksum === manifestChecksum([...without.values()])) return true;
  throw new DownApiError(apis, nameObjects(affected));
}

/**
 * Whether the installed revision lacks what its chart renders only with APIs that are down, so that its labels must not say that it is
 * complete. Throws DownApiError if it had that before.
 */
export async function isIncomplete(reconciliation: Reconciliation): Promise<boolean> {
  const effect = await findEffectOfDownApis(reconciliation);
  return effect !== undefined && lacksParts(reconciliation, effect);
}

/**
 * Removes the digest of the inputs from a revision that helm has just rendered without APIs that are down, so that later runs compare the
 * manifest. Throws DownApiError if helm has deleted or changed objects of the previous revision, because an API went down meanwhile.
 */
export async function markIncompleteRevision(previous: Reconciliation): Promise<void> {
  const { tools, request } = previous;
  const release = tools.store.get(request.module.name);
  if (release === undefined || !(await isIncomplete({ ...previous, release }))) return;
  const setInputs = (inputs: string | null): Promise<void> =>
    tools.store.setLabels(
      release,
      { [RELEASE_LABELS.inputs]: inputs, [RELEASE_LABELS.manifest]: null },
      request.signal,
    );
  await setInputs(null);
  const effect = await findEffectOfDownApis(previous);
  if (effect === undefined || effect.affected.length === 0) return;
  await setInputs(LOST_OBJECTS);
  throw new DownApiError(effect.apis, nameObjects(effect.affected), "has deleted or changed");
}

/** Whether the recorded documents are not those that the chart renders with the APIs. Throws DownApiError if they were before. */
function lacksParts({ release }: Reconciliation, effect: EffectOfDownApis): boolean {
  const { apis, onlyWithApis, onlyWithout, recorded } = effect;
  const texts = indexByText(recorded);
  const isIncomplete =
    [...onlyWithApis.keys()].some((text) => !texts.has(text)) ||
    [...onlyWithout.keys()].some((text) => texts.has(text));
  if (!isIncomplete || release?.labels[RELEASE_LABELS.inputs] !== LOST_OBJECTS) return isIncomplete;
  const objects = nameObjects([...onlyWithApis.values(), ...onlyWithout.values()]);
  throw new DownApiError(apis, objects, "has deleted or changed");
}

/** Throws DownApiError if an upgrade now would delete or change objects of the installed revision because an API is down. */
export async function requireNoEffectOfDownApis(reconciliation: Reconciliation): Promise<void> {
  const effect = await findEffectOfDownApis(reconciliation);
  if (effect !== undefined && effect.affected.length > 0)
    throw new DownApiError(effect.apis, nameObjects(effect.affected));
}

/**
 * Renders the chart without the server, with the APIs that are down and without them. Undefined if no API is down that the chart asks for in
 * `.Capabilities`. Templates with `lookup` find nothing in these renderings, so that all recorded objects that `rendered` lacks count. Random
 * content, such as a generated password, differs in each rendering without an effect of the APIs, so it does not count.
 */
async function findEffectOfDownApis(
  reconciliation: Reconciliation,
  rendered?: RenderedChart,
): Promise<EffectOfDownApis | undefined> {
  const { tools, release, chart, request } = reconciliation;
  const { capabilities, apis: names } = chart.reach;
  if (!isInstalled(release) || !capabilities) return undefined;
  const versions = await tools.discovery.readVersions();
  const down = versions.filter((each) => each.isDown && (names === undefined || isNamed(each, names)));
  if (down.length === 0) return undefined;
  const served = versions.filter(({ isDown }) => !isDown).flatMap(listApiVersions);
  const texts = [...readChartTexts(request.module), request.values];
  const unknown = [...down.flatMap(listApiVersions), ...findMentionedKinds(texts, down)];
  const renderings = await renderWithAndWithout(reconciliation, served, unknown);
  const { incomplete, complete, withoutRandom } = renderings ?? NO_RENDERINGS;
  const [without, withApis] = [indexByText(incomplete), indexByText(complete.map(withoutRandom))];
  const manifests = await tools.store.readManifests(release, request.signal);
  const recorded = manifests.flatMap(parseDocuments).map(withoutRandom);
  const onlyWithApis = new Map([...withApis].filter(([text]) => !without.has(text)));
  const onlyWithout = new Map([...without].filter(([text]) => !withApis.has(text)));
  const keys = new Set([...onlyWithApis.values(), ...onlyWithout.values()].flatMap(listKeys));
  const lookedUp = chart.reach.lookup && rendered !== undefined ? listMissing(recorded, rendered) : new Set();
  const affected = recorded.filter(
    (document) =>
      !without.has(canonicalJson(document)) &&
      listKeys(document).some((key) => keys.has(key) || lookedUp.has(key)),
  );
  // The others, which the chart does not name, cannot be what it waits for.
  const mentioned = down.filter(({ group }) => texts.some((text) => text.includes(group)));
  const apis = (mentioned.length > 0 ? mentioned : down).map(formatApiVersion);
  return { apis, without, onlyWithApis, onlyWithout, affected, recorded };
}

interface Renderings {
  /** What the chart renders without the APIs that are down. */
  readonly incomplete: readonly Json[];
  /** What it renders with them. */
  readonly complete: readonly Json[];
  /** Replaces random content of a document with that of `incomplete`. */
  readonly withoutRandom: (document: Json) => Json;
}

const NO_RENDERINGS: Renderings = { incomplete: [], complete: [], withoutRandom: (document) => document };

/**
 * Renders the chart without the server, for the APIs `served` and with `unknown` ones. Undefined if the templates fail because `lookup`
 * finds nothing: then only the objects that the rendering with the server lacks count.
 */
async function renderWithAndWithout(
  reconciliation: Reconciliation,
  served: readonly string[],
  unknown: readonly string[],
): Promise<Renderings | undefined> {
  const kubeVersion = await reconciliation.tools.capabilities.kubeVersion();
  const render = async (apiVersions: readonly string[]): Promise<Json[]> =>
    parseDocuments(await renderForApis(reconciliation, { kubeVersion, apiVersions }));
  try {
    const [incomplete, complete] = [await render(served), await render([...served, ...unknown])];
    if (sameJson(incomplete, complete)) return { ...NO_RENDERINGS, incomplete, complete };
    return { incomplete, complete, withoutRandom: createRandomFilter(incomplete, await render(served)) };
  } catch (error) {
    reconciliation.request.signal.throwIfAborted();
    if (!(error instanceof HelmError) || !reconciliation.chart.reach.lookup) throw error;
    return undefined;
  }
}

/** Whether a chart asks for an API, or for one of its kinds. */
function isNamed(api: GroupVersion, names: ReadonlySet<string>): boolean {
  const apiVersion = formatApiVersion(api);
  return [...names].some((name) => name === apiVersion || name.startsWith(`${apiVersion}/`));
}

/**
 * From two renderings for the same APIs, creates the function that replaces random content of a document, which is where the two renderings
 * differ, with that of the first rendering.
 */
function createRandomFilter(first: readonly Json[], second: readonly Json[]): (document: Json) => Json {
  const indexByKeys = (documents: readonly Json[]): Map<string, Json> =>
    new Map(documents.map((document) => [listKeys(document).join("\n"), document]));
  const [firstByKeys, secondByKeys] = [indexByKeys(first), indexByKeys(second)];
  return (document) => {
    const keys = listKeys(document).join("\n");
    return replaceWhereDifferent(document, firstByKeys.get(keys), secondByKeys.get(keys));
  };
}

/** Replaces the parts of a value where two others differ with those of the first. */
function replaceWhereDifferent(value: Json, first: Json | undefined, second: Json | undefined): Json {
  if (!isContainer(value) || !isContainer(first) || !isContainer(second))
    return sameJson(first, second) ? value : (first ?? null);
  const replaced = Object.entries(value).map(([key, each]) => {
    const part = replaceWhereDifferent(each as Json, valueAt(first, [key]), valueAt(second, [key]));
    return [key, part] as const;
  });
  return Array.isArray(value) ? replaced.map(([, part]) => part) : Object.fromEntries(replaced);
}

/** The keys of recorded objects that a rendering lacks. */
function listMissing(recorded: readonly Json[], rendered: RenderedChart): Set<string> {
  const renderedKeys = new Set(rendered.objects.map(resourceKey));
  return new Set(recorded.flatMap(listKeys).filter((key) => !renderedKeys.has(key)));
}

function indexByText(documents: readonly Json[]): Map<string, Json> {
  return new Map(documents.map((document) => [canonicalJson(document), document]));
}

function listKeys(document: Json): string[] {
  return listObjectRefs([document]).map(resourceKey);
}

function nameObjects(documents: readonly Json[]): string[] {
  return listObjectRefs(documents).map(resourceName);
}

/**
 * Finds the kinds of APIs that the chart or its values mention, such as `metrics.k8s.io/v1beta1/PodMetrics`: the kinds of an API that is down
 * since the start of the operator are unknown.
 */
function findMentionedKinds(texts: readonly string[], apis: readonly GroupVersion[]): string[] {
  return apis.map(formatApiVersion).flatMap((apiVersion) =>
    texts.flatMap((text) =>
      text
        .split(`${apiVersion}/`)
        .slice(1)
        .flatMap((rest) => /^\w{1,63}/.exec(rest)?.map((kind) => `${apiVersion}/${kind}`) ?? []),
    ),
  );
}
