/** The queues as data and as text, for debug commands, the HTTP port and a file. */

import { constants } from "node:fs";
import { open } from "node:fs/promises";

import { formatDuration, type Clock, type KnownSecrets } from "../../base/index.ts";
import { describeTask, MAIN_QUEUE, type Task } from "../../base/model/index.ts";
import type { QueueView, TaskView } from "../../engine/queue/index.ts";
import { Loop } from "../../runtime/index.ts";

/** JSON form of `queue list`. */
export type QueueDump = ReturnType<typeof dumpQueues>;

export interface DumpContext {
  /** In ms since the epoch, for countdowns. */
  readonly now: number;
  /** Failure messages may contain output of hooks. */
  readonly secrets: KnownSecrets;
}

/** The queues as data, with the member names of the Go operator. Tasks that run together, such as merged runs of a hook, are one. `showEmpty`: lists empty queues, too. */
export function dumpQueues(queues: readonly QueueView<Task>[], context: DumpContext, showEmpty = false) {
  const active = queues.filter((queue) => queue.length > 0);
  const empty = queues.filter((queue) => queue.length === 0);
  const others = active.filter((queue) => queue.name !== MAIN_QUEUE);
  const countTasks = (list: readonly QueueView<Task>[]): number => list.flatMap(({ tasks }) => tasks).length;
  return {
    active: active.map((queue) => dumpQueue(queue, context)),
    ...(showEmpty ? { empty: empty.map(({ name }) => ({ name, tasksCount: 0 as const })) } : {}),
    summary: {
      mainQueueTasks: countTasks(active) - countTasks(others),
      otherQueues: {
        active: others.length,
        empty: empty.filter((queue) => queue.name !== MAIN_QUEUE).length,
        tasks: countTasks(others),
      },
      totalTasks: countTasks(active),
    },
  };
}

/** One queue as data, as `queue main` of the Go operator prints it. */
export function dumpQueue(queue: QueueView<Task>, context: DumpContext) {
  return {
    name: queue.name,
    tasksCount: queue.tasks.length,
    status: describeQueueStatus(queue, context.now),
    tasks: queue.tasks.map((task, index) => ({
      index: index + 1,
      description: describeTaskProgress(task, context),
    })),
  };
}

/** Renders one queue as text for people. */
export function renderQueue({ name, tasksCount, status, tasks }: ReturnType<typeof dumpQueue>): string {
  const lines = tasks.map(({ index, description }) => `${String(index).padStart(2)}. ${description}`);
  return [
    `Queue '${name}': length ${tasksCount}, status: '${status}'`,
    ...(lines.length > 0 ? ["", ...lines] : []),
  ].join("\n");
}

/** Renders a dump as text for people. */
export function renderQueues(dump: QueueDump): string {
  const blocks = dump.active.map(renderQueue);
  const emptyLines = (dump.empty ?? []).map((queue) => `- ${queue.name}`);
  if (emptyLines.length > 0) blocks.push([`Empty queues (${emptyLines.length}):`, ...emptyLines].join("\n"));
  return `${[...blocks, renderSummary(dump)].join("\n\n")}\n`;
}

/** The numbers of queues and tasks as text, for the end of a dump. */
function renderSummary({ summary }: QueueDump): string {
  const countText = (count: number): string => `${count} task${count === 1 ? "" : "s"}`;
  const { active, empty, tasks: waiting } = summary.otherQueues;
  return [
    "Summary:",
    `- 'main' queue: ${summary.mainQueueTasks === 0 ? "empty" : countText(summary.mainQueueTasks)}.`,
    `- ${active + empty} other queues (${active} active, ${empty} empty): ${countText(waiting)}.`,
    summary.totalTasks === 0
      ? "- no tasks to handle."
      : `- total ${countText(summary.totalTasks)} to handle.`,
  ].join("\n");
}

/** What a queue does at `now`, or what it waits for, in the words of the Go operator. The head task runs, or has a time of its next try, or waits for a slot. */
function describeQueueStatus(queue: QueueView<Task>, now: number): string {
  const head = queue.tasks[0];
  if (head === undefined) return "empty";
  if (head.running) return head.failures > 0 ? "repeat head task" : "run first task";
  if (head.nextAt === undefined)
    return head.task.slot === undefined ? "waiting for task" : "waits until fewer modules run";
  const reason = head.failures > 0 ? "sleep after fail" : "wait for the hook's rate limit";
  return `${reason}, ${formatDuration(Math.max(0, head.nextAt - now))} left`;
}

/** A task with its progress and failures, in one line without secrets. */
function describeTaskProgress(view: TaskView<Task>, { now, secrets }: DumpContext): string {
  const { task, count, dropped = 0, failures, message = "", startedAt, nextAt } = view;
  const parts = [describeTask(task)];
  if (startedAt !== undefined) parts.push(`running for ${formatDuration(Math.max(0, now - startedAt))}`);
  if (count > 1) parts.push(`in ${count} contexts`);
  if (dropped > 0) parts.push(`${dropped} later ticks dropped`);
  const timesText = failures === 1 ? "1 time" : `${failures} times`;
  if (failures > 0) parts.push(`failed ${timesText}: ${secrets.redact(message)}`);
  if (nextAt !== undefined) parts.push(`next try in ${formatDuration(Math.max(0, nextAt - now))}`);
  return parts.join("; ");
}

/** Debounce of changes. */
const DEBOUNCE_MS = 100;
const OWNER_ONLY = 0o600;
const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `/tmp/addon-operator-queue`. Writes are sequential, and their errors are ignored. */
export class QueueFile {
  readonly #loop: Loop;
  lastWrite = Promise.resolve();

  constructor(path: string, clock: Clock, renderText: () => string) {
    const write = (): Promise<void> => (this.lastWrite = writeOwnFile(path, renderText()).catch(() => {}));
    this.#loop = new Loop({ clock, run: write, retry: DEBOUNCE_MS });
  }

  /** Schedules a write after `DEBOUNCE_MS`. Call it when the queues have changed. */
  scheduleWrite(): void {
    this.#loop.trigger(DEBOUNCE_MS);
  }
}

/**
 * Writes the file only if it is a plain file of this user, because every user may create files in /tmp. O_NOFOLLOW refuses
 * a link; with O_NONBLOCK, opening a pipe does not wait for a reader.
 */
async function writeOwnFile(path: string, text: string): Promise<void> {
  const file = await open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, OWNER_ONLY);
  try {
    const stats = await file.stat();
    if (!stats.isFile() || stats.nlink > 1 || stats.uid !== process.getuid?.()) return;
    await file.chmod(OWNER_ONLY);
    await file.truncate();
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
