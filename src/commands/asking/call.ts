/** A request to the operator, and that there is none. */

/** A request to the debug socket, as a command makes it. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly form?: Readonly<Record<string, string>>;
}

/** A request for what is at this path. */
export function get(path: string): Call {
  return { method: "GET", path };
}

/** Nothing answers on the debug socket. */
export class NoOperatorError extends Error {}
