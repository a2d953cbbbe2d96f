import { Releases, managedByDigest, purgeList } from "../helm/index.ts";
import type { HelmWitness } from "../helm/index.ts";
import type { Tree } from "../model/index.ts";
import type { ReleasesPort } from "../tasks/index.ts";
import type { KubeBindings } from "../triggers/index.ts";
import type { Base } from "./base.ts";

/** The releases of this operator; nothing is read yet. */
export function makeReleases(base: Base, witness?: HelmWitness): Releases {
  const { settings, namespace, client, discovery, hub, clock, logger, env } = base;
  return new Releases({
    bin: settings.helmBin,
    namespace,
    managedBy: managedByDigest(namespace, settings.configMap),
    timeoutMs: settings.helmTimeoutMs,
    historyMax: settings.helmHistoryMax,
    validate: settings.helmValidate,
    tmpDir: settings.tmpDir,
    env,
    kubeConfig: settings.kubeConfig,
    kubeContext: settings.kubeContext,
    purge: settings.purge,
    adopt: settings.adopt,
    never: neverTouched(base),
    client,
    discovery,
    hub,
    clock,
    logger,
    ...(witness && { witness }),
  });
}

/** `HELM_IGNORE_RELEASE` and the operator's own release are never deleted or purged. */
function neverTouched({ settings, env }: Base): ReadonlySet<string> {
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  return new Set([...ignored, env["ADDON_OPERATOR_RELEASE_NAME"] ?? ""].filter((name) => name !== ""));
}

/** What tasks may do with releases; `bindings` hear of kinds that came. */
export function releasesPort(
  base: Base,
  releases: Releases,
  bindings?: Pick<KubeBindings, "kindsChanged">,
): ReleasesPort {
  const never = neverTouched(base);
  const managedBy = managedByDigest(base.namespace, base.settings.configMap);
  return {
    reconcile: (request) => releases.reconcile(request),
    renderAhead: (requests) => releases.renderAhead(requests),
    installAhead: (requests) => releases.installAhead(requests),
    get: (name) => releases.get(name),
    isReserved: (name) => never.has(name),
    ownership: (name) => (never.has(name) ? "absent" : releases.ownership(name)),
    installed: () => releases.installed().filter((name) => !never.has(name)),
    anyOurs: () => releases.anyOurs(),
    uninstall: (name, signal) => releases.uninstall(name, signal),
    forget: (name) => releases.forget(name),
    withoutModule: ({ modules }: Tree) =>
      purgeList({
        releases: releases.store.all(),
        tree: { modules, purgeHolds: [] },
        policy: base.settings.purge,
        managedBy,
        never,
      }),
    ensureCrds: async (files) => {
      await releases.ensureCrds(files);
      bindings?.kindsChanged();
    },
  };
}
