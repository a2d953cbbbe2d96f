import { Releases, managedByDigest, purgeList } from "../helm/index.ts";
import type { Tree } from "../model/index.ts";
import type { State } from "../state/index.ts";
import type { ReleasesPort } from "../tasks/index.ts";
import type { KubeBindings } from "../triggers/index.ts";
import type { Base } from "./base.ts";

/** The releases of this operator; nothing is read yet. */
export function makeReleases(base: Base): Releases {
  const { settings, namespace, client, hub, clock, logger, env } = base;
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
    never: neverTouched(base),
    client,
    hub,
    clock,
    logger,
  });
}

/** `HELM_IGNORE_RELEASE` and the operator's own release are never deleted or purged. */
function neverTouched({ settings, env }: Base): ReadonlySet<string> {
  const ignored = (settings.helmIgnoreRelease ?? "").split(",").map((name) => name.trim());
  return new Set([...ignored, env["ADDON_OPERATOR_RELEASE_NAME"] ?? ""].filter((name) => name !== ""));
}

/** Who else hears of what tasks do with releases, and what they need to know. */
interface Surroundings {
  readonly state: State;
  readonly bindings?: Pick<KubeBindings, "kindsChanged">;
}

/** What tasks may do with releases. */
export function releasesPort(
  base: Base,
  releases: Releases,
  { state, bindings }: Surroundings,
): ReleasesPort {
  const never = neverTouched(base);
  const managedBy = managedByDigest(base.namespace, base.settings.configMap);
  return {
    reconcile: (request) => releases.reconcile(request),
    get: (name) => releases.get(name),
    ownership: (name) => (never.has(name) ? "absent" : releases.ownership(name)),
    anyOurs: () => releases.anyOurs(),
    uninstall: (name, signal) => releases.uninstall(name, signal),
    forget: (name) => releases.forget(name),
    withoutModule: ({ modules }: Tree) =>
      purgeList({
        releases: releases.store.all(),
        tree: { modules, purgeHolds: [] },
        policy: base.settings.purge,
        managedBy,
        never: never.union(guarded(state)),
      }),
    ensureCrds: async (files) => {
      await releases.ensureCrds(files);
      bindings?.kindsChanged();
    },
  };
}

/** Releases whose `<camel>Protected` or `<camel>Maintenance` key is still in the ConfigMap, by module name. */
function guarded(state: State): ReadonlySet<string> {
  const keys = state.values.config?.unknownKeys ?? [];
  return new Set(
    keys.flatMap((key) => /^(.+)(?:Protected|Maintenance)$/.exec(key)?.[1] ?? []).map(kebabCase),
  );
}

function kebabCase(camel: string): string {
  return camel.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
