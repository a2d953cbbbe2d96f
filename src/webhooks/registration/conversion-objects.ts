/** Keeps the conversion webhooks of CustomResourceDefinitions as wanted. */

import { CUSTOM_RESOURCE_DEFINITIONS, get, ignoreNotFound, replace } from "../../kube/index.ts";
import type { KubeAccess, WatchHub, WatchedObject } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { asString, isJsonObject, objectOf, type JsonObject } from "../../model/index.ts";
import { clientConfig, type ConversionWebhook, type WebhookTarget } from "./wanted.ts";

const RESOURCE = CUSTOM_RESOURCE_DEFINITIONS;
/** On a CRD: the operator that configured its conversion, so that it recognizes its own after the target has changed. */
const ANNOTATION = "addon-operator.io/conversion";
const REVIEW_VERSIONS = ["v1", "v1beta1"];

export interface ConversionObjectsOptions extends KubeAccess {
  readonly hub: WatchHub;
  /** Which operator this is: the value of the annotation. */
  readonly name: string;
  readonly target: WebhookTarget;
  /** Why the conversion of a CRD is not as wanted; undefined = it is. */
  readonly onIssue: (crdName: string, issue: string | undefined) => void;
}

/** The conversions of CRDs. One that someone else has configured stays as it is. */
export class ConversionObjects {
  readonly #options: ConversionObjectsOptions;
  readonly #watched = new Map<string, () => void>();
  #changed: () => void = () => {};

  constructor(options: ConversionObjectsOptions) {
    this.#options = options;
  }

  /** Calls `changed` when one of the CRDs appears or changes. */
  watch(changed: () => void): void {
    this.#changed = changed;
  }

  close(): void {
    for (const close of this.#watched.values()) close();
    this.#watched.clear();
  }

  /**
   * Makes the conversions as wanted; `withdrawn` are CRDs that had one of ours. Returns those that stay withdrawn, once the
   * stored objects allow it. Throws ApiError, ConnectionError.
   */
  async apply(
    wanted: readonly ConversionWebhook[],
    withdrawn: ReadonlySet<string>,
    ca: string,
  ): Promise<string[]> {
    this.#watchOnly(new Set([...wanted.map(({ crdName }) => crdName), ...withdrawn]));
    for (const webhook of wanted) await this.#configure(webhook, ca);
    const done: string[] = [];
    for (const crdName of withdrawn) if (await this.#withdraw(crdName)) done.push(crdName);
    return done;
  }

  #watchOnly(names: ReadonlySet<string>): void {
    for (const [name, close] of this.#watched) {
      if (names.has(name)) continue;
      close();
      this.#watched.delete(name);
    }
    const ignore = (): void => {};
    const changed = (): void => this.#changed();
    for (const name of names) {
      if (this.#watched.has(name)) continue;
      const spec = { resource: RESOURCE, fieldSelector: `metadata.name=${name}`, metadataOnly: true };
      const watch = this.#options.hub.subscribe(spec, {
        onListed: ignore,
        onSynced: ignore,
        onApplied: changed,
        onDeleted: changed,
      });
      this.#watched.set(name, () => watch.close());
    }
  }

  async #configure({ crdName, path }: ConversionWebhook, ca: string): Promise<void> {
    const { target, logger } = this.#options;
    const crd = await this.#find(crdName);
    if (crd === undefined)
      return this.#options.onIssue(crdName, `CustomResourceDefinition ${crdName} does not exist yet`);
    const webhook = {
      clientConfig: clientConfig(target, path, ca),
      conversionReviewVersions: REVIEW_VERSIONS,
    };
    const conversion = { strategy: "Webhook", webhook };
    if (hasWebhook(crd) && !this.#isOwn(crd)) {
      const issue = `CustomResourceDefinition ${crdName} has a conversion webhook that is not of this operator; it stays as it is. Remove spec.conversion there to use the hook`;
      return this.#options.onIssue(crdName, issue);
    }
    this.#options.onIssue(crdName, undefined);
    if (sameJson(objectOf(crd["spec"])["conversion"], conversion) && this.#isMarked(crd)) return;
    await this.#write(crd, conversion, this.#options.name);
    logger.info("A conversion webhook is registered", { crd: crdName });
  }

  /** Whether no conversion of this operator is left. */
  async #withdraw(crdName: string): Promise<boolean> {
    const crd = await this.#find(crdName);
    if (crd === undefined || !this.#isOwn(crd)) return true;
    const stored = objectOf(crd["status"])["storedVersions"];
    const versions = Array.isArray(stored) ? stored.map(String) : [];
    if (versions.length > 1) {
      const issue = `CustomResourceDefinition ${crdName} keeps its conversion webhook: objects may be stored as ${versions.join(", ")}, and would be unreadable without it. Store them all as one version (docs: "Storage version migration"), and it is withdrawn`;
      this.#options.onIssue(crdName, issue);
      return false;
    }
    this.#options.onIssue(crdName, undefined);
    await this.#write(crd, { strategy: "None" }, undefined);
    this.#options.logger.info("A conversion webhook is withdrawn", { crd: crdName });
    return true;
  }

  #find(name: string): Promise<WatchedObject | undefined> {
    return get<WatchedObject>(this.#options.client, { resource: RESOURCE, name }).catch(ignoreNotFound);
  }

  /** Replaces this version of the CRD; a newer one is a conflict. */
  async #write(crd: WatchedObject, conversion: JsonObject, mark: string | undefined): Promise<void> {
    const annotations = { ...objectOf(crd.metadata["annotations"]) };
    if (mark === undefined) delete annotations[ANNOTATION];
    else annotations[ANNOTATION] = mark;
    const metadata = { ...crd.metadata, annotations };
    const body = { ...crd, metadata, spec: { ...objectOf(crd["spec"]), conversion } };
    await replace(this.#options.client, { resource: RESOURCE, name: crd.metadata.name }, { body });
  }

  /** Whether the conversion of the CRD is one that this operator configured. */
  #isOwn(crd: WatchedObject): boolean {
    return hasWebhook(crd) && (this.#isMarked(crd) || this.#pointsHere(crd));
  }

  #isMarked({ metadata }: WatchedObject): boolean {
    return objectOf(metadata["annotations"])[ANNOTATION] === this.#options.name;
  }

  #pointsHere(crd: WatchedObject): boolean {
    const config = objectOf(
      objectOf(objectOf(objectOf(crd["spec"])["conversion"])["webhook"])["clientConfig"],
    );
    const { target } = this.#options;
    if ("url" in target) return asString(config["url"])?.startsWith(target.url) === true;
    const { namespace, name } = objectOf(config["service"]);
    return namespace === target.service.namespace && name === target.service.name;
  }
}

/** Whether the CRD has a conversion webhook, of any owner. */
function hasWebhook(crd: WatchedObject): boolean {
  const conversion = objectOf(crd["spec"])["conversion"];
  return isJsonObject(conversion) && conversion["strategy"] === "Webhook";
}
