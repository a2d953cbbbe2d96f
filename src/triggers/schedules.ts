/** Schedule bindings of hooks (docs/HOOKS.md, "Schedules"). */

import type { CronTable } from "../cron/index.ts";
import type { Hook, HookTrigger } from "../model/index.ts";

/** A tick of a schedule binding. */
export type Tick = (hook: Hook, trigger: HookTrigger & { type: "schedule" }) => void;

/**
 * Schedule bindings of hooks. Each crontab line has one subscription here; hooks that share a line fire in
 * alphabetical order.
 */
export class Schedules {
  readonly #table: CronTable;
  readonly #tick: Tick;
  readonly #hooks = new Map<string, Hook>();
  readonly #lines = new Map<string, () => void>();

  constructor(table: CronTable, tick: Tick) {
    this.#table = table;
    this.#tick = tick;
  }

  /** Starts the schedules of a hook; enabling twice changes nothing, a new configuration replaces the old one. */
  enable(hook: Hook): void {
    if (hook.config.schedules.length === 0) return this.disable(hook);
    this.#hooks.set(hook.id, hook);
    for (const { crontab } of hook.config.schedules) {
      if (!this.#lines.has(crontab))
        this.#lines.set(
          crontab,
          this.#table.add(crontab, () => this.#fire(crontab)),
        );
    }
    this.#endUnused();
  }

  /** Ends the schedules of a hook. */
  disable(hook: Hook): void {
    if (this.#hooks.delete(hook.id)) this.#endUnused();
  }

  close(): void {
    for (const end of this.#lines.values()) end();
    this.#lines.clear();
    this.#hooks.clear();
  }

  #endUnused(): void {
    const used = new Set(
      [...this.#hooks.values()].flatMap((each) => each.config.schedules.map((binding) => binding.crontab)),
    );
    for (const [line, end] of this.#lines) {
      if (used.has(line)) continue;
      end();
      this.#lines.delete(line);
    }
  }

  #fire(line: string): void {
    for (const hook of [...this.#hooks.values()].sort((a, b) => (a.id < b.id ? -1 : 1))) {
      for (const binding of hook.config.schedules) {
        if (binding.crontab === line) this.#tick(hook, { type: "schedule", binding });
      }
    }
  }
}
