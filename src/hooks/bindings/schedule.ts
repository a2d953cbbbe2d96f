/** Schedule bindings: they run at the times of a crontab (docs/reference/hooks.md, "Schedules"). */

import { CronTable, parseCrontab } from "../cron/index.ts";
import { oneLine, type Clock } from "../../base/index.ts";
import type { Hook, HookTrigger, JsonObject, ScheduleBinding } from "../../base/model/index.ts";
import { ITEM_FIELDS, readCommonBinding, nonEmptyList } from "./kind.ts";
import type { BindingKind, BindingReadOptions, Triggers } from "./kind.ts";
import { BOOLEAN_SHAPE, STRING_SHAPE, objectShape, type ValueOf } from "./shape.ts";

const required = ["crontab"] as const;
const V1_ITEM_SHAPE = objectShape({ ...ITEM_FIELDS, crontab: STRING_SHAPE }, { required });
const V0_ITEM_SHAPE = objectShape(
  { name: STRING_SHAPE, crontab: STRING_SHAPE, allowFailure: BOOLEAN_SHAPE },
  { required, open: true },
);

export const schedule: BindingKind<ScheduleBinding> = {
  shapesByVersion: {
    v0: { schedule: nonEmptyList(V0_ITEM_SHAPE) },
    v1: { schedule: nonEmptyList(V1_ITEM_SHAPE) },
  },
  read,
};

/** Reads the schedule bindings of a configuration, and checks their crontabs. */
function read(config: JsonObject, { complain, warn, queue }: BindingReadOptions): ScheduleBinding[] {
  // The shape was checked before.
  const raw = (config["schedule"] ?? []) as unknown as ValueOf<typeof V1_ITEM_SHAPE>[];
  return raw.map((item, index) => {
    const common = readCommonBinding(item, { key: "schedule", index }, queue);
    try {
      // The Go operators know only the other prefix.
      if (item.crontab.trim().startsWith("CRON_TZ="))
        throw new Error(`write TZ=, not CRON_TZ=: ${item.crontab}`);
      const { warning } = parseCrontab(item.crontab);
      if (warning !== undefined) warn(`${common.id}.crontab: ${warning}`);
    } catch (error) {
      complain(`${common.id}.crontab is invalid: ${oneLine(error)}`);
    }
    return { type: "schedule", ...common, crontab: item.crontab };
  });
}

export interface ScheduleOptions {
  readonly clock: Clock;
  /** The default time zone of crontabs; undefined = that of the system. */
  readonly zone: string | undefined;
  readonly emit: (hook: Hook, trigger: HookTrigger) => void;
}

/** Triggers hooks at the times of their crontabs, with one timer for each crontab line. Hooks that share a line run in alphabetical order. */
export class Schedules implements Triggers {
  readonly #table: CronTable;
  readonly #emit: ScheduleOptions["emit"];
  readonly #hooks = new Map<string, Hook>();
  /** One subscription for each crontab line that some hook has. */
  readonly #unsubscribeByCrontab = new Map<string, () => void>();

  constructor({ emit, ...options }: ScheduleOptions) {
    this.#table = new CronTable(options);
    this.#emit = emit;
  }

  /** Triggers the hook at the times of its crontabs; a changed hook replaces the former one. Hooks with equal crontab lines share one subscription. */
  enable(hook: Hook): void {
    if (hook.config.bindings.schedule.length === 0) return this.disable(hook);
    this.#hooks.set(hook.id, hook);
    for (const { crontab } of hook.config.bindings.schedule) {
      if (this.#unsubscribeByCrontab.has(crontab)) continue;
      const unsubscribe = this.#table.add(crontab, () => this.#triggerHooks(crontab));
      this.#unsubscribeByCrontab.set(crontab, unsubscribe);
    }
    this.#unsubscribeUnused();
  }

  disable(hook: Hook): void {
    if (this.#hooks.delete(hook.id)) this.#unsubscribeUnused();
  }

  /** Ends all subscriptions: no hook is triggered any more. */
  close(): void {
    for (const unsubscribe of this.#unsubscribeByCrontab.values()) unsubscribe();
    this.#unsubscribeByCrontab.clear();
    this.#hooks.clear();
    this.#table.close();
  }

  /** Ends the subscriptions of crontab lines that no hook has any more. */
  #unsubscribeUnused(): void {
    const bindings = [...this.#hooks.values()].flatMap(({ config }) => config.bindings.schedule);
    const usedCrontabs = new Set(bindings.map(({ crontab }) => crontab));
    for (const [crontab, unsubscribe] of this.#unsubscribeByCrontab) {
      if (usedCrontabs.has(crontab)) continue;
      unsubscribe();
      this.#unsubscribeByCrontab.delete(crontab);
    }
  }

  /** Triggers all bindings with this crontab line, in the order of the hooks' ids. */
  #triggerHooks(crontab: string): void {
    for (const hook of [...this.#hooks.values()].sort((a, b) => (a.id < b.id ? -1 : 1))) {
      for (const binding of hook.config.bindings.schedule) {
        if (binding.crontab === crontab) this.#emit(hook, { type: "schedule", binding });
      }
    }
  }
}
