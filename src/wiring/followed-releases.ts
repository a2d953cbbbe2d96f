import type { Releases } from "../helm/index.ts";
import { get, inParallel, isNotFound } from "../kube/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Scope, Timer } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import type { State } from "../state/index.ts";
import { Healing } from "../triggers/index.ts";
import type { Base } from "./base.ts";

/** A first reload that a failing module holds up keeps the others waiting for so long. */
const LATEST_MS = 30_000;
/** Records of releases read at the same time. */
const AT_ONCE = 4;
/** Releases whose records could not be read are read again after this time. */
const AGAIN_MS = 10_000;

interface Parts {
  readonly state: State;
  readonly metrics: Metrics;
  readonly releases: Releases;
  readonly scope: Scope;
}

/** What release Secrets say goes into the records of modules, and so do objects of releases that go missing. */
export class FollowedReleases {
  readonly healing: Healing;
  readonly #base: Base;
  readonly #parts: Parts;
  readonly #waiting = new Set<string>();
  #timer: Timer | undefined;
  /** Modules whose releases cannot be read: what was known of them stays watched. */
  readonly #unread = new Set<string>();
  #again: Timer | undefined;

  constructor(base: Base, parts: Parts) {
    this.#base = base;
    this.#parts = parts;
    this.healing = this.#makeHealing();
    parts.scope.add(() => {
      this.#timer?.cancel();
      this.#again?.cancel();
      this.healing.close();
    });
    parts.releases.store.onChange((module) => this.look(module));
  }

  /** Looks at a module's release, and watches its objects as they are now. */
  look(module: string): void {
    const { state, releases } = this.#parts;
    state.recordRelease(module, releases.get(module));
    // While a run is under way its objects come and go; what counts is what it leaves.
    if (state.module(module)?.activity !== "none") return;
    if (state.view.boot === "running") void this.#watchObjects(module);
    else this.#watchLater(module);
  }

  /** Watches what had to wait for the end of the first reload. */
  begin(): void {
    if (this.#waiting.size === 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    const modules = [...this.#waiting];
    this.#waiting.clear();
    void inParallel(AT_ONCE, modules, (module) => this.#watchObjects(module));
  }

  /** The records of all releases at once would hold up the first reload; until its end nothing could be healed anyhow. */
  #watchLater(module: string): void {
    this.#waiting.add(module);
    this.#timer ??= this.#base.clock.setTimer(LATEST_MS, () => this.begin());
  }

  async #watchObjects(module: string): Promise<void> {
    const { namespace: home } = this.#base;
    try {
      const objects = (await this.#objects(module)) ?? [];
      this.#unread.delete(module);
      this.healing.setObjects(
        module,
        objects.map((object) => ({ ...object, namespace: object.namespace ?? home })),
      );
    } catch (error) {
      this.#readAgain(module, error);
    }
  }

  async #objects(module: string): ReturnType<Releases["objects"]> {
    const { state, releases } = this.#parts;
    return state.module(module)?.enabled === true ? releases.objects(module) : undefined;
  }

  #readAgain(module: string, error: unknown): void {
    const { clock, logger } = this.#base;
    if (!this.#unread.has(module))
      logger.warn("A release cannot be read; the objects known before stay watched", {
        module,
        error: oneLine(error),
      });
    this.#unread.add(module);
    this.#again ??= clock.setTimer(AGAIN_MS, () => {
      this.#again = undefined;
      void inParallel(AT_ONCE, [...this.#unread], (each) => this.#watchObjects(each));
    });
  }

  #makeHealing(): Healing {
    const { hub, discovery, clock, logger, client } = this.#base;
    const { state, metrics } = this.#parts;
    return new Healing({
      hub,
      resolve: (kind, apiVersion) => discovery.resolve(kind, apiVersion),
      clock,
      logger,
      exists: async (resource, { namespace, name }) => {
        try {
          await get(client, { resource, namespace, name });
          return true;
        } catch (error) {
          if (isNotFound(error)) return false;
          throw error;
        }
      },
      onAbsent: (module, absent) => {
        for (const object of absent) metrics.modules.absent(module, object);
        logger.warn("Objects of a release are gone", { module, objects: absent });
        state.update(module, (record) => void (record.absent = absent));
      },
    });
  }
}
