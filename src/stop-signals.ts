/** Turns SIGTERM and SIGINT into a request to stop; loaded before anything else of the operator. */

/** A request to stop, and its listener. */
export interface StopRequest {
  readonly stop: AbortController;
  /** Calls `listener` with the signal, at once if it has arrived before. */
  onSignal(listener: (signal: string) => void): void;
  /** No longer handles signals. */
  end(): void;
}

/** Installs signal handlers: the first signal requests a stop, the second ends the process at once. */
export function stopOnSignals(): StopRequest {
  const stop = new AbortController();
  let notify: (signal: string) => void = (signal) => void (received = signal);
  let received: string | undefined;
  const signals = ["SIGTERM", "SIGINT"] as const;
  const handle = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(1);
    notify(signal);
    stop.abort(new Error("asked to stop"));
  };
  for (const signal of signals) process.on(signal, handle);
  return {
    stop,
    onSignal: (listener) => {
      notify = listener;
      if (received !== undefined) listener(received);
    },
    end: () => {
      for (const signal of signals) process.off(signal, handle);
    },
  };
}
