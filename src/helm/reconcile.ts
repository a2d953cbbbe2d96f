/** Brings one release to the module's chart and values, and tells which hook of the chart helm waits for. */

import { provesBroken } from "../health/index.ts";
import { sleep, type Clock, type Timer } from "../lib/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { decisionOn, examine, labelsOf } from "./decide.ts";
import type {
  Reconciler,
  ReconcileRequest,
  Reconciliation,
  ReleaseDecision,
  ReleaseOutcome,
} from "./decide.ts";
import { restoreObjects } from "./live-objects.ts";
import type { HookRecord, ReleaseStore } from "./release/release-store.ts";
import { isUnfinished, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { ChartMovedError, isSame, withCall, type Rendered } from "./rendering.ts";
import { countFailure, describeRefusal, hasNoWayBack, markGood, nextOf, rollBack } from "./rollback.ts";
import type { Refusal } from "./rollback.ts";
import { install, recover } from "./upgrade.ts";

type Result = Omit<ReleaseOutcome, "release">;
type Done = Omit<Result, "recovered">;

/** A chart that is changed just then is looked at again, so often and after this time. */
const LOOKS = 10;
const CALM_MS = 500;

/**
 * Compares, and does as little as possible: nothing for equal inputs, new labels for an equal manifest, else an
 * upgrade. Missing objects of a release that is not upgraded are restored.
 */
export async function reconcileRelease(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  for (let look = 1; ; look++) {
    try {
      return await reconcileOnce(tools, request);
    } catch (error) {
      if (!(error instanceof ChartMovedError) || look === LOOKS) throw error;
    }
    await sleep(tools.clock, CALM_MS, request.signal);
  }
}

async function reconcileOnce(tools: Reconciler, request: ReconcileRequest): Promise<Result> {
  const { reconciliation, decision } = await examine(tools, request);
  tools.logger.debug("Decided on a release", { release: request.module.name, ...decision });
  const done = await act(reconciliation, decision);
  const result = withWayBack(reconciliation, { ...done, recovered: decision.act === "recover" });
  const { release } = reconciliation;
  const { absent = [], signal } = request;
  const stays = result.action === "unchanged" || result.action === "labelled";
  if (!stays || absent.length === 0 || release === undefined) return result;
  await restoreObjects(tools, { release, absent, signal });
  return { ...result, action: "restored" };
}

/** Tells of a release that is not healthy in time, and would go back. */
function withWayBack({ tools, request, policy }: Reconciliation, result: Result): Result {
  const goesBack = policy !== undefined && provesBroken(request.ailing);
  return goesBack && hasNoWayBack(tools.store.revisions(request.module.name))
    ? { ...result, hasNoWayBack: true }
    : result;
}

async function act(reconciliation: Reconciliation, decision: ReleaseDecision): Promise<Done> {
  switch (decision.act) {
    case "nothing":
      return { action: "unchanged" };
    case "install":
    case "upgrade":
      return upgrade(reconciliation);
    case "recover":
      return recovered({ ...reconciliation, release: await recover(reconciliation) });
    case "compare":
      return compare(reconciliation);
    case "stay":
      return { action: "unchanged", refused: await describeRefusal(reconciliation, decision.refusal) };
    case "rollback":
      return goBack(reconciliation, decision.refusal);
  }
}

/** A rollback that was interrupted is done anew. */
function recovered(reconciliation: Reconciliation): Promise<Done> {
  const decision = decisionOn(reconciliation);
  return decision.act === "rollback" ? goBack(reconciliation, decision.refusal) : upgrade(reconciliation);
}

async function goBack(reconciliation: Reconciliation, refusal: Refusal): Promise<Done> {
  await rollBack(reconciliation, refusal);
  return { action: "rolledBack", refused: await describeRefusal(reconciliation, refusal) };
}

async function compare(reconciliation: Reconciliation): Promise<Done> {
  const { release, tools } = reconciliation;
  if (release === undefined) return upgrade(reconciliation);
  const rendered = await tools.render(reconciliation);
  if (await isSame(tools, release, rendered))
    return { action: await relabel(reconciliation, release, rendered.checksum) };
  return upgrade(reconciliation, rendered);
}

async function relabel(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
  manifest: string,
): Promise<Result["action"]> {
  const labels = labelsOf(reconciliation, manifest, false);
  const isOwed = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(isOwed)) return "unchanged";
  const { store, lateLabels } = reconciliation.tools;
  tellAdoption(reconciliation);
  // Whose release it is must be on the server; the other labels only save a later rendering, and a reload of many
  // modules does not wait for them.
  if (isOwed(LABELS.managedBy)) await store.label(release, labels, reconciliation.request.signal);
  else {
    store.assume(release, labels);
    lateLabels.owe(release.name);
  }
  return "labelled";
}

/** `rendered` is what the chart makes, where it was rendered already. */
function upgrade(reconciliation: Reconciliation, rendered?: Rendered): Promise<Done> {
  const { release } = reconciliation;
  return withCall(reconciliation, async (call) => {
    tellAdoption(reconciliation);
    await markGood(reconciliation);
    const { historyMax, labels } = nextOf(reconciliation);
    const all = { ...labels, ...labelsOf(reconciliation, rendered?.checksum, release === undefined) };
    try {
      await watched(reconciliation, () =>
        install(reconciliation, { ...call, labels: all, historyMax }, rendered),
      );
    } catch (error) {
      return goBack(reconciliation, await countFailure(reconciliation, error));
    }
    const { store, lateLabels } = reconciliation.tools;
    const { name } = reconciliation.request.module;
    await store.learn(name, (release?.revision ?? 0) + 1);
    store.confirm(name, "upgrade", release);
    if (rendered === undefined) lateLabels.owe(name);
    return { action: release === undefined || release.status === "uninstalled" ? "installed" : "upgraded" };
  });
}

/** After a failure too the record is read. That cannot be cancelled, since what follows depends on it. */
async function watched({ tools, request }: Reconciliation, work: () => Promise<void>): Promise<void> {
  const { store, clock } = tools;
  const { module, signal, onWait } = request;
  try {
    await withHookWatch({ store, clock, release: module.name, signal, onWait }, work);
  } catch (error) {
    await store.refresh(module.name);
    throw error;
  }
}

function tellAdoption({ origin, tools, request }: Reconciliation): void {
  if (origin !== "hand") return;
  const release = request.module.name;
  tools.logger.warn("A release that somebody made with helm is taken over", { release });
  tools.recorder?.adopted(release);
}

/** A hook of a chart that helm waits for. */
export interface HelmHook {
  /** E.g. `Job/migrate (pre-upgrade)`. */
  readonly name: string;
  /** In ms since the epoch. */
  readonly since: number;
}

export type OnWait = (hook: HelmHook | undefined) => void;

/** One run of helm. */
export interface Watched {
  readonly store: Pick<ReleaseStore, "get" | "record">;
  readonly clock: Clock;
  readonly release: string;
  readonly signal: AbortSignal;
  readonly onWait?: OnWait | undefined;
}

/** Most runs are over by then, and cost no request. */
const FIRST_MS = 10_000;
const LONGEST_MS = 60_000;

/**
 * Runs helm. When it takes long, tells which of the chart's hooks it waits for, as helm notes it in the record of
 * the release. A HelmError after such a wait names the hook.
 */
export async function withHookWatch<T>(watched: Watched, helm: () => Promise<T>): Promise<T> {
  const watch = new HookWatch(watched);
  try {
    return await helm();
  } catch (error) {
    throw await watch.blame(error);
  } finally {
    watch.end();
  }
}

class HookWatch {
  readonly #watched: Watched;
  readonly #from: number;
  readonly #ended = new AbortController();
  #timer: Timer;
  /** Status of the release while helm works: it shows what helm does. */
  #status: string | undefined;
  #told: string | undefined;

  constructor(watched: Watched) {
    this.#watched = watched;
    this.#from = watched.clock.now();
    this.#timer = this.#later(FIRST_MS);
  }

  end(): void {
    this.#ended.abort();
    this.#timer.cancel();
  }

  /** The same error with the name of the hook that helm waited for, if any. */
  async blame(failure: unknown): Promise<unknown> {
    this.end();
    const { signal } = this.#watched;
    if (this.#status === undefined || !(failure instanceof HelmError) || signal.aborted) return failure;
    const hook = await this.#begun(["Running", "Failed"], signal).catch(() => undefined);
    return hook === undefined ? failure : new HelmError(failure.verb, failure.result, hook.name);
  }

  #later(ms: number): Timer {
    return this.#watched.clock.setTimer(ms, () => this.#look(ms));
  }

  async #look(ms: number): Promise<void> {
    const signal = this.#ended.signal;
    // What cannot be read now may be readable at the next look; it is only for people.
    const hook = await this.#begun(["Running"], signal).catch(() => undefined);
    if (signal.aborted) return;
    this.#tell(hook);
    this.#timer = this.#later(Math.min(ms * 2, LONGEST_MS));
  }

  #tell(hook: HelmHook | undefined): void {
    const now = hook && `${hook.name} ${hook.since}`;
    if (now === this.#told) return;
    this.#told = now;
    this.#watched.onWait?.(hook);
  }

  /** The hook that this run of helm started last, if it is in one of these phases. */
  async #begun(phases: readonly string[], signal: AbortSignal): Promise<HelmHook | undefined> {
    const { store, release } = this.#watched;
    const meta = store.get(release);
    if (meta === undefined) return undefined;
    if (isUnfinished(meta.status)) this.#status = meta.status;
    if (this.#status === undefined) return undefined;
    const { hooks } = await store.record(meta, signal);
    const begun = hooks.filter(({ startedAt = 0 }) => startedAt >= this.#from);
    const [last] = begun.toSorted((a, b) => (b.startedAt ?? 0) - (a.startedAt ?? 0));
    if (last?.startedAt === undefined || !phases.includes(last.phase ?? "")) return undefined;
    return { name: nameOf(last, this.#status), since: last.startedAt };
  }
}

/** Of a hook's events, those that belong to what helm does are named. */
function nameOf({ object, events }: HookRecord, status: string): string {
  const verb = status === "uninstalling" ? "delete" : status.replace("pending-", "");
  const own = events.filter((event) => event.endsWith(`-${verb}`));
  return `${object} (${own.join(", ")})`;
}
