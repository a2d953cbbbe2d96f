/** Registers webhooks at the API server, and keeps them registered as wanted. */

import { get, ignoreNotFound, type Resource } from "../../kube/index.ts";
import { Timers, type Clock } from "../../lib/index.ts";
import { AdmissionObjects, type AdmissionObjectsOptions, type WebhookGroup } from "./admission-objects.ts";
import { ConversionObjects } from "./conversion-objects.ts";
import { Repeated } from "./repeated.ts";
import type { AdmissionWebhook, ConversionWebhook } from "./wanted.ts";

/** The webhooks of one owner, such as a hook. */
export interface OwnedWebhooks {
  readonly group: WebhookGroup;
  readonly admission?: readonly AdmissionWebhook[];
  readonly conversions?: readonly ConversionWebhook[];
}

export interface RegistrarOptions extends Omit<AdmissionObjectsOptions, "onRefused"> {
  readonly clock: Clock;
  /** Called when what is wrong with the registration changes. */
  readonly onIssues: (issues: readonly string[]) => void;
}

/** A missing Service is looked for again after this time. */
const MISSING_MS = 10_000;

const SERVICES: Resource = {
  group: "",
  version: "v1",
  plural: "services",
  kind: "Service",
  namespaced: true,
  verbs: ["get"],
};

/**
 * Registers the wanted webhooks with the CA of now: after each change, after changes by others, after failures. Until
 * `complete` is called, registered webhooks that are not wanted stay, since their hooks may not be loaded yet. At the end of
 * the operator everything stays registered.
 */
export class Registrar {
  readonly #options: RegistrarOptions;
  readonly #wanted = new Map<string, OwnedWebhooks>();
  readonly #admission: AdmissionObjects;
  readonly #conversion: ConversionObjects;
  readonly #repeated: Repeated;
  /** CRDs whose conversion is not wanted any more. */
  readonly #withdrawn = new Set<string>();
  readonly #conversionIssues = new Map<string, string>();
  readonly #refused = new Map<string, string>();
  #ca: string | undefined;
  #isComplete = false;
  /** Why the API server could not reach the webhooks. */
  #missing: string | undefined;
  readonly #timers: Timers<"target">;
  #issues = "";

  constructor(options: RegistrarOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
    this.#admission = new AdmissionObjects({
      ...options,
      onRefused: (group, webhook, message) => this.#refused.set(`${group} webhook ${webhook}`, message),
    });
    this.#conversion = new ConversionObjects({
      ...options,
      onIssue: (crdName, issue) => {
        if (issue === undefined) this.#conversionIssues.delete(crdName);
        else this.#conversionIssues.set(crdName, issue);
      },
    });
    this.#repeated = new Repeated({
      clock: options.clock,
      work: () => this.#apply(),
      onEnd: (error) => this.#ended(error),
    });
  }

  /** From now on writes, with this CA; for the lease holder only. */
  start(ca: string): void {
    if (this.#ca === undefined) {
      this.#admission.watch(() => this.#repeated.touch());
      this.#conversion.watch(() => this.#repeated.touch());
    }
    this.#ca = ca;
    this.#repeated.touch();
  }

  /** Replaces the webhooks of an owner. */
  set(owner: string, webhooks: OwnedWebhooks): void {
    this.#forget(owner);
    this.#wanted.set(owner, webhooks);
    for (const { crdName } of webhooks.conversions ?? []) this.#withdrawn.delete(crdName);
    this.#repeated.touch();
  }

  /** Removes the webhooks of an owner. */
  remove(owner: string): void {
    if (!this.#wanted.has(owner)) return;
    this.#forget(owner);
    this.#repeated.touch();
  }

  /** All wanted webhooks are known: other webhooks of this operator are removed. */
  complete(): void {
    if (this.#isComplete) return;
    this.#isComplete = true;
    this.#repeated.touch();
  }

  /** Resolves when the API server has what is wanted now. Throws ApiError, ConnectionError. */
  flush(): Promise<void> {
    return this.#ca === undefined ? Promise.resolve() : this.#repeated.flush();
  }

  close(): void {
    this.#repeated.close();
    this.#timers.close();
    this.#admission.close();
    this.#conversion.close();
  }

  #forget(owner: string): void {
    const before = this.#wanted.get(owner);
    this.#wanted.delete(owner);
    for (const { crdName } of before?.conversions ?? []) this.#withdrawn.add(crdName);
  }

  async #apply(): Promise<void> {
    const ca = this.#ca;
    if (ca === undefined) return;
    const owners = [...this.#wanted].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, wanted]) => wanted);
    const mayAdd = owners.length === 0 || (await this.#hasTarget());
    this.#refused.clear();
    const admission = owners.flatMap(({ group, admission: list = [] }) =>
      list.map((webhook) => ({ ...webhook, group })),
    );
    await this.#admission.apply(admission, { ca, keepOthers: !this.#isComplete, mayAdd });
    const conversions = mayAdd ? owners.flatMap((each) => each.conversions ?? []) : [];
    for (const crdName of await this.#conversion.apply(conversions, this.#withdrawn, ca)) {
      this.#withdrawn.delete(crdName);
      this.#conversionIssues.delete(crdName);
    }
  }

  /** Whether the Service exists; checks again soon if not. Webhooks without a server would block the cluster. */
  async #hasTarget(): Promise<boolean> {
    const { client, target } = this.#options;
    this.#missing = undefined;
    if ("url" in target) return true;
    const found = await get(client, { resource: SERVICES, ...target.service }).catch(ignoreNotFound);
    if (found !== undefined) return true;
    const { namespace, name } = target.service;
    this.#missing = `Service ${namespace}/${name} does not exist, so no webhook is added: set webhooks.enabled of the chart, or --webhook-service-name`;
    this.#timers.set("target", MISSING_MS, () => this.#repeated.touch());
    return false;
  }

  #ended(error: string | undefined): void {
    const issues = [
      ...(error === undefined ? [] : [error]),
      ...(this.#missing === undefined ? [] : [this.#missing]),
      ...[...this.#refused].map(
        ([webhook, message]) => `${webhook} is refused by the API server: ${message}`,
      ),
      ...this.#conversionIssues.values(),
    ];
    if (issues.join("\n") === this.#issues) return;
    this.#issues = issues.join("\n");
    for (const issue of issues) this.#options.logger.warn("Webhooks are not registered as wanted", { issue });
    this.#options.onIssues(issues);
  }
}
