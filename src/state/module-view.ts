/** The read-only views of modules that the rest of the program uses. */

import { digest } from "../lib/index.ts";
import { retriesOf } from "../helm/index.ts";
import { GLOBAL, type OnFailure } from "../model/index.ts";
import { ailingOf, awaitsCrds, knownHealth, problemOf, releaseMoved } from "./module-record.ts";
import type { ModuleRecord } from "./module-record.ts";
import type { ValuesView } from "./values/values-store.ts";
import type { ModuleView } from "./view.ts";

/** What Ready of a module takes: that its release is applied, or that it is healthy, too. */
type ReadyMeans = "applied" | "healthy";

/** What holds for all modules, unless they say otherwise. */
export interface Terms {
  readonly ready: ReadyMeans;
  readonly onFailure: OnFailure;
}

/** What the rest of the program sees of a module; expensive parts are computed on demand, from what holds now. */
export function moduleView(record: ModuleRecord, values: ValuesView, terms: Terms): ModuleView {
  const { module, run, decided, enabled, enabledBy, enabledReason } = record;
  const { release, absent, drift, crdWork, unread, troubles, files, requestedToken } = record;
  const [global, own] = [values.merged(GLOBAL), values.merged(module.valuesKey)];
  return {
    ...run,
    name: module.name,
    module,
    decided,
    enabled,
    enabledBy,
    enabledReason,
    release,
    absent,
    health: knownHealth(record),
    drift,
    crdWork,
    unread,
    troubles,
    files,
    requestedToken,
    ...values.settings(module),
    problem: problemOf(record),
    flag: values.flag(module).enabled,
    awaitsCrds: awaitsCrds(record),
    releaseMoved: releaseMoved(record),
    ...ailments(record, terms),
    sectionDigest: values.digests.section(module),
    givenDigest: values.digests.given(module),
    configDigest: values.digests.config(module),
    get valuesDigest() {
      return own.digest;
    },
    get wholeDigest() {
      return digest(global.digest, own.digest);
    },
    values: () => ({ [GLOBAL]: global.values, [module.valuesKey]: own.values }),
    get secretPaths() {
      return new Set([...global.secretPaths, ...own.secretPaths]);
    },
  };
}

function ailments(
  record: ModuleRecord,
  { ready, onFailure }: Terms,
): Pick<ModuleView, "ailing" | "goesBack"> {
  const ailing = ready === "healthy" ? ailingOf(record) : undefined;
  const { module, run, release } = record;
  const rollsBack = retriesOf(module, onFailure) !== undefined;
  if (ailing?.status !== "False") return { ailing, goesBack: false };
  const goesBack = rollsBack && run.foundUnhealthy !== release?.revision;
  const isStuck = run.withoutWayBack !== undefined && run.withoutWayBack === release?.revision;
  const message = `${ailing.message}; there is no good revision to go back to`;
  return { ailing: isStuck ? { ...ailing, message } : ailing, goesBack };
}
