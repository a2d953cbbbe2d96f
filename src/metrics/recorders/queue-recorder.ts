/** Records the state of queues in their series. */

import type { SeriesRegistry } from "../registry.ts";

/** A queue as it is now. */
interface QueueSample {
  readonly queue: string;
  readonly length: number;
  readonly head?:
    | { readonly type: string; readonly module?: string | undefined; readonly hook?: string | undefined }
    | undefined;
}

/** What is recorded about queues. */
export interface QueueRecorder {
  /** All queues as they are now; gauges of queues that are not named are dropped. */
  stand(samples: readonly QueueSample[]): void;
  waited(task: {
    module?: string | undefined;
    hook?: string | undefined;
    binding?: string | undefined;
    queue: string;
    seconds: number;
  }): void;
  acted(action: { queue: string; action: string; seconds: number }): void;
}

/** The series of queues. */
export function queueRecorder(registry: SeriesRegistry): QueueRecorder {
  return {
    stand(samples) {
      registry.clear("queueLength");
      registry.clear("queueHead");
      for (const { queue, length, head } of samples) {
        registry.set("queueLength", { queue }, length);
        if (head === undefined) continue;
        const { type, module = "", hook = "" } = head;
        registry.set("queueHead", { queue, module, task_type: type, hook }, 1);
      }
    },
    waited: ({ module = "", hook = "", binding = "", queue, seconds }) =>
      registry.add("taskWait", { module, hook, binding, queue }, seconds),
    acted: ({ queue, action, seconds }) =>
      registry.observe("queueAction", { queue_name: queue, queue_action: action }, seconds),
  };
}
