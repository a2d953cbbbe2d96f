/** Follows releases: what their Secrets say, and which objects are missing. */

import type { DriftedObject } from "../../drift/index.ts";
import type { Health } from "../../health/index.ts";
import type { ObjectRef, Releases } from "../../helm/index.ts";
import { get, getMetadata, isNotFound } from "../../kube/index.ts";
import type { Discovery, KubeClient, WatchHub } from "../../kube/index.ts";
import { compileCel, inParallel, oneLine, parseDuration } from "../../lib/index.ts";
import type { CelTest, Clock, Logger, Scope, Timer } from "../../lib/index.ts";
import type { ReleaseView, State } from "../../state/index.ts";
import { happened } from "../../trace/index.ts";
import type { DriftMode } from "../../values/index.ts";
import { Healing, type AbsentObject } from "./healing.ts";
import { KindWatches } from "./kind-watches.ts";
import { ReleaseDrift, type DriftPolicy } from "./release-drift.ts";
import { ReleaseHealth } from "./release-health.ts";
import type { ReleaseObject } from "./release-object.ts";

/** When a failing module holds up the first reload, the other modules' objects are watched after this long. */
const LATEST_MS = 30_000;
/** Records of releases read at the same time. */
const AT_ONCE = 4;
/** Releases whose records could not be read are read again after this time. */
const AGAIN_MS = 10_000;
/** How long the server may take to say whether an object is there. */
const ANSWER_MS = 5000;
/** Objects named in one line of the log. */
const MOST_NAMED = 20;

interface FollowedReleasesOptions {
  readonly client: KubeClient;
  readonly discovery: Discovery;
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly namespace: string;
  readonly state: State;
  readonly releases: Releases;
  readonly scope: Scope;
  /** How long an object may be under way before its release is not healthy. */
  readonly healthTimeoutMs: number;
  /** What is to be done about drift where the ConfigMap does not say it. */
  readonly drift: DriftMode;
  /** Called with each object that others have changed; `repaired`: it was put back. */
  readonly onDrift: (module: string, object: DriftedObject, repaired: boolean) => void;
  /** Called with the health of a module's release when it changes; without, when there is none any more. */
  readonly onHealth: (module: string, health: Health | undefined) => void;
  /** Called with each object that went missing. */
  readonly onAbsent: (module: string, object: string) => void;
}

/** Takes what release Secrets say into the records of modules, and tells of objects of releases that are missing. */
export class FollowedReleases {
  readonly healing: Healing;
  readonly #kinds: KindWatches;
  readonly #health: ReleaseHealth;
  readonly #drift: ReleaseDrift;
  readonly #options: FollowedReleasesOptions;
  readonly #waiting = new Set<string>();
  /** The revision whose objects are watched, by module. */
  readonly #revisions = new Map<string, number | undefined>();
  #timer: Timer | undefined;
  /** Modules whose releases cannot be read: the objects known before stay watched. */
  readonly #unread = new Set<string>();
  #again: Timer | undefined;

  constructor(options: FollowedReleasesOptions) {
    this.#options = options;
    const { hub, discovery, clock, logger } = options;
    const resolve: Discovery["resolve"] = (kind, apiVersion) => discovery.resolve(kind, apiVersion);
    this.#kinds = new KindWatches({ hub, resolve, clock, logger });
    this.healing = this.#makeHealing();
    this.#health = this.#makeHealth();
    this.#drift = this.#makeDrift();
    options.scope.add(() => {
      this.#timer?.cancel();
      this.#again?.cancel();
      this.healing.close();
      this.#health.close();
      this.#drift.close();
      this.#kinds.close();
    });
    options.releases.store.onChange((module) => this.look(module));
    options.state.onChange(({ boot }) => {
      if (boot === "running") this.#begin();
    });
  }

  /** Looks at a module's release, and watches its objects as they are now. */
  look(module: string): void {
    const { state, releases } = this.#options;
    state.update(module, (record) => void (record.release = releases.get(module)));
    // During a run objects come and go; what counts is what is there at its end.
    if (state.module(module)?.run.activity !== "none") return;
    if (state.view.boot === "running") void this.#watchObjects(module);
    else this.#watchLater(module);
  }

  /** Watches what had to wait for the end of the first reload. */
  #begin(): void {
    if (this.#waiting.size === 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const modules = [...this.#waiting];
    this.#waiting.clear();
    void inParallel(AT_ONCE, modules, (module) => this.#watchObjects(module));
  }

  /** Reading all records at once would delay the first reload, and nothing could be healed before its end. */
  #watchLater(module: string): void {
    this.#waiting.add(module);
    this.#timer ??= this.#options.clock.setTimer(LATEST_MS, () => this.#begin());
  }

  async #watchObjects(module: string): Promise<void> {
    const { state, releases } = this.#options;
    const revision = releases.get(module)?.revision;
    try {
      const objects = (await releases.objects(module)) ?? [];
      const placed = await this.#place(module, objects);
      this.#unread.delete(module);
      this.#note(module, undefined);
      const release = releases.get(module);
      const enabled = state.module(module)?.enabled === true;
      // A newer revision is read by whoever reported it.
      if (release?.revision === revision) this.#follow(module, release, enabled ? placed : []);
    } catch (error) {
      this.#readAgain(module, error);
    }
  }

  #follow(module: string, release: ReleaseView | undefined, objects: readonly ReleaseObject[]): void {
    const { state, healthTimeoutMs } = this.#options;
    // Its record, which says more than its labels, was read only now.
    state.update(module, (record) => void (record.release = release));
    const isNew = this.#revisions.get(module) !== release?.revision;
    if (release === undefined) this.#revisions.delete(module);
    else this.#revisions.set(module, release.revision);
    this.healing.setObjects(module, objects);
    this.#drift.setObjects(module, objects, isNew);
    const record = state.module(module);
    if (release === undefined || record?.enabled !== true) return this.#health.forget(module);
    const { ignore = [], timeout = "" } = record.module.health ?? {};
    const counts = ({ kind, name }: ReleaseObject): boolean =>
      !ignore.some((each) => each.kind === kind && (each.name ?? name) === name);
    this.#health.setObjects(module, {
      objects: objects.filter(counts),
      revision: release.revision,
      timeoutMs: parseDuration(timeout) ?? healthTimeoutMs,
    });
  }

  /** With their namespaces, and the checks that `addon.yaml` has for their kinds. */
  async #place(module: string, objects: readonly ObjectRef[]): Promise<ReleaseObject[]> {
    const { namespace: own, state } = this.#options;
    const checks = await compiled(state.module(module)?.module.health?.checks ?? []);
    return objects.map((object) => ({
      ...object,
      namespace: object.namespace ?? own,
      check: checks.find(({ apiVersion, kind }) => apiVersion === object.apiVersion && kind === object.kind),
    }));
  }

  #readAgain(module: string, error: unknown): void {
    const { clock, logger } = this.#options;
    if (!this.#unread.has(module))
      logger.warn("A release cannot be read; the objects known before stay watched", {
        module,
        error: oneLine(error),
      });
    this.#unread.add(module);
    // The API server may answer the next time; a broken record needs a person.
    if (error instanceof SyntaxError) this.#note(module, error.message);
    this.#again ??= clock.setTimer(AGAIN_MS, () => {
      this.#again = undefined;
      void inParallel(AT_ONCE, [...this.#unread], (each) => this.#watchObjects(each));
    });
  }

  #note(module: string, unread: string | undefined): void {
    const { state } = this.#options;
    if (state.module(module)?.unread !== unread)
      state.update(module, (record) => void (record.unread = unread));
  }

  #makeHealing(): Healing {
    const { clock, client } = this.#options;
    return new Healing({
      kinds: this.#kinds,
      clock,
      exists: async (resource, object) => {
        const read = this.#kinds.needsWhole(object) ? get : getMetadata;
        const { namespace, name } = object;
        const found = await read(client, { resource, namespace, name }, { timeoutMs: ANSWER_MS }).catch(
          (error: unknown) => {
            if (!isNotFound(error)) throw error;
          },
        );
        this.#kinds.answered(object, found ?? undefined);
        return found !== undefined;
      },
      mayReport: (module) => this.#isSettled(module),
      onAbsent: (module, absent) => this.#takeAbsent(module, absent),
      onDeferred: (module, deferred) => this.#takeDeferred(module, deferred),
    });
  }

  #makeHealth(): ReleaseHealth {
    const { hub, clock, state, onHealth } = this.#options;
    return new ReleaseHealth({
      kinds: this.#kinds,
      hub,
      clock,
      onHealth: (module, health) => {
        state.update(module, (record) => void (record.health = health));
        onHealth(module, health);
      },
    });
  }

  #makeDrift(): ReleaseDrift {
    const { clock, logger, state, releases, onDrift } = this.#options;
    return new ReleaseDrift({
      kinds: this.#kinds,
      clock,
      logger,
      policyOf: (module) => this.#policyOf(module),
      recorded: (module, signal) => releases.recorded(module, signal),
      mayLook: (module) => this.#isSettled(module) && releases.get(module)?.status === "deployed",
      onDrift: (module, drift) => state.update(module, (record) => void (record.drift = drift)),
      onFound: onDrift,
    });
  }

  /** Of a module that is left alone drift is only told. */
  #policyOf(name: string): DriftPolicy {
    const { state, drift } = this.#options;
    const view = state.view.modules.get(name);
    const mode = view?.driftMode ?? drift;
    const ignore = view?.module.drift?.ignore ?? [];
    return { mode: mode === "repair" && view?.suspended === true ? "warn" : mode, ignore };
  }

  /**
   * Objects that an upgrade removes are not missing, and what it writes is no drift: neither while it is under way, nor
   * before the new objects are known.
   */
  #isSettled(module: string): boolean {
    const { state, releases } = this.#options;
    const isIdle = state.module(module)?.run.activity === "none";
    return isIdle && this.#revisions.get(module) === releases.get(module)?.revision;
  }

  #takeAbsent(module: string, absent: readonly AbsentObject[]): void {
    const { state, logger, onAbsent } = this.#options;
    const gone = this.#thoseMade(module, absent);
    const never = absent.map(({ name }) => name).filter((name) => !gone.includes(name));
    if (never.length > 0)
      logger.warn("Objects of a release were never created", { module, ...shorten(never) });
    if (gone.length === 0) return;
    for (const object of gone) onAbsent(module, object);
    logger.warn("Objects of a release are gone", { module, ...shorten(gone) });
    // Objects that were reported before may still wait for their run.
    happened("deleted object", { module, object: gone[0], objects: gone.length }, () =>
      state.update(module, (record) => void (record.absent = [...new Set([...record.absent, ...gone])])),
    );
  }

  #takeDeferred(module: string, deferred: readonly AbsentObject[]): void {
    const names = this.#thoseMade(module, deferred);
    this.#options.state.update(module, (record) => void (record.deferred = names));
  }

  /** A release is deployed only once all of its objects were made. */
  #thoseMade(module: string, objects: readonly AbsentObject[]): string[] {
    const isWhole = this.#options.releases.get(module)?.status === "deployed";
    return objects.filter(({ existed }) => existed || isWhole).map(({ name }) => name);
  }
}

/** Those that are none make their module Invalid. */
async function compiled<T extends { readonly cel: string }>(
  checks: readonly T[],
): Promise<(T & { readonly test: CelTest })[]> {
  const all = checks.map(async (check) => ({ ...check, test: await compileCel(check.cel) }));
  const settled = await Promise.allSettled(all);
  return settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
}

function shorten(objects: readonly string[]): { objects: readonly string[]; more?: number } {
  if (objects.length <= MOST_NAMED) return { objects };
  return { objects: objects.slice(0, MOST_NAMED), more: objects.length - MOST_NAMED };
}
