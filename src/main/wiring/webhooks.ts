/**
 * Loads and starts the webhook server when it is needed, and connects it to hooks. It is needed when a hook declares a webhook, or, with
 * `--webhooks`, for the operator's own ones, which refuse wrong edits of its ConfigMap and annotations. Only the leader registers webhooks.
 */

import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";

import type { Triggers } from "../../hooks/bindings/index.ts";
import type { Releases } from "../../helm/index.ts";
import { listWebhookPermissions, type Leadership, type Permission } from "../../kube/index.ts";
import { ClientWorkBudgets, oneLine, type Scope } from "../../base/index.ts";
import type { Report } from "../../report/metrics/index.ts";
import { ProblemError, type Task } from "../../base/model/index.ts";
import type { Queues } from "../../engine/queue/index.ts";
import type { State, View } from "../../engine/state/index.ts";
import { HookWebhooks, ReviewRuns, removeLeftoverWebhooks } from "../../engine/tasks/index.ts";
import type { Ports, RateLimits } from "../../engine/tasks/index.ts";
import type * as webhooksModule from "../../webhooks/index.ts";
import type { AdmissionRequest, CertificateSource, WebhookTarget, Webhooks } from "../../webhooks/index.ts";
import type { Base } from "./base.ts";
import {
  answerEdit,
  createAdmitPath,
  editWebhooks,
  type AdmissionOptions,
} from "../../surface/admit/index.ts";

/** The objects of the operator that webhooks use. `ports` are built after this object, so they must be read late. */
interface WebhookParts {
  readonly state: State;
  readonly queues: Pick<Queues<Task>, "running">;
  readonly report: Report;
  readonly leadership: Leadership;
  readonly releases: Releases;
  readonly ports: Ports;
  /** How often each hook may run. */
  readonly rateLimits: RateLimits;
  readonly scope: Scope;
  /** Checks which permissions the operator lacks. */
  readonly checkPermissions: () => Promise<void>;
}

/** The webhooks of an operator: those of hooks, and its own. Their code is loaded with the first one, or at the start with `--webhooks`. */
export class WebhookWiring {
  readonly hooks: HookWebhooks;
  readonly #base: Base;
  readonly #parts: WebhookParts;
  #opened: Promise<Webhooks> | undefined;
  /** Aborted when a server opens, whose registrar then removes what earlier processes have registered, and at the end. */
  readonly #serverNeeded = new AbortController();

  /** Connects the webhooks of hooks to the runs that answer them; opens no server yet. */
  constructor(base: Base, parts: WebhookParts) {
    this.#base = base;
    this.#parts = parts;
    parts.scope.addRelease(() => this.#serverNeeded.abort());
    const { clock, settings } = base;
    const { state } = parts;
    const runs = new ReviewRuns({
      ports: () => parts.ports,
      clock,
      limits: parts.rateLimits,
      concurrency: settings.webhookConcurrency,
      // While tasks run, reviews leave one processor to them.
      concurrencyBesideTasks: Math.max(1, availableParallelism() - 1),
      runsTask: () => parts.queues.running > 0,
      isFromOperator: (request, signal) => this.#isOwnRequest(request, signal),
    });
    this.hooks = new HookWebhooks({
      ...base,
      runs,
      report: parts.report,
      open: () => this.#openAsLeader(),
      failurePolicy: settings.webhookFailurePolicy,
      // Webhooks of one more hook can need permissions that the operator does not have yet.
      onAdded: () => void parts.checkPermissions(),
    });
    // A registered webhook without a hook is a leftover only when all hooks are known.
    state.onChange(() => {
      if (!this.hooks.isComplete && areAllModulesReady(state.view)) this.#onAllHooksKnown();
    });
  }

  /** Whether the sender of a request is the operator or the account of a module. Then a task waits for the answer, so the answer must not wait for tasks. */
  async #isOwnRequest({ userInfo }: AdmissionRequest, signal: AbortSignal): Promise<boolean> {
    const { username } = userInfo;
    const { accounts, readOwnUser } = this.#base;
    if (typeof username !== "string") return false;
    return accounts.isAccountUser(username) || username === (await readOwnUser(signal));
  }

  /** The RBAC permissions that the current webhooks need; empty without webhooks. */
  listPermissions(): Permission[] {
    const { namespace, settings } = this.#base;
    if (!settings.webhooks && this.hooks.isEmpty) return [];
    return listWebhookPermissions(namespace, {
      service: settings.webhookUrl === undefined,
      owner: settings.webhookOwner,
      crds: this.hooks.convertedCrds,
    });
  }

  /** With `--webhooks`, starts the server; it forwards reviews until this process is the leader. Throws if the port cannot be used. */
  async start(): Promise<void> {
    if (this.#base.settings.webhooks) await this.#openOnce();
  }

  /** Called when this process becomes the leader. With `--webhooks`, opens the server at once, and registers webhooks; otherwise the first hook with a webhook opens it. */
  async becomeLeader(): Promise<void> {
    if (!this.#base.settings.webhooks) return;
    const webhooks = await this.#openAsLeader();
    this.hooks.useServer(webhooks);
    this.#registerEditWebhooks(webhooks);
  }

  /** Lets the API server ask, before it stores an edit of the ConfigMap or of annotations of the operator's resources, whether to refuse it. */
  #registerEditWebhooks(webhooks: Webhooks): void {
    const { namespace, secrets, settings } = this.#base;
    const { state, releases } = this.#parts;
    const configMap = { name: settings.configMap, namespace };
    // The operator's own edits are not checked. If its user name is unknown, all are.
    const options: AdmissionOptions = {
      ...this.#base,
      ...configMap,
      state,
      observed: releases.observed,
      deleteBrake: settings.deleteBrake,
      slowChecks: new ClientWorkBudgets(),
      redactDeep: (value) => secrets.redactDeep(value),
    };
    const path = createAdmitPath();
    webhooks.addAdmissionRoute(path, (request, signal, client) =>
      answerEdit(request, { signal, client }, options),
    );
    webhooks.registrar.set("edits", { group: "operator", admission: editWebhooks({ ...configMap, path }) });
  }

  /** Returns a source that enables and disables hooks in `other`, and their webhooks. */
  addHookWebhooks(other: Triggers): Triggers {
    return {
      enable: (hook) => {
        other.enable(hook);
        this.hooks.enable(hook);
      },
      disable: (hook) => {
        other.disable(hook);
        this.hooks.disable(hook);
      },
      close: () => other.close(),
    };
  }

  /** Closes the server. Webhooks stay registered: the API server applies their `failurePolicy` until an operator runs again. */
  async stop(): Promise<void> {
    const webhooks = await this.#opened?.catch(() => undefined);
    await webhooks?.close();
  }

  /**
   * Removes the webhooks that an earlier process registered and that are not needed any more. With an open server, its registrar
   * removes those of hooks that do not exist. Without one, nothing needs a webhook, so all are removed, those for edits included.
   */
  #onAllHooksKnown(): void {
    this.hooks.markComplete();
    const isServerOpen = this.#base.settings.webhooks || !this.hooks.isEmpty;
    if (isServerOpen) return;
    const { signal } = this.#serverNeeded;
    const name = makeConfigurationName(this.#base);
    const makeRegistrar = (): Promise<webhooksModule.Registrar> => this.#makeEmptyRegistrar(name);
    void removeLeftoverWebhooks({ ...this.#base, name, signal, makeRegistrar });
  }

  /** Makes a registrar without a server, which removes all webhooks of this operator. */
  async #makeEmptyRegistrar(name: string): Promise<webhooksModule.Registrar> {
    const { Registrar } = await import("../../webhooks/index.ts");
    const registrar = new Registrar({
      ...this.#base,
      name,
      target: readTarget(this.#base),
      report: this.#parts.report,
    });
    registrar.registerWithCa("");
    registrar.markComplete();
    return registrar;
  }

  /** Opens the server as the leader. Records a failure as an issue in the operator's status, and throws it; the next call tries again. */
  async #openAsLeader(): Promise<Webhooks> {
    try {
      const webhooks = await this.#openOnce();
      await webhooks.becomeLeader();
      return webhooks;
    } catch (error) {
      this.#opened = undefined;
      this.#base.logger.error("Webhooks cannot be served", { error: oneLine(error) });
      this.#parts.report.webhookIssuesChanged([`they cannot be served: ${oneLine(error)}`]);
      throw error;
    }
  }

  /** Opens the server at the first call; later calls return the same server. */
  #openOnce(): Promise<Webhooks> {
    this.#serverNeeded.abort();
    this.#opened ??= this.#createServer();
    return this.#opened;
  }

  /** Loads the code of webhooks, builds the server and starts it. */
  async #createServer(): Promise<Webhooks> {
    const { report, leadership } = this.#parts;
    const { settings, failures } = this.#base;
    const webhooksPackage = await import("../../webhooks/index.ts");
    const target = readTarget(this.#base);
    const webhooks = new webhooksPackage.Webhooks({
      ...this.#base,
      listen: { address: settings.webhookAddress, port: settings.webhookPort },
      clientCa: await readClientCa(settings.webhookClientCa),
      source: chooseCertificateSource(webhooksPackage, this.#base, {
        target,
        isLeader: () => leadership.isLeader,
      }),
      owner: settings.webhookOwner,
      hasReplicas: settings.ha,
      name: makeConfigurationName(this.#base),
      target,
      // A follower forwards requests to the leader.
      findLeader: async () => {
        const address = await leadership.address();
        return address && { ...address, port: settings.webhookPort };
      },
      report,
      onError: (error) => failures.report("webhook", error),
    });
    this.#parts.scope.addRelease(() => webhooks.close());
    await webhooks.open();
    this.#parts.report.webhookIssuesChanged([]);
    return webhooks;
  }
}

/** Whether all enabled modules have run since the start, so that all hooks with webhooks are active. */
function areAllModulesReady({ boot, modules }: View): boolean {
  // Before the end of the first converge, they have not. Looking at hundreds of modules after each change would cost time.
  if (boot !== "running") return false;
  return [...modules.values()].every(({ enabled, phase }) => !enabled || phase === "ready");
}

/** The prefix of the names of the configuration objects. */
function makeConfigurationName({ settings: { webhookName, configMap }, namespace }: Base): string {
  return webhookName ?? `addon-operator-${namespace}-${configMap}`;
}

/** Reads from the settings how the API server reaches the webhooks: by URL or Service. Throws ProblemError if the URL is unusable. */
function readTarget({ settings, namespace }: Base): WebhookTarget {
  const { webhookUrl: url, webhookService: name } = settings;
  if (url === undefined) return { service: { namespace, name } };
  const { protocol, search, hash, username } = new URL(url);
  if (protocol === "https:" && search + hash + username === "") return { url };
  const message = "Kubernetes calls webhooks only at a plain https URL";
  const remedy = "write it as https://HOST:PORT or https://HOST:PORT/PATH";
  throw new ProblemError({ file: "--webhook-url", message, remedy });
}

/** Chooses the source of the certificate by the settings: a directory, another program's Secret, or the operator's own Secret. */
function chooseCertificateSource(
  webhooksPackage: typeof webhooksModule,
  base: Base,
  { target, isLeader }: { readonly target: WebhookTarget; readonly isLeader: () => boolean },
): CertificateSource {
  const { webhookCertDir: dir, webhookCertSecret: secretName, configMap } = base.settings;
  if (dir !== undefined) return webhooksPackage.mountedCertificateSource(dir);
  if (secretName !== undefined) return webhooksPackage.secretCertificateSource(base, secretName);
  const secret = `addon-operator-${configMap}-webhooks`;
  const hosts = [webhooksPackage.serverName(target)];
  return new webhooksPackage.OwnCertificate({ ...base, secret, hosts, mayWrite: isLeader });
}

/** Reads the CAs of clients from a comma-separated list of files, as one PEM bundle. */
async function readClientCa(files: string | undefined): Promise<string | undefined> {
  if (files === undefined) return undefined;
  const texts = await Promise.all(files.split(",").map((file) => readFile(file, "utf8")));
  return texts.join("\n");
}
