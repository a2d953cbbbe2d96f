/** Serves and registers the webhooks that hooks declare, while the hooks are active. */

import { allBindings, isReviewBinding, type Source } from "../../bindings/index.ts";
import { CONVERSION_PATHS, type AdmissionBinding, type Hook, type Problem } from "../../model/index.ts";
import { outside } from "../../trace/index.ts";
import type { AdmissionWebhook, Webhooks } from "../../webhooks/index.ts";
import type { ReviewRuns } from "./answer-review.ts";
import type { ConversionStep } from "./conversion-path.ts";

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
export class HookWebhooks implements Pick<Source, "enable" | "disable"> {
  readonly #options: HookWebhooksOptions;
  readonly #hooks = new Map<string, Hook>();
  /** Functions that end the routes of a hook, or of the conversion of a CRD, by owner. */
  readonly #ends = new Map<string, () => void>();
  #webhooks: Webhooks | undefined;
  #opening: Promise<Webhooks> | undefined;
  #isComplete = false;

  constructor(options: HookWebhooksOptions) {
    this.#options = options;
  }

  enable(hook: Hook): void {
    if (!hasWebhooks(hook)) return this.disable(hook);
    const before = this.#hooks.get(hook.id);
    if (before === hook) return;
    this.#hooks.set(hook.id, hook);
    this.#options.onAdded();
    if (this.#webhooks === undefined) this.#open();
    else this.#serve(this.#webhooks, hook, before);
  }

  disable(hook: Hook): void {
    const before = this.#hooks.get(hook.id);
    if (before === undefined) return;
    this.#hooks.delete(hook.id);
    if (this.#webhooks === undefined) return;
    const owner = ownerOf(before);
    this.#webhooks.registrar.remove(owner);
    this.#end(owner);
    this.#serveConversions(this.#webhooks, crdsOf(before));
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
    return [...new Set([...this.#hooks.values()].flatMap(crdsOf))].sort();
  }

  /** All hooks of modules that are on are active: other webhooks of earlier hooks are removed. */
  complete(): void {
    this.#isComplete = true;
    this.#webhooks?.registrar.markComplete();
  }

  /** Resolves when the API server has what is wanted. Throws ApiError, ConnectionError. */
  async flush(): Promise<void> {
    await (await this.#opening)?.registrar.flush();
  }

  /** Uses a server that is open already. */
  use(webhooks: Webhooks): void {
    this.#webhooks = webhooks;
    this.#opening = Promise.resolve(webhooks);
    if (this.#isComplete) webhooks.registrar.markComplete();
    for (const hook of this.#hooks.values()) this.#serve(webhooks, hook);
  }

  #open(): void {
    if (this.#opening !== undefined) return;
    // The server outlives the task that activates the hook.
    this.#opening = outside(() => this.#options.open());
    this.#opening.then(
      (webhooks) => this.use(webhooks),
      // The one who opens it reports the error; the next hook tries again.
      () => (this.#opening = undefined),
    );
  }

  #serve(webhooks: Webhooks, hook: Hook, before?: Hook): void {
    const { runs, failurePolicy } = this.#options;
    const owner = ownerOf(hook);
    const bindings = admissionBindings(hook);
    this.#end(owner);
    const ends = bindings.map((binding) =>
      webhooks.addAdmissionRoute(pathOf(binding), (request, signal) =>
        runs.admit({ hook, binding }, request, signal),
      ),
    );
    this.#ends.set(owner, () => ends.forEach((end) => end()));
    const admission = bindings.map((binding) => webhookOf(binding, failurePolicy));
    if (admission.length === 0) webhooks.registrar.remove(owner);
    else webhooks.registrar.set(owner, { group: GROUP, admission });
    this.#serveConversions(webhooks, [...crdsOf(hook), ...(before === undefined ? [] : crdsOf(before))]);
  }

  /** Several hooks may convert objects of one CRD. */
  #serveConversions(webhooks: Webhooks, crds: readonly string[]): void {
    for (const crdName of new Set(crds)) {
      const owner = `conversion of ${crdName}`;
      const steps = this.#stepsOf(crdName);
      this.#end(owner);
      if (steps.length === 0) {
        webhooks.registrar.remove(owner);
        continue;
      }
      const path = `${CONVERSION_PATHS}${crdName}`;
      const end = webhooks.addConversionRoute(path, (request, signal) =>
        this.#options.runs.convert({ crdName, steps }, request, signal),
      );
      this.#ends.set(owner, end);
      webhooks.registrar.set(owner, { group: GROUP, conversions: [{ crdName, path }] });
    }
  }

  #stepsOf(crdName: string): ConversionStep[] {
    const hooks = [...this.#hooks.values()].sort((a, b) => (ownerOf(a) < ownerOf(b) ? -1 : 1));
    return hooks.flatMap((hook) =>
      hook.config.bindings.conversion
        .filter((binding) => binding.crdName === crdName)
        .flatMap((binding) => binding.conversions.map((rule) => ({ hook, binding, rule }))),
    );
  }

  #end(owner: string): void {
    this.#ends.get(owner)?.();
    this.#ends.delete(owner);
  }
}

function hasWebhooks({ config }: Hook): boolean {
  return allBindings(config).some((binding) => isReviewBinding(binding));
}

/** The order of webhooks is that of the paths of their hooks. */
function ownerOf({ path, id }: Hook): string {
  return `${path} ${id}`;
}

function crdsOf({ config }: Hook): string[] {
  return config.bindings.conversion.map(({ crdName }) => crdName);
}

function admissionBindings({ config }: Hook): AdmissionBinding[] {
  return [...config.bindings.validating, ...config.bindings.mutating];
}

function pathOf({ type, name }: AdmissionBinding): string {
  return `/hooks/${type}/${name}`;
}

function webhookOf(binding: AdmissionBinding, failurePolicy: "Fail" | "Ignore"): AdmissionWebhook {
  const { type, name, rules, sideEffects, timeoutSeconds, matchConditions } = binding;
  return {
    type,
    name,
    rules,
    sideEffects,
    timeoutSeconds,
    matchConditions,
    path: pathOf(binding),
    failurePolicy: binding.failurePolicy ?? failurePolicy,
    objectSelector: binding.labelSelector,
    namespaceSelector: binding.namespaceLabels,
  };
}

/**
 * The webhooks of `hooks` that one of `others`, or another of `hooks`, declares too: names of admission webhooks, and
 * conversions of a CRD.
 */
export function equalWebhooks(hooks: readonly Hook[], others: Iterable<Hook>): Problem[] {
  const known = new Map<string, Hook>();
  for (const hook of others) for (const key of webhookKeys(hook)) known.set(key, hook);
  return hooks.flatMap((hook) => {
    const problems = webhookKeys(hook).flatMap((key): Problem[] => {
      const other = known.get(key);
      known.set(key, hook);
      if (other === undefined || other.id === hook.id) return [];
      const message = `declares the ${key}, and so does ${other.path}`;
      return [{ file: hook.path, key: "--config", message, remedy: "each may be declared once: rename one" }];
    });
    return problems;
  });
}

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
