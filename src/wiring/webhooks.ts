/** Webhooks: loads and starts the server when something needs it, and connects it to hooks. */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";

import type { Source } from "../bindings/index.ts";
import type { Releases } from "../helm/index.ts";
import {
  requestOwnUserName,
  listWebhookPermissions,
  type Leadership,
  type Permission,
} from "../kube/index.ts";
import { oneLine, type Scope } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import { ProblemError, type Task } from "../model/index.ts";
import type { Queues, RateLimits } from "../queue/index.ts";
import type { State, View } from "../state/index.ts";
import { HookWebhooks, ReviewRuns, removeLeftOver, type Ports } from "../tasks/index.ts";
import type * as webhooksModule from "../webhooks/index.ts";
import type { AdmissionRequest, CertificateSource, WebhookTarget, Webhooks } from "../webhooks/index.ts";
import type { Base } from "./base.ts";
import { admitEdits } from "./edits.ts";

/** The objects of the operator that webhooks use. `ports` are built later. */
interface WebhookParts {
  readonly state: State;
  readonly queues: Pick<Queues<Task>, "running">;
  readonly metrics: Metrics;
  readonly leadership: Leadership;
  readonly releases: Releases;
  readonly ports: Ports;
}

/** The webhooks of an operator. Their code is loaded with the first one, or at the start with `--webhooks`. */
export class WebhookWiring {
  readonly hooks: HookWebhooks;
  readonly #base: Base;
  readonly #parts: WebhookParts;
  readonly #scope: Scope;
  #opened: Promise<Webhooks> | undefined;
  #ownUserName: string | undefined;
  /** Called when more rights are needed. */
  #onNeeds: () => void = () => {};

  constructor(
    base: Base,
    parts: WebhookParts,
    { limits, scope }: { readonly limits: RateLimits<Task>; readonly scope: Scope },
  ) {
    this.#base = base;
    this.#parts = parts;
    this.#scope = scope;
    const { clock, settings } = base;
    const { state } = parts;
    const runs = new ReviewRuns({
      ports: () => parts.ports,
      clock,
      limits,
      concurrency: settings.webhookConcurrency,
      concurrencyBesideTasks: Math.max(1, availableParallelism() - 1),
      runsTask: () => parts.queues.running > 0,
      isOwn: (request, signal) => this.#isOwn(request, signal),
    });
    this.hooks = new HookWebhooks({
      runs,
      open: () => this.#lead(),
      failurePolicy: settings.webhookFailurePolicy,
      onAdded: () => this.#onNeeds(),
    });
    state.onChange(() => {
      if (!this.hooks.isComplete && areAllModulesReady(state.view)) this.#complete();
    });
  }

  /** Whether the operator or a module sent a request. */
  async #isOwn({ userInfo }: AdmissionRequest, signal: AbortSignal): Promise<boolean> {
    const { username } = userInfo;
    if (typeof username !== "string") return false;
    return this.#base.accounts.isAccountUser(username) || username === (await this.#ownUser(signal));
  }

  /** The operator's user at the API server; undefined while the server does not say. */
  async #ownUser(signal: AbortSignal): Promise<string | undefined> {
    const { client } = this.#base;
    return (this.#ownUserName ??= await requestOwnUserName(client, signal).catch(() => undefined));
  }

  /** The rights that webhooks need at the moment. */
  rights(): Permission[] {
    const { namespace, settings } = this.#base;
    if (!settings.webhooks && this.hooks.isEmpty) return [];
    return listWebhookPermissions(namespace, {
      service: settings.webhookUrl === undefined,
      crds: this.hooks.convertedCrds,
    });
  }

  /** Calls `changed` when more rights are needed than before. */
  followRights(changed: () => void): void {
    this.#onNeeds = changed;
  }

  /** With `--webhooks`: serves from now on, as a follower before this process leads. Throws if that is impossible. */
  async start(): Promise<void> {
    if (this.#base.settings.webhooks) await this.#open();
  }

  /** With `--webhooks`: this process leads now. */
  async lead(): Promise<void> {
    if (!this.#base.settings.webhooks) return;
    const webhooks = await this.#lead();
    this.hooks.use(webhooks);
    admitEdits(webhooks, { ...this.#base, ...this.#parts, ownUser: (signal) => this.#ownUser(signal) });
  }

  /** A source that triggers hooks as `other` does, and serves their webhooks. */
  beside(other: Source): Source {
    return {
      enable: (hook) => [other, this.hooks].forEach((each) => each.enable(hook)),
      disable: (hook) => [other, this.hooks].forEach((each) => each.disable(hook)),
      close: () => other.close(),
    };
  }

  /** Answers nothing more: the `failurePolicy` of each webhook decides while no operator runs. */
  async stop(): Promise<void> {
    const webhooks = await this.#opened?.catch(() => undefined);
    await webhooks?.close();
  }

  /** All hooks that are on are known: removes webhooks that nobody answers. */
  #complete(): void {
    this.hooks.complete();
    if (this.#base.settings.webhooks || !this.hooks.isEmpty) return;
    const name = configurationName(this.#base);
    void removeLeftOver(this.#base, [`${name}-hooks`, `${name}-operator`]);
  }

  /** Opens the server for the lease holder. A failure is reported as an issue of the operator, too. */
  async #lead(): Promise<Webhooks> {
    try {
      const webhooks = await this.#open();
      await webhooks.lead();
      return webhooks;
    } catch (error) {
      this.#opened = undefined;
      this.#base.logger.error("Webhooks cannot be served", { error: oneLine(error) });
      this.#report([`they cannot be served: ${oneLine(error)}`]);
      throw error;
    }
  }

  #open(): Promise<Webhooks> {
    this.#opened ??= this.#make();
    return this.#opened;
  }

  async #make(): Promise<Webhooks> {
    const { metrics, leadership } = this.#parts;
    const { settings, failures } = this.#base;
    const loaded = await import("../webhooks/index.ts");
    const target = targetOf(this.#base);
    const webhooks = new loaded.Webhooks({
      ...this.#base,
      listen: { address: settings.webhookAddress, port: settings.webhookPort },
      clientCa: await clientCa(settings.webhookClientCa),
      source: sourceOf(loaded, this.#base, { target, leads: () => leadership.isLeader }),
      hasReplicas: settings.ha,
      name: configurationName(this.#base),
      target,
      leader: async () => {
        const address = await leadership.address();
        return address && { ...address, port: settings.webhookPort };
      },
      onRequest: ({ status, seconds }) =>
        metrics.observe("webhookRequest", { code: String(status) }, seconds),
      onIssues: (issues) => this.#report(issues),
      failed: (error) => failures.report("webhook", error),
    });
    this.#scope.addRelease(() => webhooks.close());
    await webhooks.open();
    this.#report([]);
    return webhooks;
  }

  #report(webhookIssues: readonly string[]): void {
    const { metrics, state } = this.#parts;
    metrics.set("webhookIssues", {}, webhookIssues.length);
    state.record("factsObserved", { webhookIssues });
  }
}

/** Whether all modules that are on have run, so that their hooks are active. */
function areAllModulesReady({ boot, modules }: View): boolean {
  return (
    boot === "running" && [...modules.values()].every(({ enabled, phase }) => !enabled || phase === "ready")
  );
}

/** Begin of the names of what is registered. */
function configurationName({ settings: { webhookName, configMap }, namespace }: Base): string {
  return webhookName ?? `addon-operator-${namespace}-${configMap}`;
}

/** Throws ProblemError if the URL is not usable for Kubernetes. */
function targetOf({ settings, namespace }: Base): WebhookTarget {
  const { webhookUrl: url, webhookService: name } = settings;
  if (url === undefined) return { service: { namespace, name } };
  const { protocol, search, hash, username } = new URL(url);
  if (protocol === "https:" && search + hash + username === "") return { url };
  const message = "Kubernetes calls webhooks only at a plain https URL";
  throw new ProblemError({
    file: "--webhook-url",
    message,
    remedy: "write it as https://HOST:PORT or https://HOST:PORT/PATH",
  });
}

function sourceOf(
  loaded: Pick<
    typeof webhooksModule,
    "OwnCertificate" | "serverName" | "mountedCertificate" | "secretCertificate"
  >,
  base: Base,
  { target, leads }: { readonly target: WebhookTarget; readonly leads: () => boolean },
): CertificateSource {
  const { webhookCertDir: dir, webhookCertSecret: given, configMap } = base.settings;
  if (dir !== undefined) return loaded.mountedCertificate(dir);
  if (given !== undefined) return loaded.secretCertificate(base, given);
  const secret = `addon-operator-${configMap}-webhooks`;
  return new loaded.OwnCertificate({ ...base, secret, hosts: [loaded.serverName(target)], mayWrite: leads });
}

async function clientCa(files: string | undefined): Promise<string | undefined> {
  if (files === undefined) return undefined;
  return (await Promise.all(files.split(",").map((file) => readFile(file, "utf8")))).join("\n");
}
