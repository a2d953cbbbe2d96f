/**
 * Migrates the objects of a CRD (`live`: as it is installed) to the storage version of its new definition, by a StorageVersionMigration
 * of the cluster or by the user. A definition can drop a version only when no object is stored in it.
 */

import { create, get, ignoreNotFound, mergePatch, remove, type Resource } from "../../kube/index.ts";
import { sleep } from "../../base/index.ts";
import { conditionOf, objectsIn, asString, type JsonObject } from "../../base/model/index.ts";
import {
  crdTarget,
  storageVersion,
  findDroppedStoredVersions,
  type CrdTools,
  type InstalledCrd,
} from "./crd.ts";

const GROUP = "storagemigration.k8s.io";
const PLURAL = "storageversionmigrations";
const KIND = "StorageVersionMigration";
/** After this time all API servers of a cluster know a new storage version; the API server waits as long for a new CRD. */
const PROPAGATION_MS = 5000;
const CHECK_MS = 1000;
const MIGRATION_TIMEOUT_MS = 10 * 60_000;

/** A definition that drops versions in which objects are stored. */
interface Migration {
  readonly live: InstalledCrd;
  readonly crd: JsonObject;
}

/** Why objects cannot be migrated to the storage version of `crd`. */
interface Obstacle {
  readonly message: string;
  readonly remedy: string;
}

/**
 * Finds out why objects cannot be migrated out of the versions that the new definition `crd` drops. Undefined if no migration is
 * needed or the cluster can do it. Throws ApiError, ConnectionError.
 */
export async function findMigrationObstacle(
  { live, crd }: Migration,
  tools: CrdTools,
): Promise<Obstacle | undefined> {
  if (findDroppedStoredVersions(live, crd).length === 0) return undefined;
  const version = storageVersion(crd);
  if (version === undefined || !live.spec.versions.some(({ name }) => name === version)) {
    const message = `stores version ${version}, which the definition in force does not have: objects cannot be converted`;
    return { message, remedy: "take a definition that has both versions first" };
  }
  if ((await findMigrationResource(tools)) !== undefined) return undefined;
  const message = `this cluster does not serve ${KIND}, which brings objects into version ${version}`;
  return { message, remedy: `do it yourself, then ask for a run: ${buildMigrationCommand(live, version)}` };
}

/**
 * Migrates all objects from versions that `crd` drops: sets the storage version of the installed definition to that of
 * `crd`, then runs a StorageVersionMigration, which also updates `status.storedVersions`. After an interruption, the next call waits for
 * the same migration. Throws ApiError, ConnectionError, and Error where the migration fails or takes too long.
 */
export async function migrateObjects({ live, crd }: Migration, tools: CrdTools): Promise<void> {
  const { client, clock, signal } = tools;
  const version = storageVersion(crd) ?? "";
  const resource = await findMigrationResource(tools);
  if (resource === undefined) throw new Error(`the API server does not serve ${KIND} any more`);
  const { metadata, spec } = await setStorageVersion(version, live, tools);
  // The generation distinguishes this migration from one of an earlier change, which may still exist.
  const name = `${metadata.name}-${metadata.generation}`;
  const target = { resource, name };
  const migrated = { group: spec.group, resource: spec.names.plural };
  const apiVersion = `${GROUP}/${resource.version}`;
  const body = { apiVersion, kind: KIND, metadata: { name }, spec: { resource: migrated } };
  tools.onProgress?.(`Waits for ${KIND} ${name}: objects of ${metadata.name} go into version ${version}`);
  const deadline = clock.monotonic() + MIGRATION_TIMEOUT_MS;
  for (;;) {
    const migration: JsonObject =
      (await get(client, target, { signal }).catch(ignoreNotFound)) ??
      (await create(client, { resource }, { body, signal }));
    if (conditionOf(migration, "Succeeded", "True") !== undefined) break;
    const failed = conditionOf(migration, "Failed", "True");
    if (failed !== undefined) {
      // So that the next call tries again.
      await remove(client, target, { signal });
      throw new Error(`${KIND} ${name} has failed: ${asString(failed["message"]) ?? "no reason given"}`);
    }
    if (clock.monotonic() > deadline)
      throw new Error(
        `${KIND} ${name} has not ended after ${MIGRATION_TIMEOUT_MS / 60_000} minutes; does kube-controller-manager run with --feature-gates=StorageVersionMigrator=true?`,
      );
    await sleep(clock, CHECK_MS, signal);
  }
  await remove(client, target, { signal });
}

/**
 * Finds the resource of StorageVersionMigrations. Undefined if the cluster does not serve it, or only in alpha versions, which do
 * not update `storedVersions` of the CRD.
 */
async function findMigrationResource({ client, signal }: CrdTools): Promise<Resource | undefined> {
  const group = await client.json<JsonObject>({ path: `/apis/${GROUP}`, signal }).catch(ignoreNotFound);
  const versions = objectsIn(group?.["versions"]).map((each) => asString(each["version"]) ?? "");
  const version = versions.find((each) => !each.includes("alpha"));
  if (version === undefined) return undefined;
  return { group: GROUP, version, plural: PLURAL, kind: KIND, namespaced: false, verbs: [] };
}

/**
 * Makes `version` the storage version of the installed definition, and waits until every API server of the cluster knows it, because one
 * that does not would store migrated objects in the old version again. Returns the changed definition. Also serves the version.
 */
async function setStorageVersion(
  version: string,
  live: InstalledCrd,
  { client, clock, signal }: CrdTools,
): Promise<InstalledCrd> {
  const { versions } = live.spec;
  if (versions.some((each) => each.name === version && each.storage && each.served)) return live;
  const changed = versions.map((each) => ({
    ...each,
    storage: each.name === version,
    served: each.served || each.name === version,
  }));
  const body = { spec: { versions: changed } };
  const stored = await mergePatch<InstalledCrd>(client, crdTarget(live.metadata.name), { body, signal });
  await sleep(clock, PROPAGATION_MS, signal);
  return stored;
}

/**
 * Builds the kubectl commands that do the same as `migrateObjects`, for a user of a cluster that does not serve migrations: they make
 * `version` the storage version, write each object back unchanged, which stores it in that version, and correct `storedVersions`.
 */
function buildMigrationCommand({ metadata: { name }, spec }: InstalledCrd, version: string): string {
  const { names, group, versions, scope } = spec;
  const versionPatch = versions.flatMap((each, index) => {
    const isNewStorage = each.name === version;
    const replace = (field: string) => ({
      op: "replace",
      path: `/spec/versions/${index}/${field}`,
      value: isNewStorage,
    });
    return [
      ...(each.storage === isNewStorage ? [] : [replace("storage")]),
      ...(isNewStorage && !each.served ? [replace("served")] : []),
    ];
  });
  const namespaceFlag = scope === "Namespaced" ? " --all-namespaces" : "";
  const status = JSON.stringify({ status: { storedVersions: [version] } });
  return [
    ...(versionPatch.length === 0
      ? []
      : [`kubectl patch crd ${name} --type=json -p '${JSON.stringify(versionPatch)}'`, "sleep 5"]),
    `kubectl get ${names.plural}.${version}.${group}${namespaceFlag} -o json | kubectl replace -f -`,
    `kubectl patch crd ${name} --subresource=status --type=merge -p '${status}'`,
  ].join(" && ");
}
