/** Names of places with public charts: `oci://HOST/PATH` of a registry, `https://HOST/PATH` of a chart repository. */

import { hostOf } from "../reference.ts";

/** Without user, query, fragment and escapes, so that equal places are equal texts. */
const CHART_LOCATION = /^(oci|https?):\/\/([^\s,/@?#%\\]+)((?:\/[^\s,/@?#%\\]+)*)\/?$/;

/** One spelling of a place of charts; undefined for a text that names none. */
export function normalizeChartLocation(text: string): string | undefined {
  const [, scheme = "", host = "", path = ""] = CHART_LOCATION.exec(text) ?? [];
  const hasDots = path.split("/").some((segment) => segment === "." || segment === "..");
  if (scheme === "" || hasDots || !URL.canParse(`https://${host}/`)) return undefined;
  return `${scheme}://${scheme === "oci" ? hostOf(host) : new URL(`${scheme}://${host}`).host}${path}`;
}

/** Whether a place is one of these, or below one of them. */
export function isWithinLocations(place: string, allowed: readonly string[]): boolean {
  return allowed.some((each) => place === each || place.startsWith(`${each}/`));
}

/** Whether a place is a chart repository, not a registry. */
export function isChartRepository(place: string): boolean {
  return !place.startsWith("oci:");
}
