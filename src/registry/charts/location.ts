/** Locations of public charts: `oci://HOST/PATH` in a registry, `https://HOST/PATH` of a chart repository. */

import { toRegistryHost } from "../reference.ts";

/** Allows no user, query, fragment or escapes, so that equal locations have equal texts. */
const CHART_LOCATION = /^(oci|https?):\/\/([^\s,/@?#%\\]+)((?:\/[^\s,/@?#%\\]+)*)\/?$/;

/**
 * Normalizes the location of charts, so that locations can be compared as texts; undefined for an invalid location.
 */
export function normalizeChartLocation(text: string): string | undefined {
  const [, scheme = "", host = "", path = ""] = CHART_LOCATION.exec(text) ?? [];
  const hasDots = path.split("/").some((segment) => segment === "." || segment === "..");
  if (scheme === "" || hasDots || !URL.canParse(`https://${host}/`)) return undefined;
  return `${scheme}://${scheme === "oci" ? toRegistryHost(host) : new URL(`${scheme}://${host}`).host}${path}`;
}

/** Whether a normalized location equals an allowed one, or is below one. */
export function isWithinLocations(location: string, allowed: readonly string[]): boolean {
  return allowed.some((each) => location === each || location.startsWith(`${each}/`));
}

/** Whether a location is a chart repository with an index.yaml, not an OCI registry. */
export function isChartRepository(location: string): boolean {
  return !location.startsWith("oci:");
}
