/**
 * Serves and registers the webhooks that hooks declare, while the hooks are active. To serve a webhook is to route requests for its path to
 * runs of the hook. The registrar keeps the API server's webhook configurations as its owners, which are names, have set them.
 */

import { listBindings, isReviewBinding, type TriggerSource } from "../../bindings/index.ts";
import { CONVERSION_PATHS, type AdmissionBinding, type Hook, type Problem } from "../../model/index.ts";
import { withoutActiveSpan } from "../../trace/index.ts";
import type { AdmissionWebhook, Webhooks } from "../../webhooks/index.ts";
import type { ReviewRuns, ConversionStep } from "./answer-review.ts";
import {
  MANAGED_BY_OPERATOR,
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
  ignoreNotFound,
  formatLabelSelector,
  listMetadata,
  remove,
  type KubeAccess,
} from "../../kube/index.ts";
import { oneLine } from "../../lib/index.ts";

interface HookWebhooksOptions {
  readonly runs: ReviewRuns;
  /** Starts the server at the first hook that needs it. */
  readonly open: () => Promise<Webhooks>;
  /** Of bindings that name none. */
  readonly failurePolicy: "Fail" | "Ignore";
  /** Called when there is a hook with webhooks that was not there before. */
  readonly onAdded: () => void;
}

const GROUP = "hooks";

/** The webhooks of active hooks. Nothing is loaded before a hook has one. */
export class HookWebhooks implements Pick<TriggerSource, "enable" | "disable"> {
  readonly #options: HookWebhooksOptions;
  readonly #hooks = new Map<string, Hook>();
  /** Functions that remove the routes of a hook, or of the conversion of a CRD, by owner. */
  readonly #routeRemovers = new Map<string, () => void>();
  #webhooks: Webhooks | undefined;
  #serverOpened: Promise<Webhooks> | undefined;
  #isComplete = false;

  constructor(options: HookWebhooksOptions) {
    this.#options = options;
  }

  /** Serves and registers the webhooks of a hook; a changed hook replaces its former webhooks. The first one opens the server. */
  enable(hook: Hook): void {
    if (!listBindings(hook.config).some((binding) => isReviewBinding(binding))) return this.disable(hook);
    const before = this.#hooks.get(hook.id);
    if (before === hook) return;
    this.#hooks.set(hook.id, hook);
    this.#options.onAdded();
    if (this.#webhooks === undefined) this.#openServer();
    else this.#serve(this.#webhooks, hook, before);
  }

  /** Stops serving the webhooks of a hook, and unregisters them. */
  disable(hook: Hook): void {
    const before = this.#hooks.get(hook.id);
    if (before === undefined) return;
    this.#hooks.delete(hook.id);
    if (this.#webhooks === undefined) return; // The server is not open yet.
    const owner = webhookOwner(before);
    this.#webhooks.registrar.remove(owner);
    this.#removeRoutes(owner);
    this.#serveConversions(this.#webhooks, crdNamesOf(before));
  }

  get isComplete(): boolean {
    return this.#isComplete;
  }

  /** Whether no active hook has webhooks. */
  get isEmpty(): boolean {
    return this.#hooks.size === 0;
  }

  /** The CRDs whose objects active hooks convert. */
  get convertedCrds(): string[] {
    return [...new Set([...this.#hooks.values()].flatMap(crdNamesOf))].sort();
  }

  /**
   * To be called once the hooks of all enabled modules are active. From then on, registered webhooks that no active hook has, such
   * as those of an earlier process, are removed; before that, they may belong to a hook that is not loaded yet.
   */
  markComplete(): void {
    this.#isComplete = true;
    this.#webhooks?.registrar.markComplete();
  }

  /** Resolves when the API server has what is wanted. Throws ApiError, ConnectionError. */
  async flush(): Promise<void> {
    await (await this.#serverOpened)?.registrar.flush();
  }

  /** Serves all hooks by a server that is open. */
  useServer(webhooks: Webhooks): void {
    this.#webhooks = webhooks;
    this.#serverOpened = Promise.resolve(webhooks);
    if (this.#isComplete) webhooks.registrar.markComplete();
    for (const hook of this.#hooks.values()) this.#serve(webhooks, hook);
  }

  /** Starts the webhook server, unless it is starting already, and then serves all hooks. */
  #openServer(): void {
    if (this.#serverOpened !== undefined) return;
    // The server outlives the task that activates the hook.
    this.#serverOpened = withoutActiveSpan(() => this.#options.open());
    this.#serverOpened.then(
      (webhooks) => this.useServer(webhooks),
      () => {
        // `open` has reported the error; the next hook tries again.
        this.#serverOpened = undefined;
      },
    );
  }

  /** Routes requests for the webhooks of one hook, and registers them with the API server. */
  #serve(webhooks: Webhooks, hook: Hook, before?: Hook): void {
    const { runs, failurePolicy } = this.#options;
    const owner = webhookOwner(hook);
    const { validating, mutating } = hook.config.bindings;
    const bindings = [...validating, ...mutating];
    this.#removeRoutes(owner);
    const removers = bindings.map((binding) =>
      webhooks.addAdmissionRoute(webhookPath(binding), (request, signal) =>
        runs.admit({ hook, binding }, request, signal),
      ),
    );
    this.#routeRemovers.set(owner, () => removers.forEach((removeRoute) => removeRoute()));
    const admission = bindings.map((binding) => toAdmissionWebhook(binding, failurePolicy));
    if (admission.length === 0) webhooks.registrar.remove(owner);
    else webhooks.registrar.set(owner, { group: GROUP, admission });
    // The former hook may have converted CRDs that this one does not.
    const formerCrds = before === undefined ? [] : crdNamesOf(before);
    this.#serveConversions(webhooks, [...crdNamesOf(hook), ...formerCrds]);
  }

  /** Routes conversion requests of CRDs to the steps of all active hooks: several hooks may convert objects of one CRD. */
  #serveConversions(webhooks: Webhooks, crds: readonly string[]): void {
    for (const crdName of new Set(crds)) {
      const owner = `conversion of ${crdName}`;
      const steps = this.#conversionSteps(crdName);
      this.#removeRoutes(owner);
      if (steps.length === 0) {
        webhooks.registrar.remove(owner);
        continue;
      }
      const path = `${CONVERSION_PATHS}${crdName}`;
      const removeRoute = webhooks.addConversionRoute(path, (request, signal) =>
        this.#options.runs.convert({ crdName, steps }, request, signal),
      );
      this.#routeRemovers.set(owner, removeRoute);
      webhooks.registrar.set(owner, { group: GROUP, conversions: [{ crdName, path }] });
    }
  }

  /** The conversions of one CRD that active hooks declare, in the order of the hooks' paths. */
  #conversionSteps(crdName: string): ConversionStep[] {
    const hooks = [...this.#hooks.values()].sort((a, b) => (webhookOwner(a) < webhookOwner(b) ? -1 : 1));
    return hooks.flatMap((hook) =>
      hook.config.bindings.conversion
        .filter((binding) => binding.crdName === crdName)
        .flatMap((binding) => binding.conversions.map((rule) => ({ hook, binding, rule }))),
    );
  }

  /** Stops answering requests for the webhooks of this owner. */
  #removeRoutes(owner: string): void {
    this.#routeRemovers.get(owner)?.();
    this.#routeRemovers.delete(owner);
  }
}

/** The key of a hook's webhooks. It begins with the path, because webhooks are registered in the order of their keys. */
function webhookOwner({ path, id }: Hook): string {
  return `${path} ${id}`;
}

function crdNamesOf({ config }: Hook): string[] {
  return config.bindings.conversion.map(({ crdName }) => crdName);
}

function webhookPath({ type, name }: AdmissionBinding): string {
  return `/hooks/${type}/${name}`;
}

/** The webhook as the API server must know it. */
function toAdmissionWebhook(
  binding: AdmissionBinding,
  defaultPolicy: HookWebhooksOptions["failurePolicy"],
): AdmissionWebhook {
  const { type, name, rules, sideEffects, timeoutSeconds, matchConditions } = binding;
  return {
    type,
    name,
    rules,
    sideEffects,
    timeoutSeconds,
    matchConditions,
    path: webhookPath(binding),
    failurePolicy: binding.failurePolicy ?? defaultPolicy,
    objectSelector: binding.labelSelector,
    namespaceSelector: binding.namespaceLabels,
  };
}

/**
 * Problems of `hooks`: webhooks that one of `others`, or another of `hooks`, declares too. Compares names of admission webhooks, and conversions of a CRD.
 */
export function findDuplicateWebhooks(hooks: readonly Hook[], others: Iterable<Hook>): Problem[] {
  const declared = hooks.flatMap((hook) => webhookKeys(hook).map((key) => ({ hook, key })));
  // Most hooks declare none: the many others need not be read for those.
  if (declared.length === 0) return [];
  const hookByKey = new Map<string, Hook>();
  for (const hook of others) for (const key of webhookKeys(hook)) hookByKey.set(key, hook);
  const problems: Problem[] = [];
  const remedy = "each may be declared once: rename one";
  for (const { hook, key } of declared) {
    const other = hookByKey.get(key);
    hookByKey.set(key, hook);
    if (other === undefined || other.id === hook.id) continue; // The same hook before a change.
    const message = `declares the ${key}, and so does ${other.path}`;
    problems.push({ file: hook.path, key: "--config", message, remedy });
  }
  return problems;
}

/** What must be unique among all hooks of the webhooks that a hook declares, as texts for messages. */
function webhookKeys({ config }: Hook): string[] {
  const { validating, mutating, conversion } = config.bindings;
  return [
    ...[...validating, ...mutating].map(({ type, name }) => `${type} webhook ${name}`),
    ...conversion.flatMap(({ crdName, conversions }) =>
      conversions.map(
        ({ fromVersion, toVersion }) => `conversion of ${crdName} from ${fromVersion} to ${toVersion}`,
      ),
    ),
  ];
}

/**
 * Called when neither hooks nor the operator serve webhooks. Deletes the webhook configurations of an earlier start, which have the operator's
 * label and one of these names: nobody answers them. A failure is only logged, because the operator may lack the permissions.
 */
export async function removeLeftoverWebhooks(
  { client, logger }: Pick<KubeAccess, "client" | "logger">,
  names: readonly string[],
): Promise<void> {
  const labelSelector = formatLabelSelector({ matchLabels: MANAGED_BY_OPERATOR });
  try {
    for (const resource of [VALIDATING_WEBHOOKS, MUTATING_WEBHOOKS]) {
      const { items } = await listMetadata(client, { resource }, { labelSelector });
      for (const { metadata } of items.filter((each) => names.includes(each.metadata.name))) {
        const { name, uid = "" } = metadata;
        await remove(client, { resource, name }, { preconditions: { uid } }).catch(ignoreNotFound);
        logger.info("Webhooks of an earlier start are removed", { kind: resource.kind, name });
      }
    }
  } catch (error) {
    logger.debug("Webhooks of an earlier start could not be looked for", { error: oneLine(error) });
  }
}
