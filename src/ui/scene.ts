/** What the tables of the page show at one moment; secrets are still in the texts. */

import { describeTask, type Task } from "../model/index.ts";
import type { Moment } from "../plan/index.ts";
import type { QueueView, TaskView } from "../queue/index.ts";
import { overviewOf } from "../status/index.ts";
import type { Scene } from "./board.ts";
import type { ModuleRow, OperatorRow, QueueRow, TaskRow } from "./wire.ts";

/** Of a queue; the others are counted. */
const MOST_TASKS = 50;

/** The tables at `now` (ms since the epoch). Nothing in them moves with the time alone. */
export function sceneOf(
  at: Moment,
  now: number,
  about: Pick<OperatorRow, "version" | "name" | "namespace">,
): Scene {
  const { state, ready, message, modules, converge } = overviewOf(at, now);
  const { progress, waitingSeconds } = converge;
  return {
    operator: [
      {
        ...about,
        state,
        ready,
        message,
        ...(progress !== undefined && { progress }),
        ...(waitingSeconds !== undefined && { waitingSeconds }),
      },
    ],
    modules: modules.map(timeless),
    queues: at.queues.filter(({ length }) => length > 0).map(queueRow),
  };
}

/** Of a run under way the page counts the seconds itself. */
function timeless({ lastRun, ...row }: ReturnType<typeof overviewOf>["modules"][number]): ModuleRow {
  if (lastRun === undefined || lastRun.result !== undefined) return { ...row, ...(lastRun && { lastRun }) };
  const { seconds: _, ...run } = lastRun;
  return { ...row, lastRun: run };
}

function queueRow({ name, length, tasks }: QueueView<Task>): QueueRow {
  return { name, length, tasks: tasks.slice(0, MOST_TASKS).map(taskRow) };
}

function taskRow({ task, running, failures, message, nextAt, count }: TaskView<Task>): TaskRow {
  const more = count > 1 ? ` (${count} together)` : "";
  return {
    text: `${describeTask(task)}${more}`,
    running,
    failures,
    ...(failures > 0 && message !== undefined && { message }),
    ...(nextAt !== undefined && { nextAt }),
  };
}
