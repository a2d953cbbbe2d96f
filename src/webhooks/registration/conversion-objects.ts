/** Writes the wanted conversion webhooks into CustomResourceDefinitions. */

import {
  CONVERSION_ANNOTATION,
  CONVERSION_LABEL,
  CUSTOM_RESOURCE_DEFINITIONS,
  get,
  ignoreNotFound,
  isConvertedBy,
  replace,
} from "../../kube/index.ts";
import type { WatchedObject } from "../../kube/index.ts";
import { sameJson } from "../../base/index.ts";
import { asString, isJsonObject, objectOf, type JsonObject } from "../../base/model/index.ts";
import type { ContestedObjects } from "./contested-objects.ts";
import { buildClientConfig, type ConversionWebhook, type RegistrationOptions } from "./admission-objects.ts";

const RESOURCE = CUSTOM_RESOURCE_DEFINITIONS;
const REVIEW_VERSIONS = ["v1", "v1beta1"];

interface ConversionObjectsOptions extends RegistrationOptions {
  /** Called with the reason why a CRD does not have the wanted conversion; undefined = it has. */
  readonly onIssue: (crdName: string, issue: string | undefined) => void;
  readonly contested: ContestedObjects;
}

/**
 * Reconciles the conversion webhooks of CRDs. An annotation of a CRD names the operator that has configured its webhook; a
 * webhook of another owner is never changed. `onIssue` explains why a CRD is not as wanted, and clears that with undefined.
 */
export class ConversionObjects {
  readonly #options: ConversionObjectsOptions;

  constructor(options: ConversionObjectsOptions) {
    this.#options = options;
  }

  /**
   * Configures the wanted conversions, and removes our webhook from the CRDs in `withdrawn`. Returns the CRDs in `withdrawn`
   * that have none any more; the stored objects of the others still need conversion. Throws ApiError, ConnectionError.
   */
  async apply(
    wanted: readonly ConversionWebhook[],
    withdrawn: ReadonlySet<string>,
    ca: string,
  ): Promise<string[]> {
    for (const webhook of wanted) await this.#configure(webhook, ca);
    const done: string[] = [];
    for (const crdName of withdrawn) if (await this.#withdraw(crdName)) done.push(crdName);
    return done;
  }

  /** Writes the webhook into one CRD, or reports why that is not possible. */
  async #configure({ crdName, path }: ConversionWebhook, ca: string): Promise<void> {
    const { contested, target, logger } = this.#options;
    const crd = await this.#findCrd(crdName);
    if (crd === undefined)
      return this.#options.onIssue(crdName, `CustomResourceDefinition ${crdName} does not exist yet`);
    if (hasConversionWebhook(crd) && !this.#isOwn(crd)) {
      const issue = `CustomResourceDefinition ${crdName} has a conversion webhook that is not of this operator; it stays as it is. Remove spec.conversion there to use the hook`;
      return this.#options.onIssue(crdName, issue);
    }
    this.#options.onIssue(crdName, undefined);
    const clientConfig = buildClientConfig(target, path, ca);
    const webhook = { clientConfig, conversionReviewVersions: REVIEW_VERSIONS };
    const conversion = { strategy: "Webhook", webhook };
    const found = objectOf(crd["spec"])["conversion"];
    const id = `CustomResourceDefinition ${crdName}`;
    const isSame = sameJson(found, conversion);
    if (isSame) contested.recordSettled(id);
    if (isSame && isConvertedBy(crd, this.#options.name) && isLabeled(crd))
      return contested.recordWritten(id, { wanted: conversion, stored: conversion });
    const field = ["f:spec", "f:conversion"];
    if (!contested.mayWrite({ id, wanted: conversion, found, object: crd, field })) return;
    await this.#writeConversion(crd, conversion, this.#options.name);
    contested.recordWritten(id, { wanted: conversion, stored: conversion });
    logger.info("A conversion webhook is registered", { crd: crdName });
  }

  /** Removes our webhook from a CRD; keeps it while objects of several versions may be stored. Returns whether none of ours is left. */
  async #withdraw(crdName: string): Promise<boolean> {
    const crd = await this.#findCrd(crdName);
    if (crd === undefined || !this.#isOwn(crd)) return true;
    const stored = objectOf(crd["status"])["storedVersions"];
    const versions = Array.isArray(stored) ? stored.map(String) : [];
    if (versions.length > 1 && hasConversionWebhook(crd)) {
      const issue = `CustomResourceDefinition ${crdName} keeps its conversion webhook: objects may be stored as ${versions.join(", ")}, and would be unreadable without it. Store them all as one version (docs: "Storage version migration"), and it is withdrawn`;
      this.#options.onIssue(crdName, issue);
      return false;
    }
    this.#options.onIssue(crdName, undefined);
    await this.#writeConversion(crd, { strategy: "None" }, undefined);
    this.#options.logger.info("A conversion webhook is withdrawn", { crd: crdName });
    return true;
  }

  /** Reads a CRD; undefined if it does not exist. */
  #findCrd(name: string): Promise<WatchedObject | undefined> {
    return get<WatchedObject>(this.#options.client, { resource: RESOURCE, name }).catch(ignoreNotFound);
  }

  /** Writes conversion, annotation and label into the CRD; `operatorName` undefined removes both. A newer version is a conflict. */
  async #writeConversion(
    crd: WatchedObject,
    conversion: JsonObject,
    operatorName: string | undefined,
  ): Promise<void> {
    const { [CONVERSION_ANNOTATION]: _, ...annotations } = objectOf(crd.metadata["annotations"]);
    const { [CONVERSION_ANNOTATION]: __, ...labels } = objectOf(crd.metadata["labels"]);
    if (operatorName !== undefined) {
      annotations[CONVERSION_ANNOTATION] = operatorName;
      Object.assign(labels, CONVERSION_LABEL);
    }
    const metadata = { ...crd.metadata, annotations, labels };
    const body = { ...crd, metadata, spec: { ...objectOf(crd["spec"]), conversion } };
    await replace(this.#options.client, { resource: RESOURCE, name: crd.metadata.name }, { body });
  }

  /** Whether the conversion of the CRD is one that this operator configured, or its annotation is left. */
  #isOwn(crd: WatchedObject): boolean {
    const isPointed = hasConversionWebhook(crd) && this.#pointsToThisServer(crd);
    return isPointed || isConvertedBy(crd, this.#options.name);
  }

  /** Whether the webhook of the CRD calls the address of this operator. */
  #pointsToThisServer(crd: WatchedObject): boolean {
    const conversion = objectOf(objectOf(crd["spec"])["conversion"]);
    const config = objectOf(objectOf(conversion["webhook"])["clientConfig"]);
    const { target } = this.#options;
    if ("url" in target) return asString(config["url"])?.startsWith(target.url) === true;
    const { namespace, name } = objectOf(config["service"]);
    return namespace === target.service.namespace && name === target.service.name;
  }
}

/** Whether the CRD has a conversion webhook, of any owner. */
function hasConversionWebhook(crd: WatchedObject): boolean {
  const conversion = objectOf(crd["spec"])["conversion"];
  return isJsonObject(conversion) && conversion["strategy"] === "Webhook";
}

function isLabeled({ metadata }: WatchedObject): boolean {
  return CONVERSION_ANNOTATION in objectOf(metadata["labels"]);
}
