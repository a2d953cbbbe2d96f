/**
 * Serves and registers the webhooks that hooks declare, while the hooks are active. To serve a webhook is to route requests for its path to
 * runs of the hook. The registrar keeps the API server's webhook configurations as its owners, which are names, have set them.
 */

import {
  listBindings,
  isReviewBinding,
  openWhilePermitted,
  type Triggers,
} from "../../../hooks/bindings/index.ts";
import type { AccountLimits } from "../../../hooks/index.ts";
import {
  CONVERSION_PATHS,
  type AdmissionBinding,
  type Hook,
  type Problem,
} from "../../../base/model/index.ts";
import { withoutActiveSpan } from "../../../base/trace/index.ts";
import type { AdmissionWebhook, Webhooks } from "../../../webhooks/index.ts";
import type { ReviewRuns, ConversionStep } from "./answer-review.ts";
import type { Clock, Logger } from "../../../base/index.ts";
import {
  accountModuleOf,
  assertMayRegister,
  explainRefusal,
  limitRules,
  registeredName,
  type AccountLimitsOf,
} from "./webhook-access.ts";

interface HookWebhooksOptions {
  readonly runs: ReviewRuns;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Starts the server at the first hook that needs it. */
  readonly open: () => Promise<Webhooks>;
  /** What limits the webhooks of a module's hooks; undefined = nothing does. Throws ProblemError while that is unknown. */
  readonly accountLimitsOf: (module: string) => AccountLimits | undefined;
  /** Of bindings that name none. */
  readonly failurePolicy: "Fail" | "Ignore";
  /** Called when there is a hook with webhooks that was not there before. */
  readonly onAdded: () => void;
  /** `issues` has changed for a module. */
  readonly report: { hookIssuesChanged(module: string | undefined): void };
}

const GROUP = "hooks";

/** An enabled hook with webhooks. */
interface WebhookHook {
  readonly hook: Hook;
  readonly access: AccountLimits | undefined;
  /** Aborted when the hook is disabled or changed. */
  readonly stop: AbortController;
  /** Resolves when its webhooks are served for the first time, or cannot be. */
  readonly settled: PromiseWithResolvers<void>;
  /** Whether the account of the module has the permissions that the webhooks need. */
  isPermitted: boolean;
  /** Why it does not have them. */
  issue: string | undefined;
}

/** The webhooks of active hooks. Nothing is loaded before a hook has one. */
export class HookWebhooks implements Pick<Triggers, "enable" | "disable"> {
  readonly #options: HookWebhooksOptions;
  readonly #hooks = new Map<string, WebhookHook>();
  /** Functions that remove the routes of a hook, or of the conversion of a CRD, by owner. */
  readonly #routeRemovers = new Map<string, () => void>();
  #webhooks: Webhooks | undefined;
  #serverOpened: Promise<Webhooks> | undefined;
  #isComplete = false;

  constructor(options: HookWebhooksOptions) {
    this.#options = options;
  }

  /**
   * Serves and registers the webhooks of a hook; a changed hook replaces its former webhooks. The first one opens the server. The webhooks of a module
   * with an account are served while the account has the permissions that they need. Throws ProblemError while the account is unknown.
   */
  enable(hook: Hook): void {
    if (!listBindings(hook.config).some((binding) => isReviewBinding(binding))) return this.disable(hook);
    const before = this.#hooks.get(hook.id);
    const access = hook.module === undefined ? undefined : this.#options.accountLimitsOf(hook.module);
    if (before?.hook === hook && before.access?.user === access?.user) return;
    before?.stop.abort();
    const stop = new AbortController();
    const isPermitted = access === undefined || access.isUnlimited;
    const settled = Promise.withResolvers<void>();
    stop.signal.addEventListener("abort", () => settled.resolve());
    const added: WebhookHook = { hook, access, stop, settled, isPermitted, issue: undefined };
    this.#hooks.set(hook.id, added);
    this.#options.onAdded();
    this.#start(added, before);
  }

  /** Resolves when the webhooks of all enabled hooks are served, or cannot be: an issue, or the log, says why. */
  async whenServed(): Promise<void> {
    await Promise.all([...this.#hooks.values()].map(({ settled }) => settled.promise));
  }

  /** Stops serving the webhooks of a hook, and unregisters them. */
  disable(hook: Hook): void {
    const before = this.#hooks.get(hook.id);
    if (before === undefined) return;
    before.stop.abort();
    this.#hooks.delete(hook.id);
    this.#withdraw(before);
    if (before.issue !== undefined) this.#options.report.hookIssuesChanged(hook.module);
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
    return [...new Set([...this.#hooks.values()].flatMap(({ hook }) => crdNamesOf(hook)))].sort();
  }

  /** Why webhooks of a module's hooks are not registered: missing permissions of its account. */
  listIssues(module: string | undefined): string[] {
    return [...this.#hooks.values()].flatMap(({ hook, issue }) =>
      hook.module === module && issue !== undefined ? [issue] : [],
    );
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
    for (const each of this.#hooks.values()) if (each.isPermitted) this.#serve(webhooks, each);
  }

  /** Serves the webhooks of an added hook: at once, or while the account of its module has the permissions. */
  #start(added: WebhookHook, before: WebhookHook | undefined): void {
    const { access, isPermitted } = added;
    if (access === undefined || isPermitted) return this.#openAndServe(added, before);
    if (before !== undefined) this.#withdraw(before);
    void this.#serveWhilePermitted(added, access);
  }

  /** Serves the webhooks of a hook while the account of its module has the permissions that they need, until the hook is disabled. */
  async #serveWhilePermitted(added: WebhookHook, access: AccountLimits): Promise<void> {
    const { hook, stop } = added;
    const { signal } = stop;
    const permission = { check: () => assertMayRegister(hook, access), clock: this.#options.clock, signal };
    const open = (): void => {
      added.isPermitted = true;
      this.#setIssue(added, undefined);
      this.#openAndServe(added);
    };
    const close = (): void => {
      added.isPermitted = false;
      this.#withdraw(added);
    };
    await openWhilePermitted(permission, { open, close, onRefused: (error) => this.#setIssue(added, error) });
  }

  /** Records and logs why the webhooks of a hook are not served; undefined = they are. */
  #setIssue(of: WebhookHook, error: Error | undefined): void {
    if (error !== undefined) of.settled.resolve();
    const issue = error && explainRefusal(of.hook, error);
    if (of.stop.signal.aborted || of.issue === issue) return;
    of.issue = issue;
    const { name: hook, module } = of.hook;
    if (issue !== undefined)
      this.#options.logger.warn("Webhooks are not registered", { hook, module, issue });
    this.#options.report.hookIssuesChanged(module);
  }

  /** Serves the webhooks of a hook, as soon as the server is open. */
  #openAndServe(added: WebhookHook, before?: WebhookHook): void {
    if (this.#webhooks === undefined) this.#openServer();
    else this.#serve(this.#webhooks, added, before?.hook);
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
        for (const { settled } of this.#hooks.values()) settled.resolve();
      },
    );
  }

  /** Stops serving the webhooks of a hook that is disabled, changed or not permitted any more. */
  #withdraw({ hook }: WebhookHook): void {
    if (this.#webhooks === undefined) return; // The server is not open yet.
    const owner = webhookOwner(hook);
    this.#webhooks.registrar.remove(owner);
    this.#removeRoutes(owner);
    this.#serveConversions(this.#webhooks, crdNamesOf(hook));
  }

  /** Routes requests for the webhooks of one hook, and registers them with the API server. */
  #serve(webhooks: Webhooks, { hook, access, settled }: WebhookHook, before?: Hook): void {
    const { runs, failurePolicy } = this.#options;
    const owner = webhookOwner(hook);
    const { validating, mutating } = hook.config.bindings;
    const bindings = [...validating, ...mutating];
    const admission = bindings.map((binding) =>
      toAdmissionWebhook(binding, {
        failurePolicy,
        name: registeredName(binding, access === undefined ? undefined : hook.module),
        isLimited: access?.isUnlimited === false,
      }),
    );
    this.#removeRoutes(owner);
    const removers = bindings.map((binding, index) =>
      webhooks.addAdmissionRoute(admission[index]?.path ?? "", (request, signal) =>
        runs.admit({ hook, binding }, request, signal),
      ),
    );
    this.#routeRemovers.set(owner, () => removers.forEach((removeRoute) => removeRoute()));
    if (admission.length === 0) webhooks.registrar.remove(owner);
    else webhooks.registrar.set(owner, { group: GROUP, admission });
    // The former hook may have converted CRDs that this one does not.
    const formerCrds = before === undefined ? [] : crdNamesOf(before);
    this.#serveConversions(webhooks, [...crdNamesOf(hook), ...formerCrds]);
    settled.resolve();
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
    const hooks = [...this.#hooks.values()].flatMap(({ hook, isPermitted }) => (isPermitted ? hook : []));
    return hooks
      .sort((a, b) => (webhookOwner(a) < webhookOwner(b) ? -1 : 1))
      .flatMap((hook) =>
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

/** The webhook as the API server must know it. `isLimited`: it may select no cluster-scoped objects. */
function toAdmissionWebhook(
  binding: AdmissionBinding,
  {
    failurePolicy,
    name,
    isLimited,
  }: Pick<HookWebhooksOptions, "failurePolicy"> & { readonly name: string; readonly isLimited: boolean },
): AdmissionWebhook {
  const { type, rules, sideEffects, timeoutSeconds, matchConditions } = binding;
  return {
    type,
    name,
    rules: isLimited ? limitRules(rules) : rules,
    sideEffects,
    timeoutSeconds,
    matchConditions,
    path: `/hooks/${type}/${name}`,
    failurePolicy: binding.failurePolicy ?? failurePolicy,
    objectSelector: binding.labelSelector,
    namespaceSelector: binding.namespaceLabels,
  };
}

/**
 * Problems of `hooks`: webhooks that one of `others`, or another of `hooks`, declares too. Compares names of admission webhooks, and conversions of a CRD.
 */
export function findDuplicateWebhooks(
  hooks: readonly Hook[],
  others: Iterable<Hook>,
  accountLimitsOf: AccountLimitsOf = () => undefined,
): Problem[] {
  const declared = hooks.flatMap((hook) => webhookKeys(hook, accountLimitsOf).map((key) => ({ hook, key })));
  // Most hooks declare none: the many others need not be read for those.
  if (declared.length === 0) return [];
  const hookByKey = new Map<string, Hook>();
  for (const hook of others) for (const key of webhookKeys(hook, accountLimitsOf)) hookByKey.set(key, hook);
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
function webhookKeys(hook: Hook, accountLimitsOf: AccountLimitsOf): string[] {
  const { validating, mutating, conversion } = hook.config.bindings;
  // Most hooks have none: the account of their module is not needed.
  if (validating.length + mutating.length + conversion.length === 0) return [];
  const accountModule = accountModuleOf(hook, accountLimitsOf);
  return [
    ...[...validating, ...mutating].map(
      (binding) => `${binding.type} webhook ${registeredName(binding, accountModule)}`,
    ),
    ...conversion.flatMap(({ crdName, conversions }) =>
      conversions.map(
        ({ fromVersion, toVersion }) => `conversion of ${crdName} from ${fromVersion} to ${toVersion}`,
      ),
    ),
  ];
}
