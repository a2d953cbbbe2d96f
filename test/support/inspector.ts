import type { OperatorProcess } from "../../scripts/operator.mjs";
import { eventually } from "./cluster.ts";

/** Bytes of the heap of an operator, started with `--inspect-port=127.0.0.1:0`, that a full collection does not free. */
export async function retainedHeap(operator: OperatorProcess): Promise<number> {
  process.kill(operator.pid ?? 0, "SIGUSR1");
  const address = (): string => /Debugger listening on (ws:\S+)/.exec(operator.log())?.[1] ?? "";
  await eventually(() => address() !== "", "the inspector listens");
  const socket = new WebSocket(address());
  const answers = new Map<number, (result: Record<string, number>) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data)) as { id: number; result: Record<string, number> };
    answers.get(id)?.(result);
  });
  await new Promise((done, failed) => {
    socket.addEventListener("open", done);
    socket.addEventListener("error", failed);
  });
  const call = (id: number, method: string): Promise<Record<string, number>> => {
    const answer = new Promise<Record<string, number>>((done) => answers.set(id, done));
    socket.send(JSON.stringify({ id, method }));
    return answer;
  };
  try {
    await call(1, "HeapProfiler.collectGarbage");
    return (await call(2, "Runtime.getHeapUsage"))["usedSize"] ?? Number.NaN;
  } finally {
    socket.close();
  }
}
