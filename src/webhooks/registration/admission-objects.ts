/** Keeps the ValidatingWebhookConfigurations and MutatingWebhookConfigurations as wanted. */

import { ApiError, MANAGED_BY_OPERATOR, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from "../../kube/index.ts";
import { create, get, ignoreNotFound, remove, replace } from "../../kube/index.ts";
import type { KubeAccess, Resource, WatchHub, WatchedObject } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { asString, objectOf, objectsIn, type JsonObject } from "../../model/index.ts";
import { clientConfig, webhookItem, type AdmissionWebhook, type WebhookTarget } from "./wanted.ts";

const RESOURCES: Readonly<Record<AdmissionWebhook["type"], Resource>> = {
  validating: VALIDATING_WEBHOOKS,
  mutating: MUTATING_WEBHOOKS,
};
const TYPES = ["validating", "mutating"] as const;

/** One configuration object is named after each group: a mistake in one does not affect the other. */
export type WebhookGroup = "hooks" | "operator";
const GROUPS = ["hooks", "operator"] as const;

export interface AdmissionObjectsOptions extends KubeAccess {
  readonly hub: WatchHub;
  /** Begin of the names of the objects. */
  readonly name: string;
  readonly target: WebhookTarget;
  /** What the API server refuses of a webhook. */
  readonly onRefused: (group: WebhookGroup, webhook: string, message: string) => void;
}

/** How the objects are made. */
interface Applying {
  readonly ca: string;
  /** Webhooks that are registered and not wanted stay: their hooks may not be loaded yet. */
  readonly keepOthers: boolean;
  /** Webhooks that are not registered yet are added. */
  readonly mayAdd: boolean;
}

/** One object: its type, and the group it is for. */
interface WebhookObject {
  readonly group: WebhookGroup;
  readonly resource: Resource;
  readonly name: string;
}

/**
 * The configuration objects of the operator's webhooks. An object without webhooks is deleted. A webhook that the API server
 * refuses is left out, so that the others are registered.
 */
export class AdmissionObjects {
  readonly #options: AdmissionObjectsOptions;
  readonly #closes: (() => void)[] = [];

  constructor(options: AdmissionObjectsOptions) {
    this.#options = options;
  }

  /** Calls `changed` when someone changes one of the objects. */
  watch(changed: () => void): void {
    const ignore = (): void => {};
    for (const { resource, name } of this.#objects()) {
      const fieldSelector = `metadata.name=${name}`;
      const consumer = { onListed: ignore, onSynced: ignore, onApplied: changed, onDeleted: changed };
      const watch = this.#options.hub.subscribe({ resource, fieldSelector, metadataOnly: true }, consumer);
      this.#closes.push(() => watch.close());
    }
  }

  close(): void {
    for (const close of this.#closes) close();
  }

  /** Makes the objects as wanted. Throws ApiError, ConnectionError. */
  async apply(
    wanted: readonly (AdmissionWebhook & { readonly group: WebhookGroup })[],
    how: Applying,
  ): Promise<void> {
    for (const object of this.#objects()) {
      const own = wanted.filter(
        ({ group, type }) => group === object.group && RESOURCES[type] === object.resource,
      );
      await this.#applyOne(object, own, how);
    }
  }

  *#objects(): Generator<WebhookObject> {
    for (const group of GROUPS) {
      for (const type of TYPES)
        yield { group, resource: RESOURCES[type], name: `${this.#options.name}-${group}` };
    }
  }

  async #applyOne(
    object: WebhookObject,
    wanted: readonly AdmissionWebhook[],
    { ca, keepOthers, mayAdd }: Applying,
  ): Promise<void> {
    const { client, namespace, target } = this.#options;
    const { resource, name } = object;
    const found = await get<WatchedObject>(client, { resource, name }).catch(ignoreNotFound);
    const names = new Set(wanted.map((webhook) => webhook.name));
    const registered = Map.groupBy(objectsIn(found?.["webhooks"]), nameOf);
    const items = wanted
      .filter((webhook) => mayAdd || registered.has(webhook.name))
      .map((webhook) => webhookItem(webhook, { namespace, config: clientConfig(target, webhook.path, ca) }));
    const others = [...registered].flatMap(([each, list]) => (names.has(each) ? [] : list));
    await this.#store(object, found, [
      ...items,
      ...(keepOthers ? others.map((item) => trusting(item, ca)) : []),
    ]);
  }

  async #store(
    object: WebhookObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<void> {
    const { client, logger } = this.#options;
    const { resource, name } = object;
    if (webhooks.length === 0) {
      if (found === undefined) return;
      await remove(client, { resource, name }).catch(ignoreNotFound);
      return logger.info("Webhooks are no longer registered", { kind: resource.kind, name });
    }
    if (found !== undefined && sameJson(found["webhooks"], webhooks)) return;
    try {
      await this.#write(object, found, webhooks);
    } catch (error) {
      const refused = refusedItems(error);
      if (refused.size === 0) throw error;
      for (const [index, message] of refused)
        this.#options.onRefused(object.group, nameOf(webhooks[index]), message);
      // Each time it becomes shorter.
      await this.#store(
        object,
        found,
        webhooks.filter((_, index) => !refused.has(index)),
      );
    }
  }

  async #write(
    object: WebhookObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<void> {
    const { client, logger } = this.#options;
    const { resource, name } = object;
    const { kind } = resource;
    const metadata = found?.metadata ?? { name, labels: MANAGED_BY_OPERATOR };
    const body = { apiVersion: "admissionregistration.k8s.io/v1", kind, metadata, webhooks };
    if (found === undefined) await create(client, { resource }, { body });
    else await replace(client, { resource, name }, { body });
    logger.info("Webhooks are registered", { kind, name, webhooks: webhooks.map(nameOf).join(" ") });
  }
}

function nameOf(webhook: JsonObject | undefined): string {
  return asString(webhook?.["name"]) ?? "";
}

/** An item with the CA of now. */
function trusting(item: JsonObject, ca: string): JsonObject {
  const caBundle = Buffer.from(ca).toString("base64");
  return { ...item, clientConfig: { ...objectOf(item["clientConfig"]), caBundle } };
}

const UNPROCESSABLE = 422;

/** Which items of `webhooks` the API server finds invalid, and why. */
function refusedItems(error: unknown): Map<number, string> {
  const refused = new Map<number, string>();
  if (!(error instanceof ApiError) || error.status !== UNPROCESSABLE) return refused;
  for (const { field, message } of objectsIn(error.details?.["causes"])) {
    const path = asString(field) ?? "";
    const index = /^webhooks\[(\d+)\]/.exec(path)?.[1];
    if (index !== undefined) refused.set(Number(index), `${path}: ${asString(message) ?? ""}`);
  }
  return refused;
}
