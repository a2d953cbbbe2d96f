/** Registers webhooks at the API server, and keeps them registered as their owners want. Owners are hooks, and the operator itself. */

import { CLUSTER_ROLE_BINDINGS, CUSTOM_RESOURCE_DEFINITIONS, SERVICES } from "../../kube/index.ts";
import {
  apiVersionOf,
  get,
  getMetadata,
  ignoreNotFound,
  isConvertedBy,
  isForbidden,
  listConvertedCrds,
  toNamedSpec,
} from "../../kube/index.ts";
import type { Resource, WatchHub, WatchedObject } from "../../kube/index.ts";
import { oneLine } from "../../base/index.ts";
import type { JsonObject } from "../../base/model/index.ts";
import type { WebhookReport } from "../server.ts";
import { Loop, WatchedSet } from "../../runtime/index.ts";
import { AdmissionObjects, type RegistrationOptions, type WebhookGroup } from "./admission-objects.ts";
import { ContestedObjects } from "./contested-objects.ts";
import { ConversionObjects } from "./conversion-objects.ts";
import type { AdmissionWebhook, ConversionWebhook } from "./admission-objects.ts";

/** The webhooks of one owner, such as a hook. */
export interface OwnedWebhooks {
  readonly group: WebhookGroup;
  readonly admission?: readonly AdmissionWebhook[];
  readonly conversions?: readonly ConversionWebhook[];
}

export interface RegistrarOptions extends RegistrationOptions {
  readonly hub: WatchHub;
  /** Gets all issues of the registration when they change. */
  readonly report: Pick<WebhookReport, "webhookIssuesChanged">;
}

/** An object of the whole cluster. */
interface ClusterObject {
  readonly resource: Resource;
  readonly name: string;
}

/** Time until a missing Service or owner, or a CRD in another state than its watch shows, is looked up again. */
const CHECK_AGAIN_MS = 10_000;
const RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Time between reconciles without a trigger: these repair differences that no watch reports. */
const RESYNC_MS = 300_000;

/**
 * Registers the wanted webhooks with the current CAs: after each change, after changes by other clients, after failures. Until
 * `markComplete` is called, registered webhooks that are not wanted stay, since their hooks may not be loaded yet. All
 * webhooks stay registered when the operator stops.
 */
export class Registrar {
  readonly #options: RegistrarOptions;
  readonly #wanted = new Map<string, OwnedWebhooks>();
  readonly #admission: AdmissionObjects;
  readonly #conversion: ConversionObjects;
  readonly #watches: WatchedSet<ClusterObject>;
  readonly #loop: Loop;
  /** CRDs whose conversion webhook must be removed. */
  readonly #withdrawn = new Set<string>();
  /** CRDs that this operator converts, as their watches show. */
  readonly #converted = new Set<string>();
  readonly #conversionIssues = new Map<string, string>();
  readonly #refusals = new Map<string, string>();
  #ca: string | undefined;
  #isComplete = false;
  /** Whether conversions that an earlier process has configured were looked for. */
  #hasFoundFormer = false;
  /** Why the API server cannot reach the server: its Service does not exist. */
  #targetIssue: string | undefined;
  readonly #contested: ContestedObjects;
  #reportedIssues = "";

  constructor(options: RegistrarOptions) {
    this.#options = options;
    this.#contested = new ContestedObjects({
      clock: options.clock,
      onDelayed: (ms) => this.#loop.trigger(ms),
    });
    const contested = this.#contested;
    this.#admission = new AdmissionObjects({
      ...options,
      contested,
      onRefused: (group, webhook, message) => this.#refusals.set(`${group} webhook ${webhook}`, message),
    });
    this.#conversion = new ConversionObjects({
      ...options,
      contested,
      onIssue: (crdName, issue) => {
        if (issue === undefined) this.#conversionIssues.delete(crdName);
        else this.#conversionIssues.set(crdName, issue);
      },
    });
    const onChange = (): void => this.#loop.trigger();
    const note = (object: WatchedObject): void => {
      if (isConvertedBy(object, options.name)) this.#converted.add(object.metadata.name);
      else this.#converted.delete(object.metadata.name);
    };
    const consumer = {
      onListed: note,
      // An object may have changed after it was read, and before its watch began.
      onSynced: onChange,
      onApplied: (object: WatchedObject) => {
        note(object);
        onChange();
      },
      onDeleted: ({ metadata }: WatchedObject) => {
        this.#converted.delete(metadata.name);
        onChange();
      },
    };
    this.#watches = new WatchedSet((_, object) => {
      // A former watch did not see what happened since its end.
      this.#converted.delete(object.name);
      return options.hub.subscribe({ ...toNamedSpec(object.resource, object), metadataOnly: true }, consumer);
    });
    this.#loop = new Loop({
      clock: options.clock,
      run: async () => {
        await this.#applyWanted();
        this.#reportIssues(undefined);
      },
      retry: RETRY,
      resyncMs: RESYNC_MS,
      onError: (error) => this.#reportIssues(oneLine(error)),
    });
  }

  /** Registers webhooks with this CA bundle, now and after each change. Only for the holder of the lease. */
  registerWithCa(ca: string): void {
    this.#ca = ca;
    this.#loop.trigger();
  }

  /** Replaces the webhooks of an owner, such as a hook. Conversions that it has no longer are removed from their CRDs. */
  set(owner: string, webhooks: OwnedWebhooks): void {
    this.#removeOwner(owner);
    this.#wanted.set(owner, webhooks);
    for (const { crdName } of webhooks.conversions ?? []) this.#withdrawn.delete(crdName);
    this.#loop.trigger();
  }

  /** Removes the webhooks of an owner. */
  remove(owner: string): void {
    if (!this.#wanted.has(owner)) return;
    this.#removeOwner(owner);
    this.#loop.trigger();
  }

  /** Call it once all wanted webhooks are known: the registrar then removes all other webhooks of this operator. */
  markComplete(): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    this.#loop.trigger();
  }

  /** Resolves when the currently wanted webhooks are registered; at once before there is a CA. Throws ApiError, ConnectionError. */
  flush(): Promise<void> {
    return this.#ca === undefined ? Promise.resolve() : this.#loop.flush();
  }

  close(): void {
    this.#loop.close();
    this.#watches.close();
  }

  /** Removes the webhooks of an owner; the next reconcile removes its conversions from the CRDs. */
  #removeOwner(owner: string): void {
    const before = this.#wanted.get(owner);
    this.#wanted.delete(owner);
    for (const { crdName } of before?.conversions ?? []) this.#withdrawn.add(crdName);
  }

  /** One reconcile: writes all configuration objects and conversions. Adds none while the Service of the server is missing. */
  async #applyWanted(): Promise<void> {
    const ca = this.#ca;
    // Only the leader gets the CA; a standby registers nothing.
    if (ca === undefined) return;
    // Sorted, so that the same webhooks give the same objects.
    const owners = [...this.#wanted].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, wanted]) => wanted);
    // Without wanted webhooks, a missing Service is no issue.
    const hasTarget = owners.length === 0 || (await this.#hasTarget());
    const ownerReference = owners.length === 0 || !hasTarget ? undefined : await this.#readOwner();
    const mayAdd = hasTarget && this.#targetIssue === undefined;
    if (this.#isComplete && !this.#hasFoundFormer) await this.#findFormerConversions();
    const conversions = mayAdd ? owners.flatMap((each) => each.conversions ?? []) : [];
    const crds = [...conversions.map(({ crdName }) => crdName), ...this.#withdrawn];
    const objects: ClusterObject[] = [
      ...this.#admission.objects,
      ...crds.map((name) => ({ resource: CUSTOM_RESOURCE_DEFINITIONS, name })),
    ];
    this.#watches.watchOnly(new Map(objects.map((each) => [`${each.resource.plural}/${each.name}`, each])));
    this.#refusals.clear();
    const admission = owners.flatMap(({ group, admission: list = [] }) =>
      list.map((webhook) => ({ ...webhook, group })),
    );
    await this.#admission.apply(admission, { ca, keepUnwanted: !this.#isComplete, mayAdd, ownerReference });
    for (const crdName of await this.#conversion.apply(conversions, this.#withdrawn, ca)) {
      // Before the watch shows it, the answer may have been of an earlier state.
      if (this.#converted.has(crdName)) this.#loop.trigger(CHECK_AGAIN_MS);
      else {
        this.#withdrawn.delete(crdName);
        this.#conversionIssues.delete(crdName);
      }
    }
  }

  /**
   * Finds conversions that an earlier process has configured and no owner wants, so that this reconcile removes them. Without the permission,
   * later reconciles try again. Throws other errors of the API.
   */
  async #findFormerConversions(): Promise<void> {
    const { client, name } = this.#options;
    try {
      const former = await listConvertedCrds(client, name);
      const conversions = [...this.#wanted.values()].flatMap((each) => each.conversions ?? []);
      const wanted = new Set(conversions.map(({ crdName }) => crdName));
      for (const crdName of former) if (!wanted.has(crdName)) this.#withdrawn.add(crdName);
      this.#hasFoundFormer = true;
    } catch (error) {
      if (!isForbidden(error)) throw error;
    }
  }

  /** Whether the Service exists; if not, checks again soon. Webhooks that nothing can answer would block requests of users. */
  async #hasTarget(): Promise<boolean> {
    const { client, target } = this.#options;
    this.#targetIssue = undefined;
    if ("url" in target) return true;
    const found = await get(client, { resource: SERVICES, ...target.service }).catch(ignoreNotFound);
    if (found !== undefined) return true;
    const { namespace, name } = target.service;
    this.#targetIssue = `Service ${namespace}/${name} does not exist, so no webhook is added: set webhooks.enabled of the chart, or --webhook-service-name`;
    this.#loop.trigger(CHECK_AGAIN_MS);
    return false;
  }

  /** Reads the owner of the objects as an owner reference. Without it, nothing is added: the chart that has created it is being deleted. */
  async #readOwner(): Promise<JsonObject | undefined> {
    const { client, owner } = this.#options;
    if (owner === undefined) return undefined;
    const resource = CLUSTER_ROLE_BINDINGS;
    const found = await getMetadata<WatchedObject>(client, { resource, name: owner }).catch(ignoreNotFound);
    if (found !== undefined) {
      const { kind } = resource;
      return { apiVersion: apiVersionOf(resource), kind, name: owner, uid: String(found.metadata.uid) };
    }
    this.#targetIssue = `ClusterRoleBinding ${owner} does not exist, so no webhook is added: create it, or correct --webhook-owner`;
    this.#loop.trigger(CHECK_AGAIN_MS);
    return undefined;
  }

  /** Reports all current issues after a reconcile, if they have changed. `error` is the error of the reconcile. */
  #reportIssues(error: string | undefined): void {
    const issues = [error, this.#targetIssue].filter((issue) => issue !== undefined);
    for (const [webhook, message] of this.#refusals)
      issues.push(`${webhook} is refused by the API server: ${message}`);
    issues.push(...this.#conversionIssues.values(), ...this.#contested.issues);
    if (issues.join("\n") === this.#reportedIssues) return;
    this.#reportedIssues = issues.join("\n");
    for (const issue of issues) this.#options.logger.warn("Webhooks are not registered as wanted", { issue });
    this.#options.report.webhookIssuesChanged(issues);
  }
}
