/** Schedule bindings: they run when a crontab says so (docs/HOOKS.md, "Schedules"). */

import { CronTable, parseCrontab } from "../cron/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Hook, JsonObject, ScheduleBinding } from "../model/index.ts";
import { ITEM_FIELDS, itemBinding, items } from "./kind.ts";
import type { BindingKind, Reading, Source, SourceOptions } from "./kind.ts";
import { BOOLEAN, STRING, object, type Fits } from "./shape.ts";

const required = ["crontab"] as const;
const V1 = object({ ...ITEM_FIELDS, crontab: STRING }, { required });
const V0 = object({ name: STRING, crontab: STRING, allowFailure: BOOLEAN }, { required, open: true });

export const schedule: BindingKind<ScheduleBinding> = {
  keys: { v0: { schedule: items(V0) }, v1: { schedule: items(V1) } },
  read,
  context: () => ({ type: "Schedule" }),
  joins: () => true,
  activation: () => "Schedule",
  source: (options) => new Schedules(options),
};

function read(config: JsonObject, { complain, warn, queue }: Reading): ScheduleBinding[] {
  // The form was checked before.
  const raw = (config["schedule"] ?? []) as unknown as Fits<typeof V1>[];
  return raw.map((item, index) => {
    const common = itemBinding(item, { key: "schedule", index }, queue);
    try {
      const { warning } = parseCrontab(item.crontab);
      if (warning !== undefined) warn(`${common.id}.crontab: ${warning}`);
    } catch (error) {
      complain(`${common.id}.crontab is invalid: ${oneLine(error)}`);
    }
    return { type: "schedule", ...common, crontab: item.crontab };
  });
}

/** Each crontab line has one subscription here; hooks that share a line fire in alphabetical order. */
class Schedules implements Source {
  readonly #table: CronTable;
  readonly #emit: SourceOptions["emit"];
  readonly #hooks = new Map<string, Hook>();
  /** By crontab: what ends its subscription. */
  readonly #lines = new Map<string, () => void>();

  constructor({ emit, ...options }: SourceOptions) {
    this.#table = new CronTable(options);
    this.#emit = emit;
  }

  enable(hook: Hook): void {
    if (hook.config.bindings.schedule.length === 0) return this.disable(hook);
    this.#hooks.set(hook.id, hook);
    for (const { crontab } of hook.config.bindings.schedule) {
      if (this.#lines.has(crontab)) continue;
      const end = this.#table.add(crontab, () => this.#fire(crontab));
      this.#lines.set(crontab, end);
    }
    this.#endUnused();
  }

  disable(hook: Hook): void {
    if (this.#hooks.delete(hook.id)) this.#endUnused();
  }

  close(): void {
    for (const end of this.#lines.values()) end();
    this.#lines.clear();
    this.#hooks.clear();
    this.#table.close();
  }

  #endUnused(): void {
    const bindings = [...this.#hooks.values()].flatMap(({ config }) => config.bindings.schedule);
    const used = new Set(bindings.map(({ crontab }) => crontab));
    for (const [line, end] of this.#lines) {
      if (used.has(line)) continue;
      end();
      this.#lines.delete(line);
    }
  }

  #fire(line: string): void {
    for (const hook of [...this.#hooks.values()].sort((a, b) => (a.id < b.id ? -1 : 1))) {
      for (const binding of hook.config.bindings.schedule) {
        if (binding.crontab === line) this.#emit(hook, { type: "schedule", binding });
      }
    }
  }
}
