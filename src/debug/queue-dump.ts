/** The queues as data and as text, for the debug commands and the HTTP port, and in a file in /tmp after each change. */

import { constants } from "node:fs";
import { open } from "node:fs/promises";

import { formatDuration, type Clock, type KnownSecrets } from "../lib/index.ts";
import { describeTask, MAIN_QUEUE, type Task } from "../model/index.ts";
import type { QueueView, TaskView } from "../queue/index.ts";

/** JSON form of `queue list`. */
export interface QueueDump {
  readonly active: readonly {
    readonly name: string;
    readonly tasksCount: number;
    readonly status: string;
    readonly tasks: readonly { readonly index: number; readonly description: string }[];
  }[];
  readonly empty?: readonly { readonly name: string; readonly tasksCount: 0 }[];
  readonly summary: {
    readonly mainQueueTasks: number;
    readonly otherQueues: { readonly active: number; readonly empty: number; readonly tasks: number };
    readonly totalTasks: number;
  };
}

/** What a dump depends on beside the queues. */
export interface DumpContext {
  /** In ms since the epoch, for countdowns. */
  readonly now: number;
  /** Messages of failures may contain output of hooks. */
  readonly secrets: KnownSecrets;
}

/** The queues as data. */
export function dumpQueues(
  queues: readonly QueueView<Task>[],
  context: DumpContext,
  showEmpty = false,
): QueueDump {
  const active = queues.filter((queue) => queue.length > 0);
  const empty = queues.filter((queue) => queue.length === 0);
  const others = active.filter((queue) => queue.name !== MAIN_QUEUE);
  const count = (list: readonly QueueView<Task>[]): number =>
    list.reduce((sum, queue) => sum + queue.length, 0);
  return {
    active: active.map((queue) => ({
      name: queue.name,
      tasksCount: queue.length,
      status: statusOf(queue, context.now),
      tasks: queue.tasks.map((task, index) => ({ index: index + 1, description: describe(task, context) })),
    })),
    ...(showEmpty ? { empty: empty.map(({ name }) => ({ name, tasksCount: 0 as const })) } : {}),
    summary: {
      mainQueueTasks: count(active) - count(others),
      otherQueues: {
        active: others.length,
        empty: empty.filter((queue) => queue.name !== MAIN_QUEUE).length,
        tasks: count(others),
      },
      totalTasks: count(active),
    },
  };
}

/** The same as text for people. */
export function queueText(dump: QueueDump): string {
  const blocks = dump.active.map(
    (queue) =>
      `Queue '${queue.name}': length ${queue.tasksCount}, status: '${queue.status}'\n\n` +
      queue.tasks.map((task) => `${String(task.index).padStart(2)}. ${task.description}`).join("\n"),
  );
  if (dump.empty !== undefined && dump.empty.length > 0) {
    blocks.push(
      `Empty queues (${dump.empty.length}):\n${dump.empty.map((queue) => `- ${queue.name}`).join("\n")}`,
    );
  }
  return `${[...blocks, summary(dump)].join("\n\n")}\n`;
}

function summary({ summary: sum }: QueueDump): string {
  const tasks = (count: number): string => `${count} task${count === 1 ? "" : "s"}`;
  const { active, empty, tasks: waiting } = sum.otherQueues;
  return [
    "Summary:",
    `- 'main' queue: ${sum.mainQueueTasks === 0 ? "empty" : tasks(sum.mainQueueTasks)}.`,
    `- ${active + empty} other queues (${active} active, ${empty} empty): ${tasks(waiting)}.`,
    sum.totalTasks === 0 ? "- no tasks to handle." : `- total ${tasks(sum.totalTasks)} to handle.`,
  ].join("\n");
}

function statusOf(queue: QueueView<Task>, now: number): string {
  const head = queue.tasks[0];
  if (head === undefined) return "empty";
  if (head.running) return head.failures > 0 ? "repeat head task" : "run first task";
  if (head.nextAt === undefined)
    return head.task.slot === undefined ? "waiting for task" : "waits until fewer modules run";
  const reason = head.failures > 0 ? "sleep after fail" : "wait for the hook's rate limit";
  return `${reason}, ${formatDuration(Math.max(0, head.nextAt - now))} left`;
}

function describe(view: TaskView<Task>, { now, secrets }: DumpContext): string {
  const parts = [describeTask(view.task)];
  if (view.count > 1) parts.push(`in ${view.count} contexts`);
  if (view.dropped !== undefined && view.dropped > 0) parts.push(`${view.dropped} later ticks dropped`);
  if (view.failures > 0)
    parts.push(
      `failed ${view.failures} time${view.failures === 1 ? "" : "s"}: ${secrets.redact(view.message ?? "")}`,
    );
  if (view.nextAt !== undefined) parts.push(`next try in ${formatDuration(Math.max(0, view.nextAt - now))}`);
  return parts.join("; ");
}

/** A burst of changes is written once, after this long. */
const SETTLE_MS = 100;
const OWNER_ONLY = 0o600;
const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `/tmp/addon-operator-queue`: the queues as text. Errors are ignored; writes follow one another. */
export class QueueFile {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #text: () => string;
  #isDue = false;
  /** Resolves when all changes so far are written. */
  written = Promise.resolve();

  constructor(path: string, clock: Clock, text: () => string) {
    this.#path = path;
    this.#clock = clock;
    this.#text = text;
  }

  /** Notes that the queues have changed. */
  changed(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.setTimer(SETTLE_MS, () => {
      this.#isDue = false;
      this.written = this.written.then(() => writePrivately(this.#path, this.#text())).catch(() => {});
    });
  }
}

/** Everybody may write to /tmp: what somebody else put in this place (a link, a pipe, a file) is left alone. */
async function writePrivately(path: string, text: string): Promise<void> {
  const file = await open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, OWNER_ONLY);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.nlink > 1 || found.uid !== process.getuid?.()) return;
    await file.chmod(OWNER_ONLY);
    await file.truncate();
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
