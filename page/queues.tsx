/** The current queues. */

import type { QueueRow, TaskRow } from "../src/surface/ui/wire.ts";
import { now, queues } from "./live.ts";
import { State } from "./state.tsx";
import { formatDuration } from "./format.ts";

export function Queues() {
  const all = [...queues.value.values()].sort(compareMainFirst);
  return (
    <>
      <h2 class="visually-hidden">Queues</h2>
      {all.length === 0 && <p class="hint">All queues are empty.</p>}
      <div class="cards">
        {all.map((queue) => (
          <Queue key={queue.name} queue={queue} />
        ))}
      </div>
    </>
  );
}

function compareMainFirst(a: QueueRow, b: QueueRow): number {
  if (a.name === "main" || b.name === "main") return a.name === "main" ? -1 : 1;
  return a.name < b.name ? -1 : 1;
}

function Queue({ queue: { name, length, tasks } }: { readonly queue: QueueRow }) {
  return (
    <section class="card" aria-label={`Queue ${name}`}>
      <h3>
        {name} <span class="count">{length}</span>
      </h3>
      <ol>
        {tasks.map((task, index) => (
          <Task key={index} task={task} />
        ))}
      </ol>
      {length > tasks.length && <p class="faint">and {length - tasks.length} more</p>}
    </section>
  );
}

function Task({ task }: { readonly task: TaskRow }) {
  const { text, failures, message } = task;
  return (
    <li>
      <div class="task">
        <State {...taskState(task)} />
        <span>{text}</span>
      </div>
      {message !== undefined && (
        <p class="error-text">
          Failed {failures} {failures === 1 ? "time" : "times"}: {message}
        </p>
      )}
    </li>
  );
}

/** Name (for the colour) and text of the state of a task; a waiting task displays when it is tried again. */
function taskState({ running, failures, nextAt }: TaskRow): { name: string; text: string } {
  if (running) return { name: "Running", text: "running" };
  if (nextAt === undefined) return { name: "Disabled", text: "waiting" };
  const left = formatDuration(Math.max(0, Math.round((nextAt - now.value) / 1000)));
  return { name: failures > 0 ? "Failed" : "Pending", text: `in ${left}` };
}
