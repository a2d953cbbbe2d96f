/** The overlay: moved into its Secret, and written again when somebody deletes it (docs/VALUES.md, "Patches"). */

import {
  CONFIG_MAPS,
  create,
  get,
  ignoreNotFound,
  isAlreadyExists,
  isForbidden,
  isNotFound,
  mergePatch,
  remove,
  retryConflicts,
  SECRETS,
} from "../../kube/index.ts";
import type { ConfigMap, Target } from "../../kube/index.ts";
import { oneLine, type Clock, type Logger, type Timer } from "../../lib/index.ts";
import { describeOverlay, type Overlay } from "../../model/index.ts";
import { CREATED_BY_US, encoded, type ConfigLocation, type ConfigObjects } from "./config-objects.ts";

/** On the Secret: which version of the ConfigMap it holds, `<uid>/<resourceVersion>`. */
const MOVED_FROM = "addon-operator.io/moved-from";
/** Tries, since somebody may write to the ConfigMap meanwhile. */
const TRIES = 5;
/** An overlay that could not be written again is tried again after this time. */
const RESTORE_AGAIN_MS = 5000;

/**
 * Moves the content of a former overlay ConfigMap into the overlay Secret of the same name: copies it, then deletes
 * the ConfigMap in the version that was copied. If this is interrupted, the next start goes on. Without a ConfigMap
 * there is nothing to do. Errors: ApiError, ConnectionError.
 */
export async function moveOverlay(location: ConfigLocation, overlay: Overlay): Promise<void> {
  if (overlay.kind !== "Secret") return;
  await retryConflicts(TRIES, () => moveOnce(location, overlay.name));
}

async function moveOnce(location: ConfigLocation, name: string): Promise<void> {
  const { client, namespace, logger } = location;
  const target = (resource: Target["resource"]): Target => ({ resource, namespace, name });
  const from = await find(location, target(CONFIG_MAPS));
  if (from === undefined) return;
  const to = await find(location, target(SECRETS));
  const mark = `${from.metadata.uid}/${from.metadata.resourceVersion}`;
  if (to === undefined || to.metadata.annotations?.[MOVED_FROM] !== mark)
    await copy(location, name, { from, to, mark });
  if (from.metadata.labels?.["app.kubernetes.io/created-by"] !== "addon-operator") {
    logger.warn("The overlay ConfigMap was copied into the Secret; it is not the operator's own and stays", {
      configMap: name,
    });
    return;
  }
  try {
    const { uid, resourceVersion } = from.metadata;
    await remove(client, target(CONFIG_MAPS), { preconditions: { uid, resourceVersion } });
    logger.info("The overlay ConfigMap was moved into the Secret of its name", { secret: name });
  } catch (error) {
    if (isNotFound(error)) return;
    if (!isForbidden(error)) throw error;
    logger.warn("The overlay ConfigMap was copied into the Secret and cannot be deleted: delete it", {
      configMap: name,
      error: oneLine(error),
    });
  }
}

/** What stands in both is the ConfigMap's: an older operator wrote to it after it had been copied. */
async function copy(
  { client, namespace }: ConfigLocation,
  name: string,
  { from, to, mark }: { from: ConfigMap; to: ConfigMap | undefined; mark: string },
): Promise<void> {
  const data = encoded(from.data ?? {});
  const annotations = { [MOVED_FROM]: mark };
  if (to !== undefined) {
    const { resourceVersion } = to.metadata;
    const body = { metadata: { resourceVersion, annotations }, data };
    await mergePatch(client, { resource: SECRETS, namespace, name }, { body });
    return;
  }
  const metadata = { name, namespace, labels: CREATED_BY_US, annotations };
  const body = { apiVersion: "v1", kind: "Secret", type: "Opaque", metadata, data };
  await create(client, { resource: SECRETS, namespace }, { body });
}

function find({ client }: ConfigLocation, target: Target): Promise<ConfigMap | undefined> {
  return get<ConfigMap>(client, target).catch(ignoreNotFound);
}

interface OverlayRestorerOptions {
  readonly objects: ConfigObjects;
  readonly overlay: Overlay;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Runs it after the writes of hooks that are under way. */
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
}

/** The overlay belongs to the operator: when somebody deletes it, it is written again from memory. */
export class OverlayRestorer {
  readonly #options: OverlayRestorerOptions;
  #isClosed = false;
  #timer: Timer | undefined;

  constructor(options: OverlayRestorerOptions) {
    this.#options = options;
  }

  /** Writes it again if it is gone. */
  look(): void {
    const { objects, overlay, inTurn } = this.#options;
    if (objects.latest(overlay.name) === undefined) void inTurn(() => this.#restore());
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  async #restore(): Promise<void> {
    if (this.#isClosed) return;
    const { objects, overlay, clock, logger } = this.#options;
    const { data } = objects.last(overlay.name) ?? {};
    const isThere = objects.latest(overlay.name) !== undefined;
    const what = describeOverlay(overlay);
    if (isThere || data === undefined || Object.keys(data).length === 0) return;
    try {
      await objects.create(overlay.name, data);
      logger.info("The overlay was deleted; it is written again from memory", { overlay: what });
    } catch (error) {
      if (isAlreadyExists(error)) return;
      logger.warn("The overlay cannot be written", { overlay: what, error: oneLine(error) });
      if (this.#isClosed) return;
      this.#timer?.cancel();
      this.#timer = clock.setTimer(RESTORE_AGAIN_MS, () => this.look());
    }
  }
}

/** Which object holds the overlay now: until it was moved, the ConfigMap of its name. Changes nothing. */
export async function overlayInForce(
  location: ConfigLocation,
  overlay: Overlay | undefined,
): Promise<Overlay | undefined> {
  if (overlay?.kind !== "Secret") return overlay;
  const { namespace } = location;
  const { name } = overlay;
  const isThere = (await find(location, { resource: SECRETS, namespace, name })) !== undefined;
  if (isThere || (await find(location, { resource: CONFIG_MAPS, namespace, name })) === undefined)
    return overlay;
  return { kind: "ConfigMap", name };
}
