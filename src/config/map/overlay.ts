/**
 * Moves the overlay into its Secret, and writes the overlay again after a user deleted it (docs/reference/values.md, "Patches"). The overlay is
 * the operator's own ConfigMap or Secret for configuration that hooks write; it is merged over the users' ConfigMap.
 */

import {
  CONFIG_MAPS,
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  isForbidden,
  mergePatch,
  remove,
  retryConflicts,
  SECRETS,
} from "../../kube/index.ts";
import type { ConfigMap, Target } from "../../kube/index.ts";
import { oneLine, type Clock, type Logger } from "../../base/index.ts";
import { describeOverlay, type Overlay } from "../../base/model/index.ts";
import { Loop, type RunInTurn } from "../../runtime/index.ts";
import {
  CREATED_BY_OPERATOR,
  toBase64Data,
  type ConfigLocation,
  type ConfigObjects,
} from "./config-objects.ts";

/** Annotation of the Secret: the version of the ConfigMap that was copied, as `<uid>/<resourceVersion>`. Without it, a repeated copy would undo later writes to the Secret. */
const MOVED_FROM = "addon-operator.io/moved-from";
/** The ConfigMap may change between copy and delete, which is a conflict. */
const MAX_CONFLICT_TRIES = 5;
const RESTORE_RETRY_MS = 5000;

/**
 * Moves the content of a former overlay ConfigMap into the overlay Secret of the same name: copies the content, then deletes
 * the ConfigMap in the version that was copied. If the move is interrupted, the next start continues it. Does nothing without
 * such a ConfigMap. Errors: ApiError, ConnectionError.
 */
export async function moveOverlay(location: ConfigLocation, overlay: Overlay): Promise<void> {
  if (overlay.kind !== "Secret") return;
  await retryConflicts(MAX_CONFLICT_TRIES, () => tryMoveOverlay(location, overlay.name));
}

/** One try of `moveOverlay`. Copies unless this version was copied before; deletes only a ConfigMap that the operator created. */
async function tryMoveOverlay(location: ConfigLocation, name: string): Promise<void> {
  const { client, namespace, logger } = location;
  const target = (resource: Target["resource"]): Target => ({ resource, namespace, name });
  const configMap = await findObject(location, target(CONFIG_MAPS));
  if (configMap === undefined) return;
  const secret = await findObject(location, target(SECRETS));
  const { uid, resourceVersion } = configMap.metadata;
  const version = `${uid}/${resourceVersion}`;
  const isCopied = secret?.metadata.annotations?.[MOVED_FROM] === version;
  if (!isCopied) await copyOverlay(location, name, { configMap, secret, version });
  if (configMap.metadata.labels?.["app.kubernetes.io/created-by"] !== "addon-operator") {
    logger.warn("The overlay ConfigMap was copied into the Secret; it is not the operator's own and stays", {
      configMap: name,
    });
    return;
  }
  try {
    await remove(client, target(CONFIG_MAPS), { preconditions: { uid, resourceVersion } });
    logger.info("The overlay ConfigMap was moved into the Secret of its name", { secret: name });
  } catch (error) {
    if (!isForbidden(error)) throw error;
    logger.warn("The overlay ConfigMap was copied into the Secret and cannot be deleted: delete it", {
      configMap: name,
      error: oneLine(error),
    });
  }
}

/**
 * Copies the ConfigMap into the Secret, and annotates the Secret with the copied version. The ConfigMap wins for keys in both: an older operator
 * wrote to it after the last copy.
 */
async function copyOverlay(
  { client, namespace }: ConfigLocation,
  name: string,
  { configMap, secret, version }: { configMap: ConfigMap; secret: ConfigMap | undefined; version: string },
): Promise<void> {
  const data = toBase64Data(configMap.data ?? {});
  const annotations = { [MOVED_FROM]: version };
  if (secret !== undefined) {
    // The version makes the patch fail with a conflict if the Secret has changed since it was read.
    const { resourceVersion } = secret.metadata;
    const body = { metadata: { resourceVersion, annotations }, data };
    await mergePatch(client, { resource: SECRETS, namespace, name }, { body });
    return;
  }
  const metadata = { name, namespace, labels: CREATED_BY_OPERATOR, annotations };
  const body = { apiVersion: "v1", kind: "Secret", type: "Opaque", metadata, data };
  await create(client, { resource: SECRETS, namespace }, { body });
}

/** Reads a ConfigMap or Secret; undefined = it does not exist. */
function findObject({ client }: ConfigLocation, target: Target): Promise<ConfigMap | undefined> {
  return get<ConfigMap>(client, target).catch(ignoreNotFound);
}

interface OverlayRestorerOptions {
  readonly objects: ConfigObjects;
  readonly overlay: Overlay;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly serialize: RunInTurn;
}

/** Writes the overlay again from memory when a user deletes it: it belongs to the operator. */
export class OverlayRestorer {
  readonly #options: OverlayRestorerOptions;
  readonly #loop: Loop;

  constructor(options: OverlayRestorerOptions) {
    this.#options = options;
    const { clock, logger, overlay, serialize } = options;
    this.#loop = new Loop({
      clock,
      // After the hook writes that are under way.
      run: (signal) => serialize(() => this.#restore(signal)),
      retry: RESTORE_RETRY_MS,
      onError: (error) => {
        const fields = { overlay: describeOverlay(overlay), error: oneLine(error) };
        logger.warn("The overlay cannot be written", fields);
      },
    });
  }

  /** Writes the overlay again if it is missing. After an error, tries again later. */
  restoreIfMissing(): void {
    const { objects, overlay } = this.#options;
    if (objects.getLatest(overlay.name) === undefined) this.#loop.trigger();
  }

  close(): void {
    this.#loop.close();
  }

  /** Creates the missing overlay with its last known content. */
  async #restore(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { objects, overlay, logger } = this.#options;
    const { data = {} } = objects.getLastKnown(overlay.name) ?? {};
    // A hook's write that this call has waited for may have created it.
    const exists = objects.getLatest(overlay.name) !== undefined;
    if (exists || Object.keys(data).length === 0) return;
    try {
      await objects.create(overlay.name, data);
      logger.info("The overlay was deleted; it is written again from memory", {
        overlay: describeOverlay(overlay),
      });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
}

/**
 * Finds the object that contains the overlay: the configured one or, if only a ConfigMap of the Secret's name exists, that ConfigMap, which
 * the operator moves at its next start. For commands that may only read.
 */
export async function findStoredOverlay(
  location: ConfigLocation,
  overlay: Overlay | undefined,
): Promise<Overlay | undefined> {
  if (overlay?.kind !== "Secret") return overlay;
  const { namespace } = location;
  const { name } = overlay;
  if ((await findObject(location, { resource: SECRETS, namespace, name })) !== undefined) return overlay;
  const configMap = await findObject(location, { resource: CONFIG_MAPS, namespace, name });
  return configMap === undefined ? overlay : { kind: "ConfigMap", name };
}
