/** Builds the room of helm releases from the settings. */

import { Releases, managedByDigest } from "../helm/index.ts";
import type { ReleasesOptions } from "../helm/index.ts";
import type { Base } from "./base.ts";

/** The releases of this operator; reads nothing yet. */
export function makeReleases(
  base: Base,
  around: Pick<ReleasesOptions, "recorder" | "ownRelease" | "onCrds"> = {},
): Releases {
  const { settings, namespace, env } = base;
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  const reserved = [...ignored, env["ADDON_OPERATOR_RELEASE_NAME"] ?? ""].filter((name) => name !== "");
  return new Releases({
    ...base,
    ...settings,
    ...around,
    namespace,
    bin: settings.helmBin,
    managedBy: managedByDigest(namespace, settings.configMap),
    timeoutMs: settings.helmTimeoutMs,
    historyMax: settings.helmHistoryMax,
    validate: settings.helmValidate,
    reserved,
  });
}
