import { Releases, managedByDigest, purgeList } from "../helm/index.ts";
import type { HelmWitness } from "../helm/index.ts";
import type { Tree } from "../model/index.ts";
import type { ReleasesPort } from "../tasks/index.ts";
import type { ConfigMapSource, KubeBindings } from "../triggers/index.ts";
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
    client,
    discovery,
    hub,
    clock,
    logger,
    ...(witness && { witness }),
  });
}

/**
 * Releases that no module has, and that are never deleted or purged: those in `HELM_IGNORE_RELEASE`, and the operator's
 * own, of which its chart tells, or its ConfigMap, unless that is made by a module.
 */
function neverTouched({ settings, env }: Base, releases: Releases, config?: OwnRelease): ReadonlySet<string> {
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  const made = config?.release ?? "";
  const own = [env["ADDON_OPERATOR_RELEASE_NAME"] ?? "", releases.ownership(made) === "ours" ? "" : made];
  return new Set([...ignored, ...own].filter((name) => name !== ""));
}

type OwnRelease = Pick<ConfigMapSource, "release">;

/** What tasks may do with releases; `bindings` hear of kinds that came, `config` tells whose the ConfigMap is. */
export function releasesPort(
  base: Base,
  releases: Releases,
  around: { readonly bindings?: Pick<KubeBindings, "kindsChanged">; readonly config?: OwnRelease } = {},
): ReleasesPort {
  const never = (): ReadonlySet<string> => neverTouched(base, releases, around.config);
  const managedBy = managedByDigest(base.namespace, base.settings.configMap);
  return {
    reconcile: (request) => releases.reconcile(request),
    renderAhead: (requests) => releases.renderAhead(requests),
    installAhead: (requests) => releases.installAhead(requests),
    get: (name) => releases.get(name),
    isReserved: (name) => never().has(name),
    ownership: (name) => (never().has(name) ? "absent" : releases.ownership(name)),
    installed: () => {
      const reserved = never();
      return releases.installed().filter((name) => !reserved.has(name));
    },
    anyOurs: () => releases.anyOurs(),
    uninstall: (name, signal, onWait) => releases.uninstall(name, signal, onWait),
    forget: (name) => releases.forget(name),
    withoutModule: ({ modules }: Tree) =>
      purgeList({
        releases: releases.store.all(),
        tree: { modules, purgeHolds: [] },
        policy: base.settings.purge,
        managedBy,
        never: never(),
      }),
    ensureCrds: async (files) => {
      await releases.ensureCrds(files);
      around.bindings?.kindsChanged();
    },
  };
}
