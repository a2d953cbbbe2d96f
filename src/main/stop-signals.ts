/** Turns SIGTERM and SIGINT into a request to stop; loaded before anything else of the operator. */

/** A request to stop, and its listener. */
export interface StopRequest {
  /** Aborted by the first signal. */
  readonly abortController: AbortController;
  /** Calls `listener` with the signal, at once if it has arrived before. */
  onSignal(listener: (signal: string) => void): void;
  /** Removes the signal handlers: the next signal then ends the process. */
  removeHandlers(): void;
}

/**
 * Installs signal handlers: the first signal requests a stop, the second ends the process at once. Installed before the rest is
 * loaded, because PID 1 of a container ignores signals without a handler.
 */
export function handleStopSignals(): StopRequest {
  const stop = new AbortController();
  let receivedSignal: string | undefined;
  let signalListener: ((signal: string) => void) | undefined;
  const signals = ["SIGTERM", "SIGINT"] as const;
  const handle = (signal: NodeJS.Signals): void => {
    if (stop.signal.aborted) process.exit(1);
    receivedSignal = signal;
    signalListener?.(signal);
    stop.abort(new Error("asked to stop"));
  };
  for (const signal of signals) process.on(signal, handle);
  return {
    abortController: stop,
    // The signal may have come before anyone listens.
    onSignal: (listener) => {
      signalListener = listener;
      if (receivedSignal !== undefined) listener(receivedSignal);
    },
    removeHandlers: () => {
      for (const signal of signals) process.off(signal, handle);
    },
  };
}
